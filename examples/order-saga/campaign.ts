/**
 * Places orders while processes are killed with SIGKILL at random, then waits until all sagas have ended and audits the
 * books.
 *
 * Owns the servers, the workers and the nemesis. Everything random comes from one seed, which is printed; what the
 * operating system does with it is not repeatable, the orders and the moods of the provider are.
 */
import { createSagaKit, migrate, publish, type SagaKit, withIdempotency } from '@fencepost/saga'
import { type PostgresServer, startPostgres } from '../../test/support/postgres-server.ts'
import { TestProcess } from '../../test/support/processes.ts'
import { type RabbitMqServer, startRabbitMq } from '../../test/support/rabbitmq-server.ts'
import { seededRandom } from '../../test/support/seeded-random.ts'
import {
  atTheirTimes,
  type CampaignTerms,
  declareQueue,
  killServer,
  sendAgain,
  type Victims,
  waitFor,
} from '../support/campaign.ts'
import { Nemesis } from '../support/nemesis.ts'
import { type Provider, startProvider } from '../support/payment-provider.ts'
import { audit, type Books } from './books.ts'
import type { Role, WorkerSettings } from './settings.ts'
import { articles, createTables } from './tables.ts'

export type CampaignOptions = CampaignTerms & { readonly broker: 'mailbox' | 'rabbitmq' }

export type CampaignReport = {
  readonly books: Books
  readonly kills: Readonly<Record<keyof Victims, number>>
  readonly seconds: number
  readonly requests: number
  readonly declined: number
  /** Messages that were given up and that an operator sent again, each with its reason. */
  readonly replayed: readonly string[]
}

const roles: readonly Role[] = ['relay', 'relay', 'orders', 'orders', 'ledger']

export async function runCampaign(options: CampaignOptions): Promise<CampaignReport> {
  const beganMs = performance.now()
  const fraction = seeded(options.seed)
  await using stack = new AsyncDisposableStack()
  const postgres = stack.use(await startPostgres())
  const rabbit = options.broker === 'rabbitmq' ? stack.use(await startRabbitMq()) : undefined
  const provider: Provider = stack.use(await startProvider(options.moods, seeded(options.seed + 1)))
  const kit = createSagaKit({ pool: postgres.pool({ max: 10, connectionTimeoutMillis: 5_000 }) })
  await migrate(kit)
  // Fewer pieces than orders: some find the shelf empty.
  await createTables(kit, Math.ceil((options.orders / articles.length) * 0.97))
  for (const queue of rabbit === undefined ? [] : ['orders', 'ledger']) await declareQueue(rabbit!.url, queue)
  const settings: WorkerSettings = {
    databaseUrl: postgres.url,
    providerUrl: provider.url,
    ...(rabbit === undefined ? {} : { rabbitMqUrl: rabbit.url }),
  }
  const workers = roles.map((role) => spawnWorker(role, settings))
  stack.defer(async () => {
    await Promise.all(workers.map((worker) => worker.end({ signal: 'SIGKILL' })))
  })
  await Promise.all(workers.map((worker) => worker.line(/ready/, { withinMs: 600_000 })))
  options.say(
    `servers and ${workers.length} workers are up after ${seconds(beganMs)} s; placing ${options.orders} orders`,
  )

  const targets = { kit, postgres, rabbit, workers, settings }
  const kill = (victim: keyof Victims) => killOne(victim, fraction, targets)
  const nemesis = new Nemesis({ ...options, fraction, kill })
  const raging = nemesis.rage()
  const placed = await placeOrders(kit, options, seeded(options.seed + 2))
  options.say(
    `${placed.size} orders placed after ${seconds(beganMs)} s, kills so far: ${JSON.stringify(nemesis.kills)}`,
  )
  // The killing goes on until nine tenths are settled, but not longer than orders were placed or half a minute: with so
  // little time between two kills, a consumer rightly gives up a message that has died with it too often.
  await waitFor(
    async () => (await unsettled(kit)) < placed.size / 10,
    Math.min(options.settleMs, Math.max(options.placeMs, 30_000)),
  )
  nemesis.stop()
  await raging
  const replayed: string[] = []
  await waitFor(async () => {
    replayed.push(...(await sendAgain(kit)))
    return (await unsettled(kit)) === 0
  }, options.settleMs)
  await waitFor(async () => (await audit(kit, provider, placed)).faults.length === 0, 15_000)
  const books = await audit(kit, provider, placed)
  return {
    books,
    replayed,
    kills: nemesis.kills,
    seconds: Number(seconds(beganMs)),
    requests: provider.requests,
    declined: provider.declined,
  }
}

function spawnWorker(role: Role, settings: WorkerSettings): TestProcess {
  return new TestProcess(
    process.execPath,
    [`${import.meta.dirname}/worker.ts`, role, JSON.stringify(settings)],
    { name: role },
  )
}

/** Each order once, whatever happens to the database meanwhile: the key is the order's id. */
async function placeOrders(
  kit: SagaKit,
  options: CampaignOptions,
  fraction: () => number,
): Promise<ReadonlySet<string>> {
  const orders = Array.from({ length: options.orders }, () => ({
    article: articles[Math.floor(fraction() * articles.length)]!,
    amount: 100 + Math.floor(fraction() * 9_900),
  }))
  const placed = new Set<string>()
  await atTheirTimes(options, async (n) => {
    await place(kit, `order-${n}`, orders[n]!)
    placed.add(`order-${n}`)
  })
  return placed
}

function place(kit: SagaKit, id: string, order: { article: string; amount: number }): Promise<unknown> {
  return withIdempotency(kit, { scope: 'place-order', key: id, request: order }, async (tx) => {
    await tx.query(`INSERT INTO orders VALUES ($1, $2, $3, 'placed')`, [id, order.article, order.amount])
    await publish(kit, tx, {
      aggregateType: 'order',
      aggregateId: id,
      type: 'OrderPlaced',
      payload: order,
      destination: 'orders',
    })
  })
}

async function unsettled(kit: SagaKit): Promise<number> {
  const { rows } = await kit.pool.query(
    `SELECT (SELECT count(*) FROM orders WHERE state NOT IN ('completed', 'failed'))
          + (SELECT count(*) FROM orders) - (SELECT count(DISTINCT order_id) FROM ledger) AS n`,
  )
  return Number(rows[0].n)
}

type Targets = {
  readonly kit: SagaKit
  readonly postgres: PostgresServer
  readonly rabbit: RabbitMqServer | undefined
  readonly workers: TestProcess[]
  readonly settings: WorkerSettings
}

/** Kills the victim, and brings it back. False where none was running just then. */
async function killOne(victim: keyof Victims, fraction: () => number, targets: Targets): Promise<boolean> {
  const { kit, postgres, rabbit, workers, settings } = targets
  if (victim !== 'worker') return killServer(victim, { pool: kit.pool, postgres, rabbit })
  const index = Math.floor(fraction() * workers.length)
  await workers[index]!.end({ signal: 'SIGKILL' })
  workers[index] = spawnWorker(roles[index]!, settings)
  return true
}

const seeded = (seed: number) => seededRandom(seed).fraction

const seconds = (sinceMs: number) => ((performance.now() - sinceMs) / 1_000).toFixed(1)
