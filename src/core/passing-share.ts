/**
 * How much of a limit the requests that no route protects may take.
 *
 * They pass through as slowly as their clients and the application like: uploads of phones, long polls, streams of events, WebSockets. A
 * few hundred of them would take every place, and with it every payment behind them. Nothing slower than its route allows is protected.
 *
 * Owns the share: all but a quarter, so that a limit below four is for whoever comes first.
 */
export function passingShare(limit: number): number {
  return limit - Math.floor(limit / 4)
}
