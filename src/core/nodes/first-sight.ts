/**
 * Tells whether a node's clock is one to be believed when it is seen for the first time.
 *
 * A watcher that has just begun has not seen a jump of a moment ago: the node that forgot by it answers like any other, until
 * somebody who saw it takes its epoch away. But a clock that has jumped is not where the others are. So a node is believed at
 * first sight where a majority, itself among them, shows one time; another one waits for as long as after a step.
 *
 * That is enough to tell who has forgotten, and far too coarse for leases: what a node says of a lease that has ended is wrong by as much as
 * its clock jumped while the lease ran, and its holder stops earlier than the node by nothing but what clocks may drift apart. Whoever has
 * watched a clock for as long as the longest lease knows; until then a clock must be closer to the others than that.
 *
 * Owns these judgements as pure functions, and nothing of what follows from them.
 */

import { driftMs } from '../clock-drift.ts'

/** How far a node's clock is ahead of a monotonic one, and how wrong that may be: half a round trip. */
export type Reading = { readonly aheadMs: number; readonly uncertaintyMs: number }

/**
 * @param others one entry a node that has been seen, the node itself among them
 * @param required a majority of all nodes
 */
export function isAmongMost(
  one: Reading,
  others: readonly Reading[],
  toleratedMs: number,
  required: number,
): boolean {
  const near = others.filter(
    (other) => Math.abs(other.aheadMs - one.aheadMs) <= toleratedMs + other.uncertaintyMs + one.uncertaintyMs,
  )
  return near.length >= required
}

/** How far one clock and those of a majority are apart at most, whatever the round trips hide. @param others as above */
export function apartFromMost(one: Reading, others: readonly Reading[], required: number): number {
  const apartMs = others.map((other) =>
    other === one ? 0 : Math.abs(other.aheadMs - one.aheadMs) + other.uncertaintyMs + one.uncertaintyMs,
  )
  return apartMs.sort((a, b) => a - b)[required - 1] ?? Number.POSITIVE_INFINITY
}

/**
 * How far clocks may be apart where leases of that length are taken over by what one of them says. A clock that stood so far behind the
 * others may have jumped by twice as much, to so far ahead of them: two thirds of what the holder allows for drift. The last one is left for
 * drift, and is ten times what a bad clock does.
 */
export function toleratedApartMs(leaseMs: number): number {
  return driftMs(leaseMs) / 3
}
