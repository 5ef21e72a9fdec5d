/**
 * Judges whether a node's clock can be trusted when it is seen for the first time.
 *
 * A new watcher has missed a jump of a moment ago: the node that forgot by it answers like any other, until a sidecar
 * that saw the jump takes its epoch away. But a clock that has jumped disagrees with the others. So a node is trusted
 * at first sight where a majority, itself included, shows one time; another one waits for as long as after a step.
 *
 * That suffices to detect a node that forgot, and is far too coarse for leases: a node misjudges the end of a lease by
 * as much as its clock jumped while the lease ran, and the holder stops earlier than the node only by the drift
 * allowance. A sidecar that has watched a clock for as long as the longest lease knows; until then a clock must be
 * closer to the others than that.
 *
 * Owns these judgements as pure functions, and not what follows from them.
 */

import { driftMs } from '../clock-drift.ts'

/** How far a node's clock is ahead of a monotonic one, and the uncertainty: half a round trip. */
export type Reading = { readonly aheadMs: number; readonly uncertaintyMs: number }

/**
 * @param others one entry per node that was seen, including the judged node
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

/** How far one clock is from those of a majority at most, whatever the round trips hide. @param others as above */
export function apartFromMost(one: Reading, others: readonly Reading[], required: number): number {
  const apartMs = others.map((other) =>
    other === one ? 0 : Math.abs(other.aheadMs - one.aheadMs) + other.uncertaintyMs + one.uncertaintyMs,
  )
  return apartMs.sort((a, b) => a - b)[required - 1] ?? Number.POSITIVE_INFINITY
}

/**
 * How far clocks may be apart where one of them decides that a lease of this length has ended. A clock that far behind
 * the others may have jumped by twice as much, to that far ahead of them: two thirds of the holder's drift allowance.
 * The last third is left for drift, and is ten times that of a bad clock.
 */
export function toleratedApartMs(leaseMs: number): number {
  return driftMs(leaseMs) / 3
}
