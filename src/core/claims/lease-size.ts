/**
 * How long a lease has to be for the work that is done under it (docs/operations/capacity.md).
 *
 *   lease − drift of the lease ≥ 3 · p99 of the work + round trip to the nodes
 *
 * Owns the formula. The round trip is taken as its bound, the deadline of a node: beyond it a node has not answered.
 */

import { DRIFT_FACTOR, driftMs } from '../clock-drift.ts'

/** The slowest of a hundred is no bound of the slowest of a thousand: between them lie retries and collections of garbage. */
const WORK_FACTOR = 3

/** A lease must be 20 node deadlines at least: slow nodes would use it up (configuration.md, "Relations"). */
const NODE_DEADLINES_MIN = 20

/** The shortest lease that fulfils the inequality, in whole milliseconds. */
export function suggestedLeaseMs(workP99Ms: number, nodeDeadlineMs: number): number {
  const needed = WORK_FACTOR * workP99Ms + nodeDeadlineMs
  // At the least: rounding may take one more.
  let leaseMs = Math.ceil((needed + driftMs(0)) / (1 - DRIFT_FACTOR))
  if (leaseMs - driftMs(leaseMs) < needed) leaseMs += 1
  return Math.max(leaseMs, NODE_DEADLINES_MIN * nodeDeadlineMs)
}
