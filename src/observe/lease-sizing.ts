/**
 * How long the application works, by route, beside the lease that it works under and the one that would suit it.
 *
 * Owns the window: the last executions of each route in this process, exactly. A histogram would need its buckets where the
 * p99 of somebody's application happens to be, and for each route; three gauges cost less and say it.
 */

import { suggestedLeaseMs } from '../core/claims/lease.ts'
import type { MakeGauge } from './tallies.ts'

/** Ten times what a p99 needs; 8 KiB a route. */
const KEPT_MAX = 1_000
/** Of fewer the slowest says nothing about one in a hundred. */
const NEEDED_MIN = 100

export type LeaseSizingOptions = {
  /** Names of the configured routes, in their order. */
  readonly routes: readonly string[]
  /** Which of them have a series of their own, and the name of that of all others. */
  readonly labels: readonly string[]
  readonly other: string
  /** The leases of those that are protected, by name. Default: none. */
  readonly leasesMs?: ReadonlyMap<string, number>
  readonly nodeDeadlineMs?: number
}

/** As `redis.nodeDeadline`. */
const NODE_DEADLINE_MS = 80

export function leaseSizing(gauge: MakeGauge, options: LeaseSizingOptions) {
  const { labels: route, nodeDeadlineMs = NODE_DEADLINE_MS } = options
  const p99 = gauge(
    'fencepost_application_p99_seconds',
    'The p99 of how long the application worked on protected requests; NaN before there are 100.',
    { route },
    Number.NaN,
  )
  const configured = gauge(
    'fencepost_lease_configured_seconds',
    'The lease of the route; NaN where none of it is protected.',
    { route },
    Number.NaN,
  )
  const suggested = gauge(
    'fencepost_lease_suggested_seconds',
    'The shortest lease that suits the p99 of the application; NaN where that is not known.',
    { route },
    Number.NaN,
  )
  for (const [name, leaseMs] of labelledLeases(options)) configured.set({ route: name }, leaseMs / 1_000)
  const windows = new Map(route.map((name) => [name, new RecentTimes()]))
  return {
    worked: (name: string, durationMs: number) => windows.get(name)?.add(durationMs),
    /** Brings the gauges to what was seen until now. */
    record: () => {
      for (const [name, window] of windows) {
        const p99Ms = window.p99()
        if (p99Ms === undefined) continue
        p99.set({ route: name }, p99Ms / 1_000)
        suggested.set({ route: name }, suggestedLeaseMs(p99Ms, nodeDeadlineMs) / 1_000)
      }
    },
  }
}

/** Of the routes that share a series the shortest: it is too short first. */
function labelledLeases({
  routes,
  labels,
  other,
  leasesMs,
}: LeaseSizingOptions): ReadonlyMap<string, number> {
  const shown = new Map<string, number>()
  for (const name of routes) {
    const leaseMs = leasesMs?.get(name)
    const label = labels.includes(name) ? name : other
    if (leaseMs !== undefined) shown.set(label, Math.min(leaseMs, shown.get(label) ?? leaseMs))
  }
  return shown
}

class RecentTimes {
  #times = new Float64Array(0)
  #seen = 0

  add(ms: number): void {
    // Not before the route is used: most processes use few.
    if (this.#times.length === 0) this.#times = new Float64Array(KEPT_MAX)
    this.#times[this.#seen % KEPT_MAX] = ms
    this.#seen += 1
  }

  p99(): number | undefined {
    if (this.#seen < NEEDED_MIN) return undefined
    const sorted = this.#times.slice(0, Math.min(this.#seen, KEPT_MAX)).sort()
    return sorted[Math.ceil(0.99 * sorted.length) - 1]
  }
}
