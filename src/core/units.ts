/**
 * Numbers and their units: every duration in the code is a number of milliseconds and says so in its own name
 * (`leaseMs`); every instant says on which clock it was read (`…MonoMs`, `…WallMs`, `…NodeMs`).
 */

/** Smallest strict majority of `nodeCount` nodes: ⌊N/2⌋ + 1. */
export function majorityOf(nodeCount: number): number {
  return Math.floor(nodeCount / 2) + 1
}

/**
 * How much of a limit the requests that no route protects may take: all but a quarter, so that a limit below four is for whoever comes first.
 * They pass through as slowly as their clients and the application like: uploads of phones, long polls, streams of events, WebSockets. A
 * few hundred of them would take every place, and with it every payment behind them. Nothing slower than its route allows is protected.
 */
export function unprotectedLimit(limit: number): number {
  return limit - Math.floor(limit / 4)
}
