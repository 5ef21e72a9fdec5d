/**
 * The audit: the books of the three services against each other's and the provider's. Every rule is a sentence with a
 * number that must be 0.
 */
import { listDeadLetters, listSagas, outboxLag, type SagaKit, type SagaStatus } from '@fencepost/saga'
import type { Provider } from '../support/payment-provider.ts'
import { type Service, services } from './messages.ts'

export type Kits = Readonly<Record<Service, SagaKit>>

export type Books = {
  readonly orders: Readonly<Record<string, number>>
  readonly charged: number
  readonly refunded: number
  readonly revenue: number
  readonly shipped: number
  /** How many sagas stand so in orders, payments and stock, for example `completed, completed, completed`. */
  readonly sagas: Readonly<Record<string, number>>
  /** Sagas that wait for a person, and dead letters, each with its reason. */
  readonly parked: readonly string[]
  /** The rules that do not balance; empty is good. */
  readonly faults: readonly string[]
}

export async function audit(kits: Kits, provider: Provider, placed: ReadonlySet<string>): Promise<Books> {
  const number = async (service: Service, text: string): Promise<number> =>
    Number((await kits[service].pool.query(`SELECT (${text}) AS n`)).rows[0].n ?? 0)
  const rowsOf = async (service: Service, text: string) => (await kits[service].pool.query(text)).rows
  const orders = await rowsOf('orders', 'SELECT id, article, state, amount FROM orders')
  const stateOf = new Map<string, string>(orders.map((row) => [row.id, row.state]))
  const amountOf = new Map<string, number>(orders.map((row) => [row.id, Number(row.amount)]))
  const completed = orders.filter(({ state }) => state === 'completed')
  const shipped = (await rowsOf('stock', 'SELECT order_id FROM shipments')).map((row) => String(row.order_id))
  const shipments = Map.groupBy(shipped, (orderId) => orderId)
  const charges = [...provider.charges.values()]
  const kept = charges.filter(({ refunded }) => !refunded)
  const keptOf = Map.groupBy(kept, ({ orderId }) => orderId)
  const revenue = kept.reduce((sum, { amount }) => sum + amount, 0)
  const sold = Map.groupBy(completed, ({ article }) => article)
  const stock = await rowsOf('stock', 'SELECT id, initial - pieces AS gone FROM stock')
  const sagas = await statesOf(kits)
  const parked = await waitingForAPerson(kits)
  const lags = await Promise.all(services.map((service) => outboxLag(kits[service])))

  const rules: readonly (readonly [sentence: string, count: number])[] = [
    ['orders placed and not in the books', [...placed].filter((id) => !stateOf.has(id)).length],
    [
      'orders neither completed nor failed',
      orders.filter(({ state }) => !['completed', 'failed'].includes(state)).length,
    ],
    [
      'orders charged twice at the provider',
      [...Map.groupBy(charges, ({ orderId }) => orderId).values()].filter((list) => list.length > 1).length,
    ],
    [
      'completed orders without exactly one kept charge',
      completed.filter(({ id }) => keptOf.get(id)?.length !== 1).length,
    ],
    [
      'failed orders whose charge was kept',
      kept.filter(({ orderId }) => stateOf.get(orderId) !== 'completed').length,
    ],
    [
      'charges of another amount than the order',
      charges.filter(({ orderId, amount }) => amountOf.get(orderId) !== amount).length,
    ],
    [
      'completed orders without exactly one shipment',
      completed.filter(({ id }) => shipments.get(id)?.length !== 1).length,
    ],
    [
      'shipments of orders that are not completed',
      shipped.filter((orderId) => stateOf.get(orderId) !== 'completed').length,
    ],
    [
      'cents between payments and provider',
      Math.abs((await number('payments', 'SELECT sum(amount) FROM payments WHERE NOT refunded')) - revenue),
    ],
    [
      'pieces missing or too many in stock',
      stock.reduce((sum, { id, gone }) => sum + Math.abs(gone - (sold.get(id)?.length ?? 0)), 0),
    ],
    [
      'messages left in an outbox',
      lags.reduce((sum, { pending, parked: stopped }) => sum + pending + stopped, 0),
    ],
    ['sagas parked, or messages dead', parked.length],
    ['of these without a reason', parked.filter((line) => line.endsWith(': ')).length],
    [
      'sagas not at an end everywhere, or not at the same',
      [...sagas.values()].filter((states) => !isOneEnd(states)).length,
    ],
    ['orders without a saga', orders.filter(({ id }) => !sagas.has(id)).length],
  ]
  return {
    orders: countsOf(orders.map(({ state }) => state)),
    charged: charges.length,
    refunded: charges.length - kept.length,
    revenue,
    shipped: shipped.length,
    sagas: countsOf(
      [...sagas.values()].map((states) => services.map((one) => states[one] ?? '-').join(', ')),
    ),
    parked,
    faults: rules.filter(([, count]) => count !== 0).map(([sentence, count]) => `${sentence}: ${count}`),
  }
}

type States = Partial<Record<Service, SagaStatus>>

/** Completed by all three services, or by each that took part without a trace. */
function isOneEnd(states: States): boolean {
  const all = services.map((service) => states[service])
  return (
    all.every((state) => state === 'completed') ||
    (states.orders === 'compensated' && all.every((state) => state === undefined || state === 'compensated'))
  )
}

/** The state of every saga in each service. */
export async function statesOf(kits: Kits): Promise<ReadonlyMap<string, States>> {
  const states = new Map<string, States>()
  for (const service of services)
    for (let after = ''; ; ) {
      const page = await listSagas(kits[service], { after, limit: 1_000 })
      for (const { sagaId, status } of page) states.set(sagaId, { ...states.get(sagaId), [service]: status })
      if (page.length < 1_000) break
      after = page.at(-1)!.sagaId
    }
  return states
}

async function waitingForAPerson(kits: Kits): Promise<readonly string[]> {
  const lists = await Promise.all(
    services.map(async (service) => {
      const sagas = await listSagas(kits[service], { statuses: ['parked'], limit: 1_000 })
      const letters = await listDeadLetters(kits[service], { limit: 1_000 })
      return [
        ...sagas.map(({ sagaId, lastError }) => `${service}: saga ${sagaId} is parked: ${lastError ?? ''}`),
        ...letters.map(
          ({ type, aggregateId, errorMessage }) =>
            `${service}: ${type} of ${aggregateId} is dead: ${errorMessage}`,
        ),
      ]
    }),
  )
  return lists.flat()
}

function countsOf(names: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...Map.groupBy(names, (name) => name)].map(([name, list]) => [name, list.length]),
  )
}
