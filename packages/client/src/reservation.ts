/**
 * A reservation in the hands of the caller that works under it. What it does is `holding.ts`'s; this is what the caller sees.
 */

import { Holding, type HoldOptions } from './holding.ts'
import type { Answered, TransportOptions } from './transport.ts'

export interface Reservation extends AsyncDisposable {
  /** Any sidecar serves it: another process may complete what this one has reserved. */
  readonly id: string
  readonly sessionId: string
  /** Larger than that of every earlier holder: give it to what you write to. */
  readonly fencingToken: number
  /** Above 1: an earlier holder's lease ended without an outcome, and what became of its work is unknown. */
  readonly attempt: number
  /** Aborts with a `LeaseLostError` before the lease is lost. Pass it on to everything that can be cancelled. */
  readonly signal: AbortSignal
  /** Until the signal aborts, on whichever clock has less; 0 where it is over. */
  readonly remainingMs: number
  /** @throws LeaseLostError where the lease is lost or about to be */
  throwIfLost(): void
  /** Holds it for longer; the heartbeat does this by itself. @throws LeaseLostError where it is no longer ours */
  extend(leaseMs?: number): Promise<void>
  /**
   * Records the outcome: duplicates are told `result`, any JSON value.
   * @throws FencedError where a later holder took over
   * @throws CompletionUndecidedError where a later holder took over and `result` may stand all the same: reserve again to know
   */
  complete(result?: unknown): Promise<void>
  /** Gives it back: nothing was done. @throws FencedError where a later holder took over */
  release(): Promise<void>
  /** Stops the heartbeat and leaves the lease to end: something may have been done, and what is unknown. */
  abandon(): void
  /** Releases it where nothing has been said of it; abandons it where `complete` was called, or the lease was lost. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Its functions work also where the caller takes them out of the object: `const { extend, signal } = reservation`. */
export function holdReservation(
  granted: Answered,
  transport: TransportOptions,
  options: HoldOptions,
): Reservation {
  const holding = new Holding(granted, transport, options)
  const { body } = granted
  return {
    get id() {
      return holding.id
    },
    sessionId: String(body.session_id),
    fencingToken: holding.fencingToken,
    attempt: Number(body.attempt),
    signal: holding.signal,
    get remainingMs() {
      return holding.remainingMs()
    },
    throwIfLost: () => holding.throwIfLost(),
    extend: (leaseMs) => holding.extend(leaseMs),
    complete: (result) => holding.complete(result),
    release: () => holding.release(),
    abandon: () => holding.abandon(),
    [Symbol.asyncDispose]: () => holding.dispose(),
  }
}
