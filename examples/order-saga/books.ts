/**
 * The audit: our books against the provider's. Every rule is a sentence with a number that must be 0.
 */
import { listDeadLetters, listSagas, outboxLag, type SagaKit } from '@fencepost/saga'
import type { Provider } from '../support/payment-provider.ts'

export type Books = {
  readonly orders: Readonly<Record<string, number>>
  readonly charged: number
  readonly refunded: number
  readonly revenue: number
  readonly stockSold: number
  readonly deadLetters: number
  /** Sagas that wait for a person, and dead letters, each with its reason. */
  readonly parked: readonly string[]
  readonly outbox: number
  /** The rules that do not balance; empty is good. */
  readonly faults: readonly string[]
}

export async function audit(kit: SagaKit, provider: Provider, placed: ReadonlySet<string>): Promise<Books> {
  const one = async (text: string): Promise<number> =>
    Number((await kit.pool.query(`SELECT (${text}) AS n`)).rows[0].n ?? 0)
  const { rows } = await kit.pool.query('SELECT id, state, amount FROM orders')
  const state = new Map<string, string>(rows.map((row) => [row.id, row.state]))
  const amount = new Map<string, number>(rows.map((row) => [row.id, Number(row.amount)]))
  const charges = [...provider.charges.values()]
  const kept = charges.filter(({ refunded }) => !refunded)
  const keptPerOrder = Map.groupBy(kept, ({ orderId }) => orderId)
  const chargesPerOrder = Map.groupBy(charges, ({ orderId }) => orderId)
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
  const s = kit.schema
  const completed = rows.filter((row) => row.state === 'completed')
  const lag = await outboxLag(kit)
  const ledgerRevenue = await one(`SELECT sum(amount) FROM ledger WHERE entry = 'completed'`)
  const revenue = sum(kept.map((charge) => charge.amount))

  const parked = await waitingForAPerson(kit)

  const rules: readonly (readonly [sentence: string, count: number])[] = [
    ['orders placed and not in the books', [...placed].filter((id) => !state.has(id)).length],
    [
      'orders neither completed nor failed',
      rows.filter((row) => !['completed', 'failed'].includes(row.state)).length,
    ],
    [
      'orders charged twice at the provider',
      [...chargesPerOrder.values()].filter((list) => list.length > 1).length,
    ],
    [
      'completed orders without exactly one kept charge',
      completed.filter((row) => keptPerOrder.get(row.id)?.length !== 1).length,
    ],
    [
      'failed orders whose charge was kept',
      kept.filter(({ orderId }) => state.get(orderId) !== 'completed').length,
    ],
    [
      'charges of another amount than the order',
      charges.filter((charge) => amount.get(charge.orderId) !== charge.amount).length,
    ],
    [
      'orders with more or less than one line in the ledger',
      await one(
        `SELECT count(*) FROM (SELECT o.id FROM orders o LEFT JOIN ledger l ON l.order_id = o.id GROUP BY o.id HAVING count(l.at) <> 1) x`,
      ),
    ],
    [
      'ledger lines that contradict their order',
      await one('SELECT count(*) FROM ledger l JOIN orders o ON o.id = l.order_id WHERE l.entry <> o.state'),
    ],
    ['cents between ledger and provider', Math.abs(ledgerRevenue - revenue)],
    [
      'cents between payments and provider',
      Math.abs((await one('SELECT sum(amount) FROM payments')) - revenue),
    ],
    [
      'pieces missing or too many in stock',
      await one(
        `SELECT sum(abs(s.initial - s.pieces - (SELECT count(*) FROM orders o WHERE o.article = s.id AND o.state = 'completed'))) FROM stock s`,
      ),
    ],
    ['messages left in the outbox', lag.pending + lag.parked],
    ['sagas parked, or messages dead', parked.length],
    ['of these without a reason', parked.filter((line) => line.endsWith(': ')).length],
    [
      'sagas not at an end',
      await one(`SELECT count(*) FROM ${s}.saga_instances WHERE status NOT IN ('completed', 'compensated')`),
    ],
  ]
  return {
    orders: Object.fromEntries(
      [...Map.groupBy(rows, (row) => row.state)].map(([name, list]) => [name, list.length]),
    ),
    charged: charges.length,
    refunded: charges.length - kept.length,
    revenue,
    stockSold: await one('SELECT sum(initial - pieces) FROM stock'),
    deadLetters: await one(`SELECT count(*) FROM ${s}.dead_letters`),
    parked,
    outbox: lag.pending + lag.parked,
    faults: rules.filter(([, count]) => count !== 0).map(([sentence, count]) => `${sentence}: ${count}`),
  }
}

async function waitingForAPerson(kit: SagaKit): Promise<readonly string[]> {
  const sagas = await listSagas(kit, { statuses: ['parked'], limit: 1_000 })
  const letters = await listDeadLetters(kit, { limit: 1_000 })
  return [
    ...sagas.map(({ sagaId, lastError }) => `saga ${sagaId} is parked: ${lastError ?? ''}`),
    ...letters.map(
      ({ type, aggregateId, errorMessage }) => `${type} of ${aggregateId} is dead: ${errorMessage}`,
    ),
  ]
}
