/**
 * A circuit breaker as a state machine: stops requests to what does not answer, and probes it with one at a time.
 *
 *   closed → open (failed too often in a row) → half-open (its time is up: one probe) → closed | open, for longer
 *
 * Owns the states and their transitions, as pure functions of the monotonic time. Its users decide what is requested
 * and what counts as a failure: `node-breaker.ts` for one node, `quorum-breaker.ts` for the quorum.
 */

export type Breaker =
  | { readonly kind: 'closed'; readonly failures: number; readonly failingSinceMonoMs: number }
  | { readonly kind: 'open'; readonly untilMonoMs: number; readonly trips: number }
  /** One probe is under way. */
  | { readonly kind: 'half_open'; readonly trips: number }

export type BreakerRules = {
  /** Failures in a row that open it… */
  readonly failures: number
  /** …where they go on for this long. */
  readonly failingForMs: number
  /** How long it stays open the first time; twice as long each further time. */
  readonly openMs: number
  readonly openMaxMs: number
}

export const CLOSED: Breaker = { kind: 'closed', failures: 0, failingSinceMonoMs: 0 }

/** Whether to send a request now; the first one after the open time is the probe. */
export function admit(
  breaker: Breaker,
  monoMs: number,
): { readonly breaker: Breaker; readonly admitted: 'yes' | 'probe' | 'no' } {
  switch (breaker.kind) {
    case 'closed':
      return { breaker, admitted: 'yes' }
    case 'half_open':
      return { breaker, admitted: 'no' }
    case 'open':
      return monoMs < breaker.untilMonoMs
        ? { breaker, admitted: 'no' }
        : { breaker: { kind: 'half_open', trips: breaker.trips }, admitted: 'probe' }
  }
}

/**
 * What follows from an answer, or from its absence.
 *
 * @param admitted how the request was admitted: one from before the breaker opened decides nothing any more
 * @param fraction uniform in [0, 1): breakers that opened together must not probe together
 */
export function report(
  breaker: Breaker,
  admitted: 'yes' | 'probe',
  answered: boolean,
  monoMs: number,
  fraction: number,
  rules: BreakerRules,
): Breaker {
  switch (breaker.kind) {
    case 'open':
      return breaker
    case 'half_open':
      if (admitted !== 'probe') return breaker
      return answered ? CLOSED : opened(breaker.trips + 1, monoMs, fraction, rules)
    case 'closed': {
      if (answered) return breaker.failures === 0 ? breaker : CLOSED
      const failures = breaker.failures + 1
      const failingSinceMonoMs = breaker.failures === 0 ? monoMs : breaker.failingSinceMonoMs
      const enough = failures >= rules.failures && monoMs - failingSinceMonoMs >= rules.failingForMs
      return enough ? opened(0, monoMs, fraction, rules) : { kind: 'closed', failures, failingSinceMonoMs }
    }
  }
}

/** The upper half of the time is jitter. */
function opened(trips: number, monoMs: number, fraction: number, rules: BreakerRules): Breaker {
  const ceilingMs = Math.min(rules.openMaxMs, rules.openMs * 2 ** Math.min(trips, 20))
  return { kind: 'open', untilMonoMs: monoMs + (ceilingMs * (1 + fraction)) / 2, trips }
}
