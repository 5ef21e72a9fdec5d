/**
 * What a failure means for a saga that a runner drives: later, or the end of its attempts.
 *
 * Owns that nothing is repeated for ever. An attempt counts by the step's key from its claim on, and by the step's row if
 * it ends before. What this version of a definition does not know is left to another one, and parked after many tries.
 */
import { type Backoff, jitteredDelayMs } from './core.ts'
import { isOutage } from './database.ts'
import { errorText, isHopeless } from './error-meaning.ts'
import { LockNotAcquiredError, OperationInProgressError, SagaConfigError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import type { AnyStep } from './saga-definition.ts'
import { type Move, type SagaView, stepsOf, type Taken } from './saga-instances.ts'
import { noteUnclaimed, type StepStatus } from './saga-step-rows.ts'
import { maxAttemptsDefault } from './step-record.ts'

export type Failing = { readonly kit: SagaKit; readonly backoff: Backoff }

/**
 * Failures in a row until a saga is parked, where no step counts them. As many as a compensation has; with the default
 * backoff more than half an hour, so that a rollout is over by then.
 */
const failuresMax = 50

/** Others are at work, or the database is away. */
export function isNoFailure(error: unknown): boolean {
  return error instanceof OperationInProgressError || error instanceof LockNotAcquiredError || isOutage(error)
}

/** Counts an attempt that failed before its claim. True if it was the step's last. */
export async function isExhausted(
  kit: SagaKit,
  sagaId: string,
  { name, maxAttempts = maxAttemptsDefault }: { readonly name: string; readonly maxAttempts?: number },
  error: unknown,
): Promise<boolean> {
  const attempts = await noteUnclaimed(kit, { sagaId, step: name }, errorText(error))
  return isHopeless(error) || (attempts ?? 0) >= maxAttempts
}

export function laterMove({ kit, backoff }: Failing, saga: Taken, step: string, error: unknown): Move {
  const { status, attempts } = saga
  if (error instanceof LockNotAcquiredError && error.cause !== undefined) {
    kit.emit({ kind: 'saga_step_failed', sagaId: saga.sagaId, step, error })
    const lastError = `${errorText(error)}: ${errorText(error.cause)}`
    return { status, attempts, delayMs: error.retryAfterMs, lastError }
  }
  if (error instanceof OperationInProgressError || error instanceof LockNotAcquiredError)
    return { status, attempts, delayMs: error.retryAfterMs }
  if (isOutage(error)) return { status, attempts, delayMs: 500, lastError: errorText(error) }
  kit.emit({ kind: 'saga_step_failed', sagaId: saga.sagaId, step, error })
  const delayMs = jitteredDelayMs(backoff, attempts, kit.random)
  return { status, attempts: attempts + 1, delayMs, lastError: errorText(error) }
}

/** For failures that no step counts. */
export function laterOrParked(failing: Failing, saga: Taken, step: string, error: unknown): Move {
  const later = laterMove(failing, saga, step, error)
  return later.attempts > saga.attempts && later.attempts >= failuresMax
    ? { ...later, status: 'parked', attempts: 0, delayMs: 0 }
    : later
}

/**
 * A saga that was parked on its way back, by a step that this version did not know, and is let go: it has a reason, and goes on back.
 * Only what its pivot has decided goes forward with a reason.
 */
export async function turnedBack(
  kit: SagaKit,
  { steps }: { readonly steps: readonly AnyStep[] },
  { sagaId, reason }: Taken,
): Promise<Move | undefined> {
  if (reason === null) return undefined
  const pivot = steps.find((step) => step.pivot === true)
  const status = (await stepsOf(kit, sagaId)).find(({ name }) => name === pivot?.name)?.status
  const isDecided = status === 'done' || (status === 'running' && pivot?.effect !== undefined)
  return isDecided ? undefined : { status: 'compensating', attempts: 0 }
}

/** A step of another version of the definition, which can execute or undo it; this version would skip it. */
export function unknownStep(
  { steps }: { readonly steps: readonly { readonly name: string }[] },
  log: SagaView['steps'],
  statuses: readonly StepStatus[],
): SagaView['steps'][number] | undefined {
  return log.find(
    ({ name, status }) => statuses.includes(status) && !steps.some((step) => step.name === name),
  )
}

export function notOurs({ name, status }: SagaView['steps'][number]): SagaConfigError {
  return new SagaConfigError(`step ${name} is ${status} and not in this definition of the saga`)
}
