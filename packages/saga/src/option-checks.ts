/**
 * Numbers, names and defaults of options. An option that is undefined has its default, as one that is left out; a number that
 * makes no sense is an error when the thing is made, never a loop without a pause or a wait without an end later.
 */
import type { Backoff } from './core.ts'
import { NonRetryableError, SagaConfigError } from './errors.ts'

/** By the names that the application knows; one that is undefined has its default. */
type Numbers = Readonly<Record<string, number | undefined>>

/** Times and sizes for which 0 makes no sense. */
export function requirePositive(numbers: Numbers): void {
  requireEach(numbers, (value) => value > 0, 'more than 0 expected')
}

/** Times that may be none. */
export function requireNotNegative(numbers: Numbers): void {
  requireEach(numbers, (value) => value >= 0, '0 or more expected')
}

export function requireWhole(numbers: Numbers): void {
  requireEach(numbers, (value) => Number.isInteger(value) && value >= 1, 'a whole number from 1 expected')
}

export function requireBackoff(name: string, { initialMs, maxMs, jitter }: Backoff): void {
  const isTime = (value: number) => Number.isFinite(value) && value >= 0
  requireEach({ [`${name}.initialMs`]: initialMs, [`${name}.maxMs`]: maxMs }, isTime, '0 or more expected')
  const isShare = (value: number) => value >= 0 && value <= 1
  requireEach({ [`${name}.jitter`]: jitter }, isShare, 'a number from 0 to 1 expected')
}

function requireEach(numbers: Numbers, isRight: (value: number) => boolean, expected: string): void {
  for (const [name, value] of Object.entries(numbers))
    if (value !== undefined && !isRight(value)) throw new SagaConfigError(`${name}: ${value} (${expected})`)
}

/** Without the members that are undefined, which would overwrite defaults in `{ ...defaults, ...options }`. */
export function given<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}

/** An empty name or key is mostly a field that was not there, and would make one operation of all that lack it. */
export function requireName(what: string, name: unknown): void {
  if (typeof name === 'string' && name.trim() !== '') return
  const given = name === undefined ? 'undefined' : JSON.stringify(name)
  throw new NonRetryableError(`${what} is ${given}; a text that is not empty is expected`)
}

/** Of a name that stands in an index with a few others: an index entry of PostgreSQL has at most 2704 bytes. */
export const indexedMaxBytes = 1_000

/** A longer one would be written, and then every statement that indexes it would fail. */
export function requireIndexedName(what: string, name: string): void {
  requireName(what, name)
  const bytes = Buffer.byteLength(name)
  if (bytes <= indexedMaxBytes) return
  throw new NonRetryableError(
    `${what} has ${bytes} bytes, and at most ${indexedMaxBytes} are possible; give a hash of it, and keep it in the payload`,
  )
}
