/**
 * How old an answer of a node may be and still count.
 *
 * A node that lost its memory votes again after a quarantine. A process that was suspended meanwhile could count an
 * answer from before the loss beside the current answers of the others: a majority with a member that remembers none of
 * it. So an answer that is read when such a node may vote again does not count. That loses nothing: a granted claim is
 * released, and a recorded outcome is recorded again by the retry.
 *
 * Embedded nodes need no such limit: they are suspended with the process, and lose their memory with it.
 */

import { driftMs, type Instant } from '../clock-drift.ts'

/**
 * An answer counts only if it is read within this time of its request, on the monotonic and on the wall clock. So each
 * node of an acknowledged majority executed the command within this time, and a node that restarted longer ago counts
 * for none of what it did before.
 */
export const ANSWER_MAX_AGE_MS = 2_000

/** For nodes with this quarantine: answers expire before the quarantine can end, on any clock. */
export function answerMaxAgeMs(quarantineMs: number): number {
  return Math.max(0, Math.min(ANSWER_MAX_AGE_MS, quarantineMs - driftMs(quarantineMs)))
}

/** The monotonic clock misses a suspended machine on some systems, and the wall clock may have been set back. */
export function ageMs(askedAt: Instant, at: Instant): number {
  return Math.max(at.monoMs - askedAt.monoMs, at.wallMs - askedAt.wallMs)
}
