/**
 * What the campaigns of the examples share: orders that are placed while processes are killed with SIGKILL.
 *
 * Owns the options, the pace of the orders and how servers die and come back. Services, workers and books are each campaign's.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { listDeadLetters, replayDeadLetters, type SagaKit } from '@fencepost/saga'
import { createRabbitMqSubscriber } from '@fencepost/saga/rabbitmq'
import type { PostgresServer } from '../../test/support/postgres-server.ts'
import type { RabbitMqServer } from '../../test/support/rabbitmq-server.ts'
import type { Moods } from './payment-provider.ts'

/** Weights: how often each of them is the victim. */
export type Victims = {
  /** SIGKILL of a process of the application. */
  readonly worker: number
  /** pg_terminate_backend: one connection breaks. */
  readonly connection: number
  /** SIGKILL of one process of PostgreSQL, which then ends all its others and recovers. */
  readonly backend: number
  /** SIGKILL of the whole server. */
  readonly database: number
  readonly broker: number
}

export type CampaignTerms = {
  /** These die first, in this order, so that a short run has each; then chance decides. */
  readonly first?: readonly (keyof Victims)[]
  readonly orders: number
  /** Over how long the orders are placed; 0: as fast as they can be. */
  readonly placeMs: number
  /** A machine that is too slow for that places no more after this time; the books are those of the orders that were placed. */
  readonly placeMaxMs?: number | undefined
  readonly seed: number
  readonly moods: Moods
  readonly victims: Victims
  /** Mean time between two kills. */
  readonly killEveryMs: number
  /** After the last order: how long the sagas may take to end. */
  readonly settleMs: number
  readonly say: (line: string) => void
}

/** Before anything is published to it; a deployment's consumers do this when they first start. */
export async function declareQueue(url: string, queue: string): Promise<void> {
  const first = await createRabbitMqSubscriber({ url, queue }).subscribe(
    async () => ({ kind: 'again', delayMs: 0 }),
    { concurrency: 1, onError: () => {} },
  )
  await first.close()
}

const LANES = 8

const progressMs = 60_000

/** Each order at its time and until it is placed, whatever happens to the database meanwhile. */
export async function atTheirTimes(
  {
    orders,
    placeMs,
    placeMaxMs = Number.POSITIVE_INFINITY,
    say,
  }: Pick<CampaignTerms, 'orders' | 'placeMs' | 'placeMaxMs' | 'say'>,
  place: (number: number) => Promise<unknown>,
): Promise<void> {
  const beganMs = performance.now()
  let [placed, toldMs] = [0, beganMs]
  const lane = async (from: number) => {
    for (let n = from; n < orders && performance.now() - beganMs < placeMaxMs; n += LANES) {
      const dueMs = beganMs + (placeMs * n) / orders
      if (dueMs > performance.now()) await pause(dueMs - performance.now())
      await persistently(() => place(n))
      placed += 1
      if (performance.now() - toldMs < progressMs) continue
      toldMs = performance.now()
      say(`${placed} orders placed within ${Math.round((toldMs - beganMs) / 1_000)} s`)
    }
  }
  await Promise.all(Array.from({ length: LANES }, (_, from) => lane(from)))
}

async function persistently<T>(work: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await work()
    } catch {
      await pause(100)
    }
}

export async function waitFor(condition: () => Promise<boolean>, withinMs: number): Promise<void> {
  const deadlineMs = performance.now() + withinMs
  while (performance.now() < deadlineMs) {
    if (await condition().catch(() => false)) return
    await pause(200)
  }
}

/** What an operator does with a message that was given up: reads why, and sends it again. */
export async function sendAgain(kit: SagaKit): Promise<readonly string[]> {
  const letters = (await listDeadLetters(kit)).filter(({ status }) => status === 'dead')
  await replayDeadLetters(
    kit,
    letters.map(({ id }) => id),
  )
  return letters.map(({ type, aggregateId, errorMessage }) => `${type} of ${aggregateId}: ${errorMessage}`)
}

type Servers = {
  /** Of the database whose connections break. */
  readonly pool: { query(text: string): Promise<{ readonly rowCount: number | null }> }
  readonly postgres: PostgresServer
  readonly rabbit: RabbitMqServer | undefined
}

/** Kills the victim, and brings it back. False where none was running just then. */
export async function killServer(
  victim: Exclude<keyof Victims, 'worker'>,
  { pool, postgres, rabbit }: Servers,
): Promise<boolean> {
  switch (victim) {
    case 'connection': {
      const text = `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`
      const ended = await pool
        .query(`SELECT pg_terminate_backend(pid) FROM (${text}) AS one`)
        .catch(() => undefined)
      return (ended?.rowCount ?? 0) > 0
    }
    case 'backend':
      return postgres.killBackend()
    case 'database':
      await postgres.kill()
      await postgres.start()
      return true
    case 'broker':
      await rabbit?.kill()
      await rabbit?.start(1_800_000)
      return true
  }
}
