/**
 * How many requests begin in one turn of the event loop.
 *
 * A burst of a thousand requests is a thousand readable sockets, which Node delivers in one turn. Beginning all of them there
 * would delay scrapes, probes and renewals by 100 ms and more. So a few begin at once, and the others in later turns, in order of
 * arrival. Owns that order, and no limit: every request begins.
 */

import type { Clock } from '../../core/clock.ts'

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
