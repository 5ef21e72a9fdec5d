/**
 * When requests begin on a listener, how many are in flight, and how it waits for them when it drains.
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

/**
 * When requests begin. A burst of a thousand is a thousand readable sockets, which Node delivers in one turn of the event loop: beginning all
 * of them there would delay scrapes, probes and renewals by 100 ms and more. So a few begin at once, and the others in later turns, in order of
 * arrival. It is no limit: every request begins.
 */
export interface RequestScheduler {
  /** Undefined where the request may begin now, else resolves when it may. */
  begin(): Promise<void> | undefined
}

/** At some 150 µs each they delay everything else by some 3 ms; a scrape waits for several turns. */
const A_TURN = 16
/** After this time a new turn is assumed: asking the loop itself would cost a turn for each request. */
const TURN_MS = 5

export function createRequestScheduler({ monoMs }: Pick<Clock, 'monoMs'>): RequestScheduler {
  const waiting: (() => void)[] = []
  let sinceMonoMs = Number.NEGATIVE_INFINITY
  let begun = 0

  function next(): void {
    for (const go of waiting.splice(0, A_TURN)) go()
    if (waiting.length > 0) setImmediate(next)
  }

  return {
    begin: () => {
      const nowMonoMs = monoMs()
      if (nowMonoMs - sinceMonoMs >= TURN_MS) {
        sinceMonoMs = nowMonoMs
        begun = 0
      }
      begun += 1
      if (begun <= A_TURN && waiting.length === 0) return undefined
      if (waiting.length === 0) setImmediate(next)
      return new Promise((resolve) => waiting.push(resolve))
    },
  }
}
