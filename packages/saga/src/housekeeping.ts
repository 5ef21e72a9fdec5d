/**
 * The background task that cleans the tables of the kit: retention, expiry of dead letters, and upkeep of the outbox's
 * partitions.
 *
 * It runs wherever a consumer, a relay or a saga runner runs, once in each interval for all processes of a schema: a row
 * is the lease, which lapses if its holder dies. A run that overlaps another because its lease lapsed does no harm: every
 * statement is right by itself. It never fails what it runs beside, and `createSagaKit({ housekeeping: false })` switches
 * it off.
 */
import { expireDeadLetters } from './dead-letters.ts'
import { type HousekeepingOptions, requireHousekeeping } from './housekeeping-options.ts'
import type { SagaKit } from './kit.ts'
import { outsideTransactions } from './open-transactions.ts'
import { maintainPartitions } from './partition-upkeep.ts'
import { retain } from './retention.ts'
import { explained } from './setup-errors.ts'

const intervalDefaultMs = 300_000

/** Renewed every third of it, between two batches. */
const leaseMs = 60_000

export interface Housekeeping extends AsyncDisposable {
  /** Waits for the batch in progress; another process continues. */
  stop(): Promise<void>
}

type Task = { users: number; readonly end: () => Promise<void> }

const tasks = new WeakMap<SagaKit, Task>()

/**
 * For a process with neither consumer, relay nor saga runner: those start it by themselves. However many of them a process
 * has, it runs once for each kit, until the last is stopped. Without effect if the kit has `housekeeping: false`.
 */
export function startHousekeeping(kit: SagaKit): Housekeeping {
  const task = tasks.get(kit) ?? { users: 0, end: begin(kit, kit.housekeeping) }
  tasks.set(kit, task)
  task.users += 1
  let stopping: Promise<void> | undefined
  const leave = async () => {
    task.users -= 1
    if (task.users > 0) return
    tasks.delete(kit)
    await task.end()
  }
  const stop = () => {
    stopping ??= leave()
    return stopping
  }
  return { stop, [Symbol.asyncDispose]: stop }
}

function begin(kit: SagaKit, options: HousekeepingOptions | false): () => Promise<void> {
  if (options === false) return async () => {}
  const { intervalMs = intervalDefaultMs } = options
  let stopped = false
  let running: Promise<void> = Promise.resolve()
  const run = () => {
    running = outsideTransactions(() => keepHouse(kit, options, () => stopped)).then(next)
  }
  const next = () => {
    if (!stopped) timer = kit.clock.timer(intervalMs, run)
  }
  // Soon, for processes that never live as long as an interval, and not in all processes of a rollout at once.
  let timer = kit.clock.timer((intervalMs / 20) * (1 + kit.random.fraction()), run)
  return async () => {
    stopped = true
    timer.cancel()
    await running
  }
}

/**
 * One run now, unless another process is at it or was within the interval; returns whether it ran. Never rejects: errors
 * are events (`housekeeping_error`), but for options that make no sense.
 */
export async function runHousekeeping(
  kit: SagaKit,
  options: HousekeepingOptions = kit.housekeeping === false ? {} : kit.housekeeping,
): Promise<boolean> {
  requireHousekeeping(options)
  return keepHouse(kit, options, () => false)
}

async function keepHouse(
  kit: SagaKit,
  options: HousekeepingOptions,
  isStopped: () => boolean,
): Promise<boolean> {
  const { intervalMs = intervalDefaultMs, expireDeadLettersMs, ...retention } = options
  const beganMonoMs = kit.clock.monoMs()
  const owner = kit.random.hex(16)
  let renewedMonoMs = beganMonoMs
  let held = true
  /** Before every batch: false if the rest is another process's, or the next run's. */
  const goOn = async () => {
    if (isStopped()) return false
    if (held && kit.clock.monoMs() - renewedMonoMs >= leaseMs / 3) {
      renewedMonoMs = kit.clock.monoMs()
      held = await renew(kit, owner)
    }
    return held
  }
  try {
    if (!(await take(kit, owner))) return false
    const kept = await retain(kit, retention, goOn)
    const expired = await expireAll(kit, expireDeadLettersMs, retention.batchSize, goOn)
    const leftBehind = (await goOn()) ? await maintainPartitions(kit) : 0
    const whole = await goOn()
    await giveBack(kit, owner, whole ? intervalMs : undefined)
    if (!whole) return false
    const deleted = Object.values(kept).reduce((sum, count) => sum + count, leftBehind)
    kit.emit({ kind: 'housekept', durationMs: kit.clock.monoMs() - beganMonoMs, deleted, expired })
    return true
  } catch (error) {
    kit.emit({ kind: 'housekeeping_error', error: explained(kit, error) })
    return false
  }
}

async function expireAll(
  kit: SagaKit,
  ageMs: number | undefined,
  batchSize = 1_000,
  goOn: () => Promise<boolean>,
): Promise<number> {
  if (ageMs === undefined) return 0
  let expired = 0
  while (await goOn()) {
    const count = await expireDeadLetters(kit, ageMs, batchSize)
    expired += count
    if (count < batchSize) break
  }
  return expired
}

async function take(kit: SagaKit, owner: string): Promise<boolean> {
  const { rowCount } = await kit.query(
    `INSERT INTO ${kit.schema}.housekeeping AS h (task, owner, lease_until, due_at)
     VALUES ('all', $1, clock_timestamp() + $2 * interval '1 ms', clock_timestamp())
     ON CONFLICT (task) DO UPDATE SET owner = EXCLUDED.owner, lease_until = EXCLUDED.lease_until
     WHERE h.lease_until <= clock_timestamp() AND h.due_at <= clock_timestamp()`,
    [owner, leaseMs],
  )
  return rowCount === 1
}

async function renew(kit: SagaKit, owner: string): Promise<boolean> {
  const { rowCount } = await kit.query(
    `UPDATE ${kit.schema}.housekeeping SET lease_until = clock_timestamp() + $2 * interval '1 ms'
     WHERE task = 'all' AND owner = $1 AND lease_until > clock_timestamp()`,
    [owner, leaseMs],
  )
  return rowCount === 1
}

/**
 * The next run is due a little before the interval is over, because the timers of processes fire at about the same time.
 * After a run that was not whole it is due at once.
 */
async function giveBack(kit: SagaKit, owner: string, intervalMs: number | undefined): Promise<void> {
  await kit.query(
    `UPDATE ${kit.schema}.housekeeping
     SET lease_until = '-infinity', due_at = CASE WHEN $2::float8 IS NULL THEN due_at ELSE clock_timestamp() + $2 * interval '1 ms' END
     WHERE task = 'all' AND owner = $1`,
    [owner, intervalMs === undefined ? null : intervalMs * 0.9],
  )
}
