/**
 * Judges whether a forward clock jump was the node's own, so that the node may have forgotten.
 *
 *   steady → jumped ahead → own (a majority did not jump) | ours (too few can confirm it)
 *
 * A node keeps a record until an hour of its own clock. If this clock jumps ahead, records and their fences expire
 * early, and setting it right again restores none of them: that is a node that forgot. But a watcher only sees that the
 * node's time went on faster than its own, and a watcher that was suspended sees the same of every node. So the other
 * nodes judge a node: it jumped where a majority went on steadily through that very time.
 *
 * Owns this judgement as a pure function. `node-clocks.ts` detects a jump; enrolment follows from it.
 */

import { DRIFT_FACTOR } from '../clock-drift.ts'
import { enrolledAtNodeMs } from './enrolment-rules.ts'

/** A node's time is cut to whole milliseconds. */
export const GRANULARITY_MS = 1

/** A jump ahead: it happened between sending one request and the answer to a later one. */
export type ForwardJump = {
  readonly fromMonoMs: number
  readonly untilMonoMs: number
  readonly aheadMs: number
  /** What the node's clock showed in the later answer. */
  readonly nodeMs: number
}

/** Between which requests a node did not jump ahead; undefined where it has never answered. */
export type Steady = { readonly sinceMonoMs: number; readonly lastMonoMs: number } | undefined

export type JumpVerdict = 'own' | 'ours' | 'unknown'

/**
 * @param steady one entry per node, including the judged node, which is none of its witnesses
 * @param required a majority of all nodes
 */
export function judgeForwardJump(
  { fromMonoMs, untilMonoMs }: ForwardJump,
  steady: readonly Steady[],
  required: number,
): JumpVerdict {
  const able = steady.filter((node) => node === undefined || node.sinceMonoMs <= fromMonoMs)
  const witnesses = able.filter((node) => node !== undefined && node.lastMonoMs >= untilMonoMs)
  if (witnesses.length >= required) return 'own'
  return able.length < required ? 'ours' : 'unknown'
}

/**
 * Whether the node surely showed this time before it jumped, by its own clock: after the jump it showed nothing earlier
 * than this, even at the very beginning of the gap. A jump shorter than the gap leaves times of either side.
 */
function isBeforeJump(nodeMs: number, jump: ForwardJump): boolean {
  const gapMs = (jump.untilMonoMs - jump.fromMonoMs) * (1 + DRIFT_FACTOR)
  return nodeMs < jump.nodeMs - gapMs - GRANULARITY_MS
}

/**
 * Whether the node forgot by this jump what it promised under an epoch. An epoch first seen after the jump counts as a
 * later one, because other sidecars may have enrolled it already, unless its own enrolment time contradicts that.
 */
export function isForgotten(epoch: string, firstSeenMonoMs: number, jump: ForwardJump): boolean {
  if (firstSeenMonoMs < jump.untilMonoMs) return true
  const enrolledNodeMs = enrolledAtNodeMs(epoch)
  return enrolledNodeMs !== undefined && isBeforeJump(enrolledNodeMs, jump)
}
