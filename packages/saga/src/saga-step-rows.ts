/**
 * The rows of `saga_steps`, which are the fence between a step and its compensation.
 *
 * Owns every write of a step or a compensation to that table, and their keys in the idempotency store. Everything here
 * runs in the caller's transaction.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import type { Tx } from './database.ts'
import { OperationInProgressError, StepIrreversibleError, StepSuspendedError } from './errors.ts'
import type { SagaKit } from './kit.ts'

/** Which step of which saga. */
export type StepRow = {
  readonly sagaId: string
  readonly step: string
  readonly position?: number
  /** The point after which the step can't be undone: `begun` if it has an effect, which may have taken place. */
  readonly irreversible?: 'begun' | 'done'
}

export type StepStatus =
  | 'pending'
  | 'running'
  | 'done'
  | 'compensating'
  | 'compensated'
  | 'suspended'
  | 'failed'

export const stepScope = 'saga-step'
export const compensationScope = 'saga-compensation'
export const keyOf = (sagaId: string, step: string) => JSON.stringify([sagaId, step])

export async function begin(kit: SagaKit, tx: Tx, { sagaId, step, position = 0 }: StepRow, attempt: number) {
  const s = kit.schema
  const { rowCount } = await tx.query(
    `INSERT INTO ${s}.saga_steps AS t (saga_id, step, status, position, attempts, consumer_id, message_id)
     VALUES ($1, $2, 'running', $3, $4, $5, $6)
     ON CONFLICT (saga_id, step) DO UPDATE SET status = 'running', attempts = t.attempts + 1, parked = false,
       consumer_id = coalesce($5, t.consumer_id), message_id = coalesce($6, t.message_id), updated_at = clock_timestamp()
     WHERE t.status IN ('pending', 'running')`,
    [sagaId, step, position, attempt, ...messageNow()],
  )
  if (rowCount === 0) throw new StepSuspendedError(sagaId, step, await statusOf(kit, tx, sagaId, step))
}

/** Counts an attempt that ended before its claim. Returns how many there are; undefined if it is not the step's turn. */
export async function noteUnclaimed(
  kit: SagaKit,
  { sagaId, step }: StepRow,
  reason: string,
): Promise<number | undefined> {
  const { rows } = await kit.query<{ attempts: number }>(
    `UPDATE ${kit.schema}.saga_steps SET attempts = attempts + 1, last_error = $3, updated_at = clock_timestamp()
     WHERE saga_id = $1 AND step = $2 AND status IN ('pending', 'running') RETURNING attempts`,
    [sagaId, step, reason],
  )
  return rows[0]?.attempts
}

/** The message whose handler runs now; nulls outside of any. */
function messageNow(): readonly [consumerId: string | null, messageId: string | null] {
  const { consumerId = null, messageId = null } = currentMessage() ?? {}
  return [consumerId, messageId]
}

/** The step, or its compensation, waits for a person, and this is why. */
export async function park(kit: SagaKit, tx: Tx, { sagaId, step }: StepRow, reason: string): Promise<void> {
  await tx.query(
    `UPDATE ${kit.schema}.saga_steps SET parked = true, last_error = $3, updated_at = clock_timestamp()
     WHERE saga_id = $1 AND step = $2`,
    [sagaId, step, reason],
  )
}

export async function end(kit: SagaKit, tx: Tx, { sagaId, step }: StepRow, status: StepStatus, text: string) {
  const { rowCount } = await tx.query(
    `UPDATE ${kit.schema}.saga_steps SET status = $3, result = $4, last_error = NULL, updated_at = clock_timestamp()
     WHERE saga_id = $1 AND step = $2 AND status = 'running'`,
    [sagaId, step, status, text],
  )
  if (rowCount === 0) throw new StepSuspendedError(sagaId, step, await statusOf(kit, tx, sagaId, step))
}

export async function statusOf(kit: SagaKit, tx: Tx, sagaId: string, step: string): Promise<string> {
  const { rows } = await tx.query<{ status: string }>(
    `SELECT status FROM ${kit.schema}.saga_steps WHERE saga_id = $1 AND step = $2`,
    [sagaId, step],
  )
  return rows[0]?.status ?? 'absent'
}

type Barred =
  | { readonly kind: 'compensated' | 'suspended' }
  | { readonly kind: 'undo'; readonly stepResult: unknown }

