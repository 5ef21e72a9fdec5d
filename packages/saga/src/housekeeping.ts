/**
 * The background task that cleans the tables of the kit: retention, expiry of dead letters, and upkeep of the outbox's
 * partitions.
 *
 * It runs wherever a consumer, a relay or a saga runner runs, once in each interval for all processes of a schema: a row
 * is the lease, which expires if its holder dies. A run that overlaps another because its lease expired does no harm: every
 * statement is right by itself. It never fails what it runs beside, and `createSagaKit({ housekeeping: false })` switches
 * it off.
 */
import { expireDeadLetters } from './dead-letters.ts'
import { SagaConfigError } from './errors.ts'
import {
  type HousekeepingOptions,
  type RetentionOptions,
  requireHousekeeping,
  requireRetention,
  type SagaKit,
} from './kit.ts'
import { outsideTransactions } from './open-transactions.ts'
import { partitionOf } from './outbox.ts'
import { removeKeys } from './saga-step-rows.ts'
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

/** Long after the leases of a relay that died have expired. */
const leftBehindMs = 3_600_000

/** Aggregates whose messages one run moves; the next run continues. */
const movedMax = 1_000

/**
 * What relays that are gone left behind is removed, and messages in a partition that the database does not have are moved to theirs.
 * Returns how many rows it removed or reset.
 */
async function maintainPartitions(kit: SagaKit): Promise<number> {
  const s = kit.schema
  const stops = await kit.query(
    `DELETE FROM ${s}.outbox_stops WHERE until < clock_timestamp() - $1 * interval '1 ms'`,
    [leftBehindMs],
  )
  const partitions = await kit.query(
    `UPDATE ${s}.outbox_partitions SET owner = NULL, lease_until = '-infinity'
     WHERE owner IS NOT NULL AND lease_until < clock_timestamp() - $1 * interval '1 ms'`,
    [leftBehindMs],
  )
  await moveStranded(kit)
  return (stops.rowCount ?? 0) + (partitions.rowCount ?? 0)
}

/**
 * A service whose kit has more partitions than the database writes messages that no relay would ever look for. They go
 * where the database's number puts them, and the event says which setting is wrong.
 */
async function moveStranded(kit: SagaKit): Promise<void> {
  const s = kit.schema
  const { rows } = await kit.query<{ type: string; id: string; highest: number; partitions: number }>(
    `SELECT aggregate_type AS type, aggregate_id AS id, max(partition) AS highest, n::int AS partitions
     FROM ${s}.outbox, (SELECT count(*) AS n FROM ${s}.outbox_partitions) AS known
     WHERE partition >= n GROUP BY 1, 2, 4 LIMIT $1`,
    [movedMax],
  )
  const [first] = rows
  if (first === undefined || first.partitions === 0) return
  const { partitions } = first
  const { rowCount } = await kit.query(
    `UPDATE ${s}.outbox o SET partition = a.partition
     FROM unnest($1::text[], $2::text[], $3::smallint[]) AS a (type, id, partition)
     WHERE o.aggregate_type = a.type AND o.aggregate_id = a.id AND o.partition >= $4`,
    [
      rows.map(({ type }) => type),
      rows.map(({ id }) => id),
      rows.map(({ type, id }) => partitionOf(type, id, partitions)),
      partitions,
    ],
  )
  const highest = Math.max(...rows.map((row) => row.highest))
  const error = new SagaConfigError(
    `${rowCount} messages stood in partitions up to ${highest}, and the database has ${partitions}: they were moved, and no relay had sent them; give every service that publishes partitions: ${partitions}`,
  )
  kit.emit({ kind: 'housekeeping_error', error })
}

type RetentionReport = Readonly<Record<string, number>>

/**
 * Deletes what has expired: in batches, so that no statement runs for long, and in one process at a time. Never what is in progress:
 * keys in progress or parked, open dead letters, unfinished sagas. The keys of a saga's steps go with it, whatever state they are in.
 * Returns the number of deleted rows by table; 0 while another process is at it.
 */
export async function runRetention(kit: SagaKit, options: RetentionOptions = {}): Promise<RetentionReport> {
  requireRetention(options)
  return retain(kit, options, async () => true)
}

/** `goOn` is called before every batch; at its first no, what has been deleted is returned. */
async function retain(
  kit: SagaKit,
  options: RetentionOptions,
  goOn: () => Promise<boolean>,
): Promise<RetentionReport> {
  const { batchSize = 1_000, maxBatches = 100, deadLettersMs = 30 * 24 * 3_600_000 } = options
  const report: Record<string, number> = {}
  for (const [table, condition] of Object.entries(expired)) {
    let deleted = 0
    for (let batch = 0; batch < maxBatches && (await goOn()); batch += 1) {
      const count = await deleteBatch(kit, table, condition, batchSize, deadLettersMs)
      deleted += count ?? 0
      if (count === undefined || count < batchSize) break
    }
    report[table] = deleted
    if (deleted > 0) kit.emit({ kind: 'retained', table, deleted })
  }
  return report
}

/**
 * The instant of the statement, not that of each row: an index has the rows before it, and the planner knows from its statistics how
 * few they are.
 */
const expired = {
  idempotency_keys: `status IN ('completed', 'failed') AND expires_at < statement_timestamp()`,
  // A dead letter of the outbox may be a message that its consumer has: only its confirm was missing.
  inbox: `expires_at < statement_timestamp()
    AND NOT EXISTS (SELECT FROM {s}.dead_letters d WHERE d.message_id = t.message_id AND d.status <> 'discarded')`,
  dead_letters: `status IN ('replayed', 'discarded') AND replayed_at < statement_timestamp() - $2 * interval '1 ms'`,
  saga_steps: `EXISTS (SELECT 1 FROM {s}.saga_instances i WHERE i.saga_id = t.saga_id AND i.status IN ('completed', 'compensated')
    AND i.expires_at < statement_timestamp())`,
  saga_instances: `status IN ('completed', 'compensated') AND expires_at < statement_timestamp()
    AND NOT EXISTS (SELECT 1 FROM {s}.saga_steps p WHERE p.saga_id = t.saga_id)`,
  locks: `lease_until < statement_timestamp() - interval '1 hour'`,
  decisions: `decided_at < statement_timestamp() - interval '1 year'`,
  outbox_relays: `alive_until < statement_timestamp() - interval '1 hour'`,
} as const

/** undefined while another process holds the lock. */
function deleteBatch(
  kit: SagaKit,
  table: string,
  condition: string,
  batchSize: number,
  deadLettersMs: number,
): Promise<number | undefined> {
  const s = kit.schema
  return kit.transaction(async (tx) => {
    const lock = await tx.query('SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS held', [
      `fencepost/retention:${kit.schemaName}`,
    ])
    if (lock.rows[0]!.held !== true) return undefined
    const usesAge = condition.includes('$2')
    const steps = table === 'saga_steps'
    const { rows, rowCount } = await tx.query<{ saga_id: string; step: string }>(
      `DELETE FROM ${s}.${table} WHERE ctid IN (
         SELECT ctid FROM ${s}.${table} t WHERE ${condition.replaceAll('{s}', s)} LIMIT $1 FOR UPDATE SKIP LOCKED)
       ${steps ? 'RETURNING saga_id, step' : ''}`,
      usesAge ? [batchSize, deadLettersMs] : [batchSize],
    )
    if (steps) await removeKeys(kit, tx, rows)
    return rowCount ?? 0
  })
}
