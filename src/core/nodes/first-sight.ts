/**
 * Tells whether a node's clock is one to be believed when it is seen for the first time.
 *
 * A watcher that has just begun has not seen a leap of a moment ago: the node that forgot by it answers like any other, until
 * somebody who saw it takes its epoch away. But a clock that has leapt is not where the others are. So a node is believed at
 * first sight where a majority, itself among them, shows one time; another one waits for as long as after a step.
 *
 * Owns this judgement as a pure function, and nothing of what follows from it.
 */

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
