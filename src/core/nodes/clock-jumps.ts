/**
 * Tells whether a clock that jumped ahead was the node's own, and the node has therefore forgotten.
 *
 *   steady → jumped ahead → own (a majority did not jump) | ours (too few can say so)
 *
 * A node keeps a record until an hour of its own clock. Where this clock jumps ahead, records are over before their time,
 * fences with them, and setting it right again brings none of them back: that is a node that forgot. But all that anybody
 * sees is that the node's time went on faster than the watcher's, and a watcher that was suspended sees the same of every
 * node. So a node is judged by the other nodes: it jumped where a majority went on steadily through that very time.
 *
 * Owns this judgement as a pure function. What a jump is, is seen in `node-clocks.ts`; what follows from it is enrolment.
 */

import { DRIFT_FACTOR } from '../clock-drift.ts'
import { enrolledAtNodeMs } from './enrolment-rules.ts'

/** A node's time is cut to whole milliseconds. */
export const GRANULARITY_MS = 1

/** A jump ahead: it happened between the sending of one question and the answer to a later one. */
export type ForwardJump = {
  readonly fromMonoMs: number
  readonly untilMonoMs: number
  readonly aheadMs: number
  /** What the node's clock showed in the later answer. */
  readonly nodeMs: number
}

/** Between which questions a node has not jumped ahead; undefined where it has never answered. */
export type Steady = { readonly sinceMonoMs: number; readonly lastMonoMs: number } | undefined

export type JumpVerdict = 'own' | 'ours' | 'unknown'

/**
 * @param steady one entry a node, that of the node itself among them: it is none of its witnesses
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
 * Whether the node showed this time surely before it jumped, by its own clock: after the jump it has shown nothing earlier than
 * this, were it at the very beginning of the gap. A jump that is shorter than the gap leaves times that may be of either side.
 */
function isBeforeJump(nodeMs: number, jump: ForwardJump): boolean {
  const gapMs = (jump.untilMonoMs - jump.fromMonoMs) * (1 + DRIFT_FACTOR)
  return nodeMs < jump.nodeMs - gapMs - GRANULARITY_MS
}

/**
 * Whether what the node promised under an epoch it has forgotten by this jump. An epoch that was first seen after the jump is
 * taken for one of after it, unless the node's own time of its enrolment says otherwise: others may have enrolled it already.
 */
export function isForgotten(epoch: string, firstSeenMonoMs: number, jump: ForwardJump): boolean {
  if (firstSeenMonoMs < jump.untilMonoMs) return true
  const enrolledNodeMs = enrolledAtNodeMs(epoch)
  return enrolledNodeMs !== undefined && isBeforeJump(enrolledNodeMs, jump)
}
