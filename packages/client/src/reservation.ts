/**
 * A reservation as its holder sees it. `holding.ts` does the work.
 *
 * The reference stays in the declarations: without it `AsyncDisposable` is unknown in a project whose `lib` ends at ES2024.
 */
/// <reference lib="esnext.disposable" preserve="true" />

import { Holding, type HoldOptions } from './holding.ts'
import type { Answered, TransportOptions } from './transport.ts'

export interface Reservation extends AsyncDisposable {
  /** Any sidecar serves it: another process may complete what this one reserved. */
  readonly id: string
  readonly sessionId: string
  /** Larger than every earlier holder's: send it with each write. */
  readonly fencingToken: number
  /** Above 1: an earlier holder's lease ended without an outcome, and the fate of its work is unknown. */
  readonly attempt: number
  /** Aborts with a `LeaseLostError` before the lease is lost. Pass it to everything that can be cancelled. */
  readonly signal: AbortSignal
  /** Until the signal aborts, on whichever clock has less left; 0 after the end. */
  readonly remainingMs: number
  /** @throws LeaseLostError if the lease is lost or about to be */
  throwIfLost(): void
  /** Extends the lease; the heartbeat does this by itself. @throws LeaseLostError if it is no longer ours */
  extend(leaseMs?: number): Promise<void>
  /**
   * Records the outcome: duplicates get `result`, any JSON value.
   * @throws FencedError if a later holder took over
   * @throws DuplicateError if it was completed before with another result, which stands
   * @throws CompletionUndecidedError if a later holder took over and `result` may still stand: reserve again to find
   *   out
   */
  complete(result?: unknown): Promise<void>
  /** Releases it: nothing was done. @throws FencedError if a later holder took over */
  release(): Promise<void>
  /** Stops the heartbeat and lets the lease run out: something may have been done, it is unknown what. */
  abandon(): void
  /** Releases it, unless the holder has ended it; abandons it if `complete` was called or the lease was lost. */
  [Symbol.asyncDispose](): Promise<void>
}

const HOLDINGS = new WeakMap<Reservation, Holding>()

/** Its holder completed, released or abandoned it: there is nothing left to say about its outcome. */
export function isDecided(reservation: Reservation): boolean {
  return HOLDINGS.get(reservation)?.isDecided === true
}

/** Its functions also work detached from the object: `const { extend, signal } = reservation`. */
export function holdReservation(
  granted: Answered,
  transport: TransportOptions,
  options: HoldOptions,
): Reservation {
  const holding = new Holding(granted, transport, options)
  const { body } = granted
  const reservation: Reservation = {
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
  HOLDINGS.set(reservation, holding)
  return reservation
}
