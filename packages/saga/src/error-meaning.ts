/**
 * What an error of a handler means for its message, the same for a delivery and for the replay of a dead letter.
 *
 * Owns the classification and nothing else: `inbox.ts` and `dead-letter-replay.ts` act on it.
 */
import {
  AttemptsExhaustedError,
  BusinessError,
  IdempotencyKeyReuseError,
  NonRetryableError,
  StepSuspendedError,
} from './errors.ts'

/** The message has its outcome: it is neither tried again nor a dead letter, and holds nothing up. */
export type FinalOutcome = 'refused' | 'suspended'

/**
 * `refused`: the business said no, which is an outcome and no fault. `suspended`: the compensation of its step came
 * first, so the step must never run. undefined for every other error.
 */
export function finalOutcomeOf(error: unknown): FinalOutcome | undefined {
  if (error instanceof BusinessError) return 'refused'
  if (error instanceof StepSuspendedError) return 'suspended'
  return undefined
}

/** A retry cannot help: the message becomes a dead letter at once. */
export function isHopeless(error: unknown): boolean {
  return (
    error instanceof NonRetryableError ||
    error instanceof IdempotencyKeyReuseError ||
    error instanceof AttemptsExhaustedError
  )
}
