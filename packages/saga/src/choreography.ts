/**
 * Sagas that messages drive: each service runs its steps with `processSagaStep`, and no runner knows the whole.
 *
 * Owns their rows in `saga_instances`, one for each saga in each database that has run a step of it. The row follows the
 * steps of this database, so the calls that list, show, retry and compensate sagas find these as well.
 * The order of locks is: key of the step, step, saga. The new state is read in a statement of its own after the lock on
 * the saga's row: a statement that waited for the lock would not see what the other transaction has committed.
 *
 *     running       a step runs, and none has been undone or refused
 *     completed     all steps that began here are done
 *     compensating  some are undone or refused, and others are not yet
 *     compensated   nothing that was done here is left
 *     parked        a step or a compensation waits for a person
 *
 * An operator's compensation is executed by a runner that has the part (`defineSagaPart`). From then on the row belongs to
 * that runner, and steps no longer move it: its `next_attempt_at` is an instant, and otherwise it is infinity.
 */
import type { Tx } from './database.ts'
import { replayDeadLetters } from './dead-letters.ts'
import { dayMs } from './idempotency.ts'
import type { SagaKit } from './kit.ts'
import { unparkSagaSteps } from './saga-step-rows.ts'
import { activeContext } from './trace-context.ts'

/** A step that has begun in this database, or its compensation. */
export type ListedSaga = {
  readonly sagaId: string
  /** The kind of saga, as lists show it and as `defineSagaPart` names it. */
  readonly saga?: string
}

/**
 * Until retention removes what is left of a saga here, counted from its last step. Long, because a compensation that comes
 * later finds nothing to undo: this database cannot know when the saga has ended elsewhere.
 */
export const messageDrivenKeepMs = 365 * dayMs

/** Brings the saga's row up to date with its steps, in the transaction that has changed one. Leaves a runner's saga alone. */
export async function followSteps(kit: SagaKit, tx: Tx, { sagaId, saga = '' }: ListedSaga): Promise<void> {
  const s = kit.schema
  const { rowCount } = await tx.query(
    `INSERT INTO ${s}.saga_instances AS i (saga_id, name, status, input, request_hash, headers, driven_by, next_attempt_at)
     VALUES ($1, $2, 'running', 'null', '', $3, 'messages', 'infinity')
     ON CONFLICT (saga_id) DO UPDATE SET name = CASE i.name WHEN '' THEN EXCLUDED.name ELSE i.name END
       WHERE i.driven_by = 'messages' AND i.next_attempt_at = 'infinity'`,
    [sagaId, saga, JSON.stringify(activeContext())],
  )
  if (rowCount === 1) await follow(kit, tx, sagaId)
}

async function follow(kit: SagaKit, tx: Tx, sagaId: string): Promise<void> {
  const s = kit.schema
  await tx.query(
    `UPDATE ${s}.saga_instances i
     SET status = steps.status, last_error = steps.last_error, reason = coalesce(i.reason, steps.refusal),
         updated_at = clock_timestamp(),
         expires_at = CASE WHEN steps.status IN ('completed', 'compensated') THEN clock_timestamp() + $2 * interval '1 ms' END
     FROM (
       SELECT CASE WHEN bool_or(parked) THEN 'parked'
                   WHEN bool_or(status = 'compensating') THEN 'compensating'
                   WHEN bool_or(status IN ('failed', 'compensated', 'suspended'))
                        AND bool_or(status IN ('done', 'running', 'pending')) THEN 'compensating'
                   WHEN bool_or(status IN ('running', 'pending')) THEN 'running'
                   WHEN bool_or(status = 'done') THEN 'completed'
                   ELSE 'compensated' END AS status,
              min(step || ': ' || last_error) FILTER (WHERE parked) AS last_error,
              min(step || ': ' || result::text) FILTER (WHERE status = 'failed') AS refusal
       FROM ${s}.saga_steps WHERE saga_id = $1) AS steps
     WHERE i.saga_id = $1`,
    [sagaId, messageDrivenKeepMs],
  )
}

/** The open dead letters among the messages that ran its steps. */
export async function deadLettersOf(
  kit: SagaKit,
  sagaId: string,
  statuses: readonly ('dead' | 'replaying')[],
): Promise<readonly number[]> {
  const s = kit.schema
  const { rows } = await kit.query<{ id: string }>(
    `SELECT d.id FROM ${s}.saga_steps t
     JOIN ${s}.dead_letters d ON d.source = 'inbox' AND d.consumer_id = t.consumer_id AND d.message_id = t.message_id
     WHERE t.saga_id = $1 AND d.status IN ('dead', 'replaying') AND d.status = ANY($2) ORDER BY d.id`,
    [sagaId, statuses],
  )
  return rows.map(({ id }) => Number(id))
}

/**
 * A parked step gets its attempts anew, and its message comes again where that has become a dead letter; otherwise its
 * sender or its broker must repeat it. False if nothing waited for a person.
 */
export async function retryMessageDriven(
  kit: SagaKit,
  tx: Tx,
  sagaId: string,
  parked: boolean,
): Promise<boolean> {
  const deadLetters = await deadLettersOf(kit, sagaId, ['dead'])
  if (!parked && deadLetters.length === 0) return false
  await unparkSagaSteps(kit, tx, sagaId)
  await replayDeadLetters(kit, deadLetters)
  await follow(kit, tx, sagaId)
  return true
}
