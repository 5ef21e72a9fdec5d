/**
 * What idempotency costs: the same INSERT in a transaction of plain pg, in one of the kit, under `withIdempotency`, as a
 * replay, as a step with two transactions, and as the handler of a consumer, in turns.
 *
 *     npm run bench -- saga-overhead
 *
 *     npm run bench -- saga-overhead 200        # operations of a round; default 1000
 *
 * Database and load share this machine; only the differences within one run mean anything. PostgreSQL runs without
 * fsync, so that the disk of this machine is not measured.
 */
import { randomUUID } from 'node:crypto'
import {
  createConsumer,
  createSagaKit,
  type Delivery,
  type MessageSubscriber,
  migrate,
  runIdempotentStep,
  type Verdict,
  withIdempotency,
} from '@fencepost/saga'
import { startPostgres } from '../test/support/postgres-server.ts'
import { alternate, type Contender, closedLoop, median } from './support/rounds.ts'
import { serverTimes } from './support/server-times.ts'

await using server = await startPostgres()
const kit = createSagaKit({ pool: server.pool({ max: 16 }) })
await migrate(kit)
await kit.pool.query('CREATE TABLE entries (id bigserial PRIMARY KEY, amount int)')

type Inserting = { query(text: string, values: unknown[]): Promise<unknown> }
const insert = (tx: Inserting) => tx.query('INSERT INTO entries (amount) VALUES ($1)', [7])
let serial = 0
const request = (key: string) => ({ scope: 'bench', key, request: { amount: 7, currency: 'EUR' } })
const run = (operation: () => Promise<unknown>) => (operations: number, concurrency: number) =>
  closedLoop(operations, concurrency, async () => void (await operation()))

async function plain(): Promise<void> {
  const client = await kit.pool.connect()
  try {
    await client.query('BEGIN')
    await insert(client)
    await client.query('COMMIT')
  } finally {
    client.release()
  }
}

/** Hands deliveries over without a broker: the consumer alone is measured. */
let deliver: (delivery: Delivery) => Promise<Verdict> = async () => ({ kind: 'ack' })
const subscriber: MessageSubscriber = {
  subscribe: async (handle) => {
    deliver = handle
    return { close: async () => {} }
  },
}
await using _consumer = await createConsumer({
  kit,
  subscriber,
  consumerId: 'bench',
  handlers: { Paid: async (tx) => void (await insert(tx)) },
})
const delivery = (messageId: string): Delivery => ({
  headers: { 'fencepost-message-id': messageId, 'fencepost-type': 'Paid' },
  properties: {},
  body: '{"amount":7}',
  redelivered: false,
})
async function consume(messageId: string): Promise<void> {
  const { kind } = await deliver(delivery(messageId))
  if (kind !== 'ack') throw new Error(`a message was answered with ${kind}`)
}

const contenders: readonly Contender[] = [
  { name: 'plain pg', run: run(plain) },
  { name: 'transaction of the kit', run: run(() => kit.transaction(insert)) },
  {
    name: 'withIdempotency, first',
    run: run(() => withIdempotency(kit, request(`k${serial++}`), async (tx) => void (await insert(tx)))),
  },
  {
    name: 'withIdempotency, replay',
    run: run(() => withIdempotency(kit, request('same'), async (tx) => void (await insert(tx)))),
  },
  {
    name: 'step, two transactions',
    run: run(() =>
      runIdempotentStep(
        kit,
        { ...request(`s${serial++}`), leaseMs: 30_000 },
        {
          effect: async () => null,
          commit: async (tx) => void (await insert(tx)),
        },
      ),
    ),
  },
  { name: 'consumer, first delivery', run: run(() => consume(randomUUID())) },
  { name: 'consumer, duplicate', run: run(() => consume('same')) },
]

const operations = Number(process.argv[2] ?? 1_000)
const databaseMicros = async () => [...serverTimes().values()].reduce((sum, micros) => sum + micros, 0)
for (const concurrency of [1, 8]) {
  const measured = await alternate(contenders, operations, concurrency, 5, databaseMicros)
  const [base] = measured
  console.log(
    `\n${concurrency} in flight             per second   p50 ms   p99 ms   p50 over plain, ms   CPU µs   of the database`,
  )
  for (const one of measured) {
    const over = median(one.p50Ms) - median(base!.p50Ms)
    const cells = [
      median(one.perSecond).toFixed(0).padStart(10),
      median(one.p50Ms).toFixed(2).padStart(8),
      median(one.p99Ms).toFixed(2).padStart(8),
      over.toFixed(2).padStart(10),
      median(one.cpuMicrosPerOperation).toFixed(0).padStart(18),
      median(one.serverCpuMicrosPerOperation).toFixed(0).padStart(10),
    ]
    console.log(`  ${one.name.padEnd(26)} ${cells.join(' ')}`)
  }
}
