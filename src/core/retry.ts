/**
 * How long to wait before trying again: exponential, with full jitter.
 *
 * Full jitter (uniform between zero and the ceiling), because claimants that collided once must not collide in step.
 * Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (2015).
 */

import type { Clock, Random } from './clock.ts'

export type Backoff = {
  readonly initialMs: number
  readonly maxMs: number
  /** Share of each delay that is random. Default: all of it. */
  readonly jitter?: number
}

/** @param retry 0 for the first retry */
export function jitteredDelayMs(backoff: Backoff, retry: number, random: Random): number {
  const ceilingMs = Math.min(backoff.maxMs, backoff.initialMs * 2 ** retry)
  const { jitter = 1 } = backoff
  return ceilingMs * (1 - jitter + jitter * random.fraction())
}

/** Resolves after `delayMs` of the given clock. */
export function pause(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.timer(delayMs, resolve)
  })
}

/** The promise, or after `deadlineMs` an error with the sentence; a later result is dropped. */
export function within<T>(
  clock: Clock,
  deadlineMs: number,
  promise: Promise<T>,
  sentence: string,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.timer(deadlineMs, () => reject(new Error(sentence)))
    promise.then(resolve, reject).finally(() => timer.cancel())
  })
}

/** Resolves after `delayMs` of the given clock, or as soon as one of `events` has happened. */
export async function pauseUnless(
  events: readonly (Promise<void> | undefined)[],
  delayMs: number,
  clock: Clock,
): Promise<void> {
  const over = Promise.withResolvers<void>()
  const timer = clock.timer(delayMs, over.resolve)
  await Promise.race([over.promise, ...events.filter((event) => event !== undefined)])
  timer.cancel()
}

/** As a promise; undefined without a signal. */
export function whenAborted(signal: AbortSignal | undefined): Promise<void> | undefined {
  if (signal === undefined) return undefined
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** `retryAfterMs`: when it is over in any case; `heldForMs`: how long it has lasted, where that is known. */
type Waited = { readonly retryAfterMs: number; readonly heldForMs?: number }

/**
 * When a client had best come again. Nobody knows how long the work will take: after twice the time that it has taken so far a client that
 * obeys has waited at most three times as long as it had to, and has asked a handful of times. When the lease ends, at the latest: a holder
 * that died is then replaced.
 */
export function retryAfterMsOf({ retryAfterMs, heldForMs }: Waited): number {
  return heldForMs === undefined
    ? retryAfterMs
    : Math.min(retryAfterMs, Math.max(COME_AGAIN_MIN_MS, 2 * heldForMs))
}

/** A second is the smallest step of `Retry-After`. */
const COME_AGAIN_MIN_MS = 1_000

/** Those who wait for something to happen, each at most for a time of its own. Whoever is woken has no timer left. */
type WakeUps = {
  wake(): void
  /** Resolves at the next `wake`, or after `ms`. */
  orAfter(ms: number): Promise<void>
}

export function createWakeUps(clock: Pick<Clock, 'timer'>): WakeUps {
  const waiting = new Set<() => void>()
  return {
    wake: () => {
      for (const done of waiting) done()
    },
    orAfter: (ms) =>
      new Promise((resolve) => {
        const done = (): void => {
          timer.cancel()
          waiting.delete(done)
          resolve()
        }
        const timer = clock.timer(ms, done)
        waiting.add(done)
      }),
  }
}
