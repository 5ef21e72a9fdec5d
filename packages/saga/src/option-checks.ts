/**
 * Numbers and defaults of options. An option that is undefined has its default, as one that is left out; a number that
 * makes no sense is an error when the thing is made, never a loop without a pause or a wait without an end later.
 */
import type { Backoff } from './core.ts'
import { SagaConfigError } from './errors.ts'

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
