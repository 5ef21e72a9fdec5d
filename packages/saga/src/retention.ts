/**
 * Deletes what has expired: in batches, so that no statement runs for long, and in one process at a time.
 *
 * Never deletes what is in progress: keys in progress or parked, open dead letters, unfinished sagas. The keys of a saga's
 * steps go with it, whatever state they are in.
 */
import { type RetentionOptions, requireRetention } from './housekeeping-options.ts'
import type { SagaKit } from './kit.ts'
import { removeKeys } from './saga-step-rows.ts'

export type RetentionReport = Readonly<Record<string, number>>

/** Returns the number of deleted rows by table; 0 while another process is at it. */
export async function runRetention(kit: SagaKit, options: RetentionOptions = {}): Promise<RetentionReport> {
  requireRetention(options)
  return retain(kit, options, async () => true)
}

/** `goOn` is called before every batch; at its first no, what has been deleted is returned. */
export async function retain(
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
