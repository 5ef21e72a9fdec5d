/**
 * Time and randomness, as arguments of everything that decides: a test moves the one and seeds the other. And how far clocks may drift
 * apart. `system/` has those of the process.
 */

/** Time. Durations are measured on the monotonic clock; the wall clock is for tokens, display and a second guard. */
export interface Clock {
  monoMs(): number
  wallMs(): number
  /** Calls `fire` once, after `delayMs` on the monotonic clock, unless cancelled. Does not keep the process alive. */
  timer(delayMs: number, fire: () => void): Timer
}

export interface Timer {
  cancel(): void
}

export interface Random {
  /** Uniform in [0, 1). */
  fraction(): number
  /** `byteCount` unpredictable bytes as lower-case hex digits. */
  hex(byteCount: number): string
}

/** Clock rates of nodes and sidecars are assumed to differ by less than this. */
export const DRIFT_FACTOR = 0.01

/** Of a node. Source: redis.io, "Distributed Locks with Redis". */
const EXPIRY_GRANULARITY_MS = 2

/** By how much sooner a lease of this length ends for its holder than on its node. */
export function driftMs(leaseMs: number, driftFactor = DRIFT_FACTOR): number {
  return Math.ceil(driftFactor * leaseMs) + EXPIRY_GRANULARITY_MS
}

/** A reading of our own two clocks at one moment. */
export type Instant = { readonly monoMs: number; readonly wallMs: number }

export function now(clock: Clock): Instant {
  return { monoMs: clock.monoMs(), wallMs: clock.wallMs() }
}
