/**
 * Tells whether a clock that jumped ahead was the node's own, and the node has therefore forgotten.
 *
 *   steady → leapt (a jump was seen) → own (a majority did not jump) | ours (too few can say so)
 *
 * A node keeps a record until an hour of its own clock. Where this clock leaps ahead, records are over before their time,
 * fences with them, and setting it right again brings none of them back: that is a node that forgot. But all that anybody
 * sees is that the node's time went on faster than the watcher's, and a watcher that was suspended sees the same of every
 * node. So a node is judged by the other nodes: it leapt where a majority went on steadily through that very time.
 *
 * Owns this judgement as a pure function. What a jump is, is seen in `node-clocks.ts`; what follows from it is enrolment.
 */

/** A jump ahead: it happened between the sending of one question and the answer to a later one. */
export type Leap = { readonly fromMonoMs: number; readonly untilMonoMs: number; readonly aheadMs: number }

/** Between which questions a node has not jumped ahead; undefined where it has never answered. */
export type Steady = { readonly sinceMonoMs: number; readonly lastMonoMs: number } | undefined

export type LeapVerdict = 'own' | 'ours' | 'unknown'

/**
 * @param steady one entry a node, that of the node itself among them: it is none of its witnesses
 * @param required a majority of all nodes
 */
export function judgeLeap(
  { fromMonoMs, untilMonoMs }: Leap,
  steady: readonly Steady[],
  required: number,
): LeapVerdict {
  const able = steady.filter((node) => node === undefined || node.sinceMonoMs <= fromMonoMs)
  const witnesses = able.filter((node) => node !== undefined && node.lastMonoMs >= untilMonoMs)
  if (witnesses.length >= required) return 'own'
  return able.length < required ? 'ours' : 'unknown'
}
