/**
 * What idempotency costs: the same INSERT in a plain transaction, under `withIdempotency`, as a replay, and as a step
 * with two transactions, in turns.
 *
 *     npm run bench -- saga-overhead
 *
 * Database and load share this machine; only the differences within one run mean anything. PostgreSQL runs without
 * fsync, so that the disk of this machine is not measured.
 */
import { createSagaKit, migrate, runIdempotentStep, withIdempotency } from '@fencepost/saga'
import { startPostgres } from '../test/support/postgres-server.ts'
import { alternate, type Contender, closedLoop, median } from './support/rounds.ts'

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

const contenders: readonly Contender[] = [
  { name: 'plain transaction', run: run(() => kit.transaction(insert)) },
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
]

for (const concurrency of [1, 8]) {
  const measured = await alternate(contenders, 1_000, concurrency, 5)
  const [plain] = measured
  console.log(`\n${concurrency} in flight             per second   p50 ms   p99 ms   p50 over plain, ms`)
  for (const one of measured) {
    const over = median(one.p50Ms) - median(plain!.p50Ms)
    const cells = [
      median(one.perSecond).toFixed(0).padStart(10),
      median(one.p50Ms).toFixed(2).padStart(8),
      median(one.p99Ms).toFixed(2).padStart(8),
      over.toFixed(2).padStart(10),
    ]
    console.log(`  ${one.name.padEnd(26)} ${cells.join(' ')}`)
  }
}
