/**
 * The delay of the event loop, p99 since the scrape before: how long a timer waits beyond its time, with the 10 ms between two looks.
 *
 * Owns how often it looks. A look every 10 ms is 100 wakings a second, which cost an idle process more than all else that it does. So
 * they are for times with requests; without requests since the scrape before it looks twice a second. What it shows of a stall of half a
 * second or more is the same; a shorter one is seen where a look falls into it.
 */

import { monitorEventLoopDelay } from 'node:perf_hooks'

export const EVENT_LOOP_LAG = 'nodejs_eventloop_lag_p99_seconds'

const BUSY_MS = 10
const IDLE_MS = 500

/** The part of Node's histogram that is used here; durations in nanoseconds. */
export type DelayMonitor = {
  readonly count: number
  enable(): unknown
  disable(): unknown
  reset(): void
  percentile(percentile: number): number
}

/** @param monitor of Node, which looks every so many milliseconds once it is enabled */
export function eventLoopLag(
  monitor: (everyMs: number) => DelayMonitor = (resolution) => monitorEventLoopDelay({ resolution }),
) {
  const idle = monitor(IDLE_MS)
  /** Made for the first request: each holds 0.4 MB. */
  let busy: DelayMonitor | undefined
  let looking = idle
  let servedSinceScrape = false
  idle.enable()

  function look(by: DelayMonitor): void {
    if (looking === by) return
    looking.disable()
    by.reset()
    by.enable()
    looking = by
  }

  function secondsSinceScrape(): number {
    // Both show what a look every 10 ms does: the interval is within what Node measures.
    const beyondMs = looking === idle ? IDLE_MS - BUSY_MS : 0
    return looking.count === 0 ? 0 : Math.max(0, looking.percentile(99) / 1e9 - beyondMs / 1e3)
  }

  const described = {
    name: EVENT_LOOP_LAG,
    help: 'The 99th percentile of the recorded event loop delays.',
    type: 'gauge',
  } as const
  return {
    metric: {
      ...described,
      getForPromString: async () => {
        const value = secondsSinceScrape()
        looking.reset()
        if (!servedSinceScrape) look(idle)
        servedSinceScrape = false
        return { ...described, values: [{ labels: {}, value }] }
      },
    },
    served: () => {
      servedSinceScrape = true
      busy ??= monitor(BUSY_MS)
      look(busy)
    },
  }
}
