/**
 * A reading of our own two clocks at one moment, and how far other clocks may drift apart from them.
 *
 * Source: redis.io, "Distributed Locks with Redis"; the 2 ms cover the granularity of expiry on a node.
 */

import type { Clock } from './clock.ts'

/** Clock rates of nodes and sidecars are assumed to differ by less than this. */
export const DRIFT_FACTOR = 0.01

const EXPIRY_GRANULARITY_MS = 2

/** By how much sooner a lease of this length ends for its holder than on its node. */
export function driftMs(leaseMs: number, driftFactor = DRIFT_FACTOR): number {
  return Math.ceil(driftFactor * leaseMs) + EXPIRY_GRANULARITY_MS
}

export type Instant = { readonly monoMs: number; readonly wallMs: number }

export function now(clock: Clock): Instant {
  return { monoMs: clock.monoMs(), wallMs: clock.wallMs() }
}
