/**
 * A step of a saga and its compensation, in whichever order they arrive.
 *
 * Owns the rows of `saga_steps`, which are the fence between the two. The row `running` is committed together with the
 * claim, before the effect: so a crash in the effect leaves something to compensate. A compensation that comes before its
 * step leaves `suspended`, and the step then refuses to run. A step that finds, when it wants to settle, that it has been
 * compensated meanwhile, undoes its own effect once more.
 *
 *     pending → running → done → compensating → compensated
 *                       → failed (the business said no; nothing to undo) → compensated
 *     absent | pending → suspended
 *
 * Source: Seata, TCC fence (idempotence, hanging, empty rollback); Restate, compensation registered before the step.
 */
import { jitteredDelayMs, pause } from '../core/retry.ts'
import { keepProcessAlive } from './ambient.ts'
import type { Tx } from './database.ts'
import {
  BusinessError,
  LeaseLostError,
  NonRetryableError,
  OperationInProgressError,
  StepIrreversibleError,
  StepSuspendedError,
} from './errors.ts'
import { dayMs } from './idempotency.ts'
import type { SagaKit } from './kit.ts'
import { type LockManager, withLocks } from './locks.ts'
import { derivedKey } from './request-hash.ts'
import { runIdempotentStep, type StepContext, type StepHandlers, type StepOutcome } from './step.ts'

export type StepStatus =
  | 'pending'
  | 'running'
  | 'done'
  | 'compensating'
  | 'compensated'
  | 'suspended'
  | 'failed'

export type CompensationContext = StepContext & {
  readonly sagaId: string
  readonly step: string
  /** The key under which the step called the provider: what is to be undone is known there by it. */
  readonly stepKey: string
  /** What the step returned; undefined where it is not known whether it took effect. */
  readonly stepResult: unknown
}

/** Undoes a step. Must be right also where the step never took effect: nobody may know. */
export type Compensation = {
  readonly effect?: (context: CompensationContext) => Promise<void>
  readonly commit?: (tx: Tx, context: CompensationContext) => Promise<void>
}

export type SagaStepRequest = {
  readonly sagaId: string
  readonly step: string
  /** The message or input that asks for it. */
  readonly request: unknown
  readonly leaseMs: number
  readonly maxAttempts?: number
  readonly position?: number
  /** Locked while the step runs, where a lock manager is given. */
  readonly resources?: readonly string[]
  readonly lockManager?: LockManager
}

export type SagaStepHandlers<V, R> = StepHandlers<V, R> & { readonly compensate?: Compensation }

/** Long: the log of a saga answers for as long as the saga may be asked about. */
const stepTtlMs = 90 * dayMs

const stepScope = 'saga-step'
const compensationScope = 'saga-compensation'
const keyOf = (sagaId: string, step: string) => JSON.stringify([sagaId, step])

export async function processSagaStep<V, R>(
  kit: SagaKit,
  request: SagaStepRequest,
  handlers: SagaStepHandlers<V, R>,
): Promise<StepOutcome<R>> {
  const { sagaId, step, leaseMs, resources = [], lockManager } = request
  const carryOut = (held?: { fencingToken: number; signal: AbortSignal }) =>
    runIdempotentStep<V, R>(
      kit,
      {
        scope: stepScope,
        key: keyOf(sagaId, step),
        request: request.request,
        leaseMs,
        ttlMs: stepTtlMs,
        ...(request.maxAttempts === undefined ? {} : { maxAttempts: request.maxAttempts }),
        ...held,
      },
      handlers,
      {
        claimed: (tx, { attempt }) => begin(kit, tx, request, attempt),
        settled: (tx, outcome, text) =>
          end(kit, tx, request, outcome === 'completed' ? 'done' : 'failed', text),
        unsettled: (value, context) =>
          undoLate(kit, compensationContext(context, sagaId, step, value), leaseMs, handlers.compensate),
      },
    )
  if (lockManager === undefined || resources.length === 0) return carryOut()
  return withLocks(kit, lockManager, resources, { leaseMs }, carryOut)
}

/** About 15 s, as for what is to be settled; then a person has to look, for nobody else will. */
const undoTries = 12
const undoBackoff = { initialMs: 50, maxMs: 2_500 }

/**
 * Undoes what took effect, or may have, after its compensation, which therefore does not come again. What another process has
 * carried out under the same key, or is at work on, is left alone: it is the same effect.
 */
async function undoLate(
  kit: SagaKit,
  context: CompensationContext,
  leaseMs: number,
  compensation: Compensation | undefined,
): Promise<void> {
  const { effect } = compensation ?? {}
  if (effect === undefined) return
  const { sagaId, step } = context
  const release = keepProcessAlive()
  for (let attempt = 1; ; attempt += 1) {
    // Its own signal: that of the step may have ended with its lease.
    const abort = new AbortController()
    const timer = kit.clock.timer(leaseMs, () => abort.abort(new LeaseLostError(`undoing ${sagaId} ${step}`)))
    try {
      const status = await kit.transaction((tx) => statusOf(kit, tx, sagaId, step))
      if (isUndone(status)) await effect({ ...context, signal: abort.signal })
      break
    } catch (error) {
      kit.emit({ kind: 'saga_step_failed', sagaId, step, error })
      if (attempt === undoTries) {
        kit.emit({ kind: 'parked', what: `the late effect of step ${step} of saga ${sagaId}`, error })
        break
      }
      await pause(kit.clock, jitteredDelayMs(undoBackoff, attempt - 1, kit.random))
    } finally {
      timer.cancel()
    }
  }
  release()
}