/** Bars a step for its compensation: from now on it can neither begin nor settle. */
export async function bar(
  kit: SagaKit,
  tx: Tx,
  { sagaId, step, position = 0, irreversible }: StepRow,
): Promise<Barred> {
  const s = kit.schema
  const inserted = await tx.query(
    `INSERT INTO ${s}.saga_steps (saga_id, step, status, position) VALUES ($1, $2, 'suspended', $3) ON CONFLICT DO NOTHING`,
    [sagaId, step, position],
  )
  if (inserted.rowCount === 1) return { kind: 'suspended' }
  const { rows } = await tx.query<{ status: StepStatus; result: string | null }>(
    `SELECT status, result::text AS result FROM ${s}.saga_steps WHERE saga_id = $1 AND step = $2 FOR UPDATE`,
    [sagaId, step],
  )
  const { status, result } = rows[0]!
  const stepResult: unknown = result === null ? undefined : JSON.parse(result)
  switch (status) {
    case 'compensated':
    case 'suspended':
      return { kind: status }
    case 'pending':
      await setStatus(kit, tx, sagaId, step, 'suspended')
      return { kind: 'suspended' }
    case 'failed':
      await setStatus(kit, tx, sagaId, step, 'compensated')
      return { kind: 'compensated' }
    case 'running':
      await assertNotAtWork(kit, tx, sagaId, step)
      if (irreversible === 'begun') throw new StepIrreversibleError(sagaId, step, status)
      await setStatus(kit, tx, sagaId, step, 'compensating')
      return { kind: 'undo', stepResult: undefined }
    case 'done':
      if (irreversible !== undefined) throw new StepIrreversibleError(sagaId, step, status)
      await setStatus(kit, tx, sagaId, step, 'compensating')
      return { kind: 'undo', stepResult }
    case 'compensating':
      await setStatus(kit, tx, sagaId, step, 'compensating')
      return { kind: 'undo', stepResult }
  }
}

/**
 * In a statement of its own after the lock on the step's row: a statement that waited for the lock would not see a
 * claim committed meanwhile. Also after the last attempt: an abandoned effect may still be running.
 */
async function assertNotAtWork(kit: SagaKit, tx: Tx, sagaId: string, step: string): Promise<void> {
  const { rows } = await tx.query<{ working_ms: number }>(
    `SELECT (extract(epoch FROM locked_until - clock_timestamp()) * 1000)::float8 AS working_ms
     FROM ${kit.schema}.idempotency_keys WHERE scope = $1 AND key = $2 AND status IN ('in_progress', 'parked')`,
    [stepScope, keyOf(sagaId, step)],
  )
  const workingMs = rows[0]?.working_ms ?? 0
  if (workingMs > 0) throw new OperationInProgressError(`${sagaId} ${step}`, workingMs)
}

export async function setStatus(
  kit: SagaKit,
  tx: Tx,
  sagaId: string,
  step: string,
  status: StepStatus,
): Promise<void> {
  await tx.query(
    `UPDATE ${kit.schema}.saga_steps
     SET status = $3, parked = false, updated_at = clock_timestamp(),
         consumer_id = coalesce($4, consumer_id), message_id = coalesce($5, message_id)
     WHERE saga_id = $1 AND step = $2`,
    [sagaId, step, status, ...messageNow()],
  )
}

/** A refusal after the pivot: the saga can only go forward, so the step is repeated. */
export async function askAgain(kit: SagaKit, tx: Tx, sagaId: string): Promise<void> {
  const s = kit.schema
  const { rows } = await tx.query<{ step: string }>(
    `UPDATE ${s}.saga_steps SET status = 'pending', attempts = 0, result = NULL, updated_at = clock_timestamp()
     WHERE saga_id = $1 AND status = 'failed' RETURNING step`,
    [sagaId],
  )
  await tx.query(
    `DELETE FROM ${s}.idempotency_keys WHERE status = 'failed' AND scope = $1 AND key = ANY($2)`,
    [stepScope, rows.map(({ step }) => keyOf(sagaId, step))],
  )
}

/** A person has looked: parked steps may be retried. */
export async function unparkSagaSteps(kit: SagaKit, tx: Tx, sagaId: string): Promise<void> {
  const s = kit.schema
  const { rows } = await tx.query<{ step: string }>(`SELECT step FROM ${s}.saga_steps WHERE saga_id = $1`, [
    sagaId,
  ])
  await tx.query(
    `UPDATE ${s}.idempotency_keys SET status = 'in_progress', attempts = 0, owner = ''
     WHERE status = 'parked' AND scope IN ($1, $2) AND key = ANY($3)`,
    [stepScope, compensationScope, rows.map(({ step }) => keyOf(sagaId, step))],
  )
  await tx.query(
    `UPDATE ${s}.saga_steps SET parked = false, attempts = 0
     WHERE saga_id = $1 AND (parked OR status IN ('pending', 'running'))`,
    [sagaId],
  )
}

/** For steps whose saga is removed: the keys would answer for those of a new saga under the same id. */
export async function removeKeys(
  kit: SagaKit,
  tx: Tx,
  steps: readonly { readonly saga_id: string; readonly step: string }[],
): Promise<void> {
  await tx.query(`DELETE FROM ${kit.schema}.idempotency_keys WHERE scope IN ($1, $2) AND key = ANY($3)`, [
    stepScope,
    compensationScope,
    steps.map(({ saga_id, step }) => keyOf(saga_id, step)),
  ])
}

/** Whose handler runs now: what a step remembers to replay when an operator lets it run again. */
type CurrentMessage = {
  readonly consumerId: string
  /** As the inbox stores it. */
  readonly messageId: string
}

const current = new AsyncLocalStorage<CurrentMessage>()

export function handlingMessage<T>(message: CurrentMessage, work: () => Promise<T>): Promise<T> {
  return current.run(message, work)
}

/** undefined outside the handler of a consumer. */
export function currentMessage(): CurrentMessage | undefined {
  return current.getStore()
}
