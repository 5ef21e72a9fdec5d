/**
 * How old an answer of a node may be and still count.
 *
 * A node that lost its memory votes again after a quarantine. What it said before that, a process that stood still would read
 * beside what the others say now: a majority with a member that knows nothing of it any more. So no answer of any kind counts
 * that is read when such a node may vote again. Nothing is lost by it: a claim that was granted is given back, and an outcome
 * that was recorded is recorded when it is offered again.
 *
 * Embedded nodes need no such limit: they stand still with the process, and lose their memory with it.
 */

import { driftMs, type Instant } from '../clock-drift.ts'

/**
 * No answer counts that is read later than this after it was asked for, on the monotonic or the wall clock, whichever shows
 * more. So what a majority acknowledged was carried out on each of its nodes within this time: a node that was started again so
 * long ago is counted for nothing any more that it did before.
 */
export const ANSWER_MAX_AGE_MS = 2_000

/** For nodes with this quarantine: answers are over before it may be, on any clock. */
export function answerMaxAgeMs(quarantineMs: number): number {
  return Math.max(0, Math.min(ANSWER_MAX_AGE_MS, quarantineMs - driftMs(quarantineMs)))
}

/** The monotonic clock does not see a suspended machine on every system, the wall clock may have been set back. */
export function ageMs(askedAt: Instant, at: Instant): number {
  return Math.max(at.monoMs - askedAt.monoMs, at.wallMs - askedAt.wallMs)
}
