/**
 * What an error of a handler means for its message, the same for a delivery and for the replay of a dead letter; and an error as it is stored.
 */

import { storable } from './database.ts'
import {
  AttemptsExhaustedError,
  BusinessError,
  IdempotencyKeyReuseError,
  NonRetryableError,
  StepSuspendedError,
} from './errors.ts'

/** The message has its outcome: it is neither tried again nor a dead letter, and holds nothing up. */
type FinalOutcome = 'refused' | 'suspended'

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

/**
 * An error as stored beside the row that it stopped: its name, message and code, bounded. Never its properties, where
 * client libraries keep headers and secrets.
 *
 * What PostgreSQL cannot store is replaced: an error quotes its input, and one that cannot be stored would recur for
 * ever.
 */
export function errorJson(error: unknown): string {
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown }
  const bare = { name: plain(name), message: errorText(error), code: plain(code) }
  return JSON.stringify(bare, (_, value: unknown) => (typeof value === 'string' ? storable(value) : value))
}

export function errorText(error: unknown): string {
  return storable(textOf((error as Error)?.message ?? error).slice(0, 2_000))
}

export function errorCode(error: unknown): string {
  return storable(textOf((error as { code?: unknown })?.code ?? 'error').slice(0, 200))
}

/** Anything can be thrown, also what has no text: a failure that cannot be written down would recur for ever. */
function textOf(value: unknown): string {
  try {
    return String(value)
  } catch {
    return Object.prototype.toString.call(value)
  }
}

/** What JSON has as it is: no bigint, and no object that may hold itself. */
function plain(value: unknown): unknown {
  return value === undefined || typeof value === 'number' ? value : textOf(value)
}
