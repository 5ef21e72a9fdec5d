/**
 * Places orders while processes of the three services, their databases and their broker are killed with SIGKILL, then
 * waits until every order has ended and audits the books.
 *
 * Owns the servers and the workers. The orders, the moods of the provider and the order of the victims come from one seed;
 * what the operating system makes of it is not repeatable. The databases are three of one server, so killing that kills all.
 */
import { createSagaKit, migrate, type SagaKit, withIdempotency } from '@fencepost/saga'
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
import { audit, type Books, type Kits } from './books.ts'
import { type Order, type Service, services, tell } from './messages.ts'
import { ordersTables } from './orders.ts'
import { paymentsTables } from './payments.ts'
import { articles, stockTables } from './stock.ts'
import type { WorkerSettings } from './worker-settings.ts'

export type CheckoutReport = {
  readonly books: Books
  readonly kills: Readonly<Record<keyof Victims, number>>
  readonly seconds: number
  /** Messages that were given up and that an operator sent again, each with its reason. */
  readonly replayed: readonly string[]
}

/** Two processes of each service. */
const staff: readonly Service[] = [...services, ...services]

export async function runCheckout(options: CampaignTerms): Promise<CheckoutReport> {
  const beganMs = performance.now()
  const seconds = () => Math.round((performance.now() - beganMs) / 100) / 10
  const fraction = seeded(options.seed)
  await using stack = new AsyncDisposableStack()
  const postgres = stack.use(await startPostgres())
  const rabbit = stack.use(await startRabbitMq())
  const provider: Provider = stack.use(await startProvider(options.moods, seeded(options.seed + 1)))
  const kits = await createDatabases(postgres, options.orders)
  for (const service of services) await declareQueue(rabbit.url, service)
  const spawn = (service: Service) => spawnWorker(service, settingsOf(service, postgres, rabbit, provider))
  const workers = staff.map(spawn)
  stack.defer(async () => {
    await Promise.all(workers.map((worker) => worker.end({ signal: 'SIGKILL' })))
  })
  await Promise.all(workers.map((worker) => worker.line(/ready/, { withinMs: 600_000 })))
  options.say(
    `servers and ${workers.length} workers are up after ${seconds()} s; placing ${options.orders} orders`,
  )

  const kill = (victim: keyof Victims) =>
    killOne(victim, fraction, { kits, postgres, rabbit, workers, spawn })
  const nemesis = new Nemesis({ ...options, fraction, kill })
  const raging = nemesis.rage()
  const replayed: string[] = []
  const placed = await placeOrders(kits.orders, options, seeded(options.seed + 2))
  options.say(
    `${placed.size} orders placed after ${seconds()} s, kills so far: ${JSON.stringify(nemesis.kills)}`,
  )
  // The killing goes on until nine tenths are settled, but not for ever: with so little time between two kills, a consumer
  // rightly gives up a message that has died with it too often.
  await waitFor(
    async () => (await unsettled(kits.orders)) < placed.size / 10,
    Math.min(options.settleMs, Math.max(options.placeMs, 30_000)),
  )
  nemesis.stop()
  await raging
  await waitFor(async () => {
    for (const service of services) replayed.push(...(await sendAgain(kits[service])))
    return (await unsettled(kits.orders)) === 0
  }, options.settleMs)
  await waitFor(async () => (await audit(kits, provider, placed)).faults.length === 0, 20_000)
  return { books: await audit(kits, provider, placed), kills: nemesis.kills, seconds: seconds(), replayed }
}

async function createDatabases(postgres: PostgresServer, orders: number): Promise<Kits> {
  const tables = { orders: ordersTables, payments: paymentsTables, stock: stockTables }
  const created = services.map(async (service) => {
    await postgres.pool({ max: 1 }).query(`CREATE DATABASE ${service}`)
    const pool = postgres.pool({ database: service, max: 8, connectionTimeoutMillis: 5_000 })
    const kit = createSagaKit({ pool })
    await migrate(kit)
    await pool.query(tables[service])
    return [service, kit] as const
  })
  const kits = Object.fromEntries(await Promise.all(created)) as Kits
  // Fewer pieces than orders: some find the shelf empty.
  const piecesEach = Math.ceil((orders / articles.length) * 0.95)
  await kits.stock.pool.query('INSERT INTO stock SELECT unnest($1::text[]), $2, $2', [
    [...articles],
    piecesEach,
  ])
  return kits
}

function settingsOf(
  service: Service,
  postgres: PostgresServer,
  rabbit: RabbitMqServer,
  provider: Provider,
): WorkerSettings {
  const databaseUrl = new URL(postgres.url)
  databaseUrl.pathname = `/${service}`
  return { service, databaseUrl: databaseUrl.href, rabbitMqUrl: rabbit.url, providerUrl: provider.url }
}

function spawnWorker(service: Service, settings: WorkerSettings): TestProcess {
  const program = `${import.meta.dirname}/worker.ts`
  return new TestProcess(process.execPath, [program, JSON.stringify(settings)], { name: service })
}

/** Each order once, whatever happens to the database meanwhile: the key is the order's id. */
async function placeOrders(
  kit: SagaKit,
  options: CampaignTerms,
  fraction: () => number,
): Promise<ReadonlySet<string>> {
  const orders = Array.from({ length: options.orders }, (_, n): Order => {
    const article = articles[Math.floor(fraction() * articles.length)]!
    return { orderId: `order-${n}`, article, amount: 100 + Math.floor(fraction() * 9_900) }
  })
  const placed = new Set<string>()
  await atTheirTimes(options, async (n) => {
    await place(kit, orders[n]!)
    placed.add(orders[n]!.orderId)
  })
  return placed
}

function place(kit: SagaKit, order: Order): Promise<unknown> {
  const { orderId, article, amount } = order
  return withIdempotency(kit, { scope: 'place-order', key: orderId, request: order }, async (tx) => {
    await tx.query(`INSERT INTO orders VALUES ($1, $2, $3, 'placed')`, [orderId, article, amount])
    await tell(kit, tx, 'OrderPlaced', order)
  })
}

async function unsettled(kit: SagaKit): Promise<number> {
  const { rows } = await kit.pool.query(
    `SELECT count(*) AS n FROM orders WHERE state NOT IN ('completed', 'failed')`,
  )
  return Number(rows[0].n)
}

type Targets = {
  readonly kits: Kits
  readonly postgres: PostgresServer
  readonly rabbit: RabbitMqServer
  readonly workers: TestProcess[]
  readonly spawn: (service: Service) => TestProcess
}

/** Kills the victim, and brings it back. False where none was running just then. */
async function killOne(victim: keyof Victims, fraction: () => number, targets: Targets): Promise<boolean> {
  const { kits, postgres, rabbit, workers, spawn } = targets
  if (victim !== 'worker') return killServer(victim, { pool: kits.orders.pool, postgres, rabbit })
  const index = Math.floor(fraction() * workers.length)
  await workers[index]!.end({ signal: 'SIGKILL' })
  workers[index] = spawn(staff[index]!)
  return true
}

const seeded = (seed: number) => seededRandom(seed).fraction
