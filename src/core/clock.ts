/**
 * Time and randomness, as arguments of everything that decides: a test moves the one and seeds the other.
 *
 * `system/` has those of the process.
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
