/**
 * Counts what is in flight on a listener, and waits for it when the listener drains.
 *
 *   serving → leaving → draining → idle, or the grace period ends
 *
 * Owns the count and the draining state. The listener decides what it still accepts while it drains, and what it cuts after the
 * grace period.
 */

import type { Clock } from '../../core/clock.ts'
import { createWakeUps } from '../../core/retry.ts'

export interface InFlight {
  readonly count: number
  readonly draining: boolean
  /** Its process is about to end: requests are taken, and answers end their connections, so that clients open the next elsewhere. */
  readonly leaving: boolean
  begin(): void
  end(): void
  leave(): void
  drain(): void
  /** Resolves when nothing is in flight, or after `graceMs`. */
  idleOrAfter(graceMs: number): Promise<void>
}

export function trackInFlight(clock: Pick<Clock, 'timer'>): InFlight {
  let count = 0
  let draining = false
  let leaving = false
  const idle = createWakeUps(clock)

  return {
    get count() {
      return count
    },
    get draining() {
      return draining
    },
    get leaving() {
      return leaving
    },
    begin: () => {
      count += 1
    },
    end: () => {
      count -= 1
      if (count === 0) idle.wake()
    },
    leave: () => {
      leaving = true
    },
    drain: () => {
      leaving = true
      draining = true
    },
    idleOrAfter: async (graceMs) => {
      if (count > 0) await idle.orAfter(graceMs)
    },
  }
}