/** As far as the log of the saga knows, nothing of it stands. */
function isUndone(status: string): boolean {
  return status === 'compensating' || status === 'compensated' || status === 'failed'
}

async function begin(kit: SagaKit, tx: Tx, { sagaId, step, position = 0 }: SagaStepRequest, attempt: number) {
  const s = kit.schema
  const { rowCount } = await tx.query(
    `INSERT INTO ${s}.saga_steps AS t (saga_id, step, status, position, attempts) VALUES ($1, $2, 'running', $3, $4)
     ON CONFLICT (saga_id, step) DO UPDATE SET status = 'running', attempts = $4, updated_at = clock_timestamp()
     WHERE t.status IN ('pending', 'running')`,
    [sagaId, step, position, attempt],
  )
  if (rowCount === 0) throw new StepSuspendedError(sagaId, step, await statusOf(kit, tx, sagaId, step))
}

async function end(
  kit: SagaKit,
  tx: Tx,
  { sagaId, step }: SagaStepRequest,
  status: StepStatus,
  text: string,
) {
  const { rowCount } = await tx.query(
    `UPDATE ${kit.schema}.saga_steps SET status = $3, result = $4, last_error = NULL, updated_at = clock_timestamp()
     WHERE saga_id = $1 AND step = $2 AND status = 'running'`,
    [sagaId, step, status, text],
  )
  if (rowCount === 0) throw new StepSuspendedError(sagaId, step, await statusOf(kit, tx, sagaId, step))
}

async function statusOf(kit: SagaKit, tx: Tx, sagaId: string, step: string): Promise<string> {
  const { rows } = await tx.query<{ status: string }>(
    `SELECT status FROM ${kit.schema}.saga_steps WHERE saga_id = $1 AND step = $2`,
    [sagaId, step],
  )
  return rows[0]?.status ?? 'absent'
}

export type CompensationRequest = {
  readonly sagaId: string
  readonly step: string
  readonly leaseMs: number
  readonly maxAttempts?: number
  readonly position?: number
  /** From where on there is nothing that could undo it: `begun` where it has an effect, which may have taken place. */
  readonly irreversible?: 'begun' | 'done'
}

/**
 * Undoes a step: once where it took effect or may have; not at all where it surely did not.
 * @throws OperationInProgressError while the step itself is at work
 * @throws StepIrreversibleError where it is too late for that
 */
export async function compensateSagaStep(
  kit: SagaKit,
  request: CompensationRequest,
  compensation: Compensation,
): Promise<'compensated' | 'suspended'> {
  const { sagaId, step, leaseMs, maxAttempts = 50 } = request
  const barred = await kit.transaction((tx) => bar(kit, tx, request))
  if (barred.kind !== 'undo') return barred.kind
  await runIdempotentStep(
    kit,
    {
      scope: compensationScope,
      key: keyOf(sagaId, step),
      request: null,
      leaseMs,
      maxAttempts,
      ttlMs: stepTtlMs,
    },
    {
      effect: async (context) => {
        const own = compensationContext(context, sagaId, step, barred.stepResult)
        await compensation.effect?.(own).catch(noIsNoOutcome)
      },
      commit: async (tx, _value, context) => {
        await compensation.commit?.(tx, compensationContext(context, sagaId, step, barred.stepResult))
        await setStatus(kit, tx, sagaId, step, 'compensated')
      },
    },
  )
  return 'compensated'
}

/** Of a step a no is an outcome. Of what must undo it, it is a fault that only a person can mend. */
function noIsNoOutcome(error: unknown): never {
  if (!(error instanceof BusinessError)) throw error
  throw new NonRetryableError(error.message, { cause: error })
}

type Barred =
  | { readonly kind: 'compensated' | 'suspended' }
  | { readonly kind: 'undo'; readonly stepResult: unknown }

/** From here on the step can neither begin nor settle. */
async function bar(
  kit: SagaKit,
  tx: Tx,
  { sagaId, step, position = 0, irreversible }: CompensationRequest,
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
      return { kind: 'undo', stepResult }
  }
}

/**
 * After the lock on the step's row, in a statement of its own: one that waited for that lock would not see the claim that was
 * committed meanwhile. Also where that was the last attempt: an effect that was abandoned may still be on its way.
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

async function setStatus(
  kit: SagaKit,
  tx: Tx,
  sagaId: string,
  step: string,
  status: StepStatus,
): Promise<void> {
  await tx.query(
    `UPDATE ${kit.schema}.saga_steps SET status = $3, updated_at = clock_timestamp() WHERE saga_id = $1 AND step = $2`,
    [sagaId, step, status],
  )
}

function compensationContext(
  context: StepContext,
  sagaId: string,
  step: string,
  stepResult: unknown,
): CompensationContext {
  const key = keyOf(sagaId, step)
  const idempotencyKey = derivedKey([compensationScope, key])
  return { ...context, idempotencyKey, sagaId, step, stepResult, stepKey: derivedKey([stepScope, key]) }
}

/** A no after the pivot: forward is the only way, so it is asked for again. */
export async function askAgain(kit: SagaKit, tx: Tx, sagaId: string): Promise<void> {
  const s = kit.schema
  const { rows } = await tx.query<{ step: string }>(
    `UPDATE ${s}.saga_steps SET status = 'pending', result = NULL, updated_at = clock_timestamp()
     WHERE saga_id = $1 AND status = 'failed' RETURNING step`,
    [sagaId],
  )
  await tx.query(
    `DELETE FROM ${s}.idempotency_keys WHERE status = 'failed' AND scope = $1 AND key = ANY($2)`,
    [stepScope, rows.map(({ step }) => keyOf(sagaId, step))],
  )
}

/** What a person has looked at may be tried again. */
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
}
