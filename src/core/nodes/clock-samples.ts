/**
 * What the answers of one node show of its clock: steps between two of them, and its offset from ours.
 *
 * Steps cost nothing to detect: between two answers the node's time must have progressed by as much as our monotonic
 * clock, give or take the round trips and the drift. An offset is known to half a round trip.
 *
 * Owns the arithmetic as pure functions. What follows for a node's votes is `node-clocks.ts`.
 */

import { DRIFT_FACTOR } from '../clock-drift.ts'
import { GRANULARITY_MS } from './clock-jumps.ts'
import type { Reading } from './first-sight.ts'

/** One answer: the node read its clock at some moment between sending and receiving. */
export type ClockSample = {
  readonly nodeMs: number
  readonly sentMonoMs: number
  readonly receivedMonoMs: number
}

/**
 * By how much at least the node's clock was stepped between two answers; negative: backwards; 0: round trips and drift
 * explain it all.
 */
export function stepBetween(earlier: ClockSample, later: ClockSample): number {
  const progressMs = later.nodeMs - earlier.nodeMs
  const mostMs = (later.receivedMonoMs - earlier.sentMonoMs) * (1 + DRIFT_FACTOR)
  // Negative where the two overlapped: then the node may have read its clock for the later one first.
  const apartMs = later.sentMonoMs - earlier.receivedMonoMs
  const leastMs = apartMs * (apartMs < 0 ? 1 + DRIFT_FACTOR : 1 - DRIFT_FACTOR)
  if (progressMs - GRANULARITY_MS > mostMs) return progressMs - GRANULARITY_MS - mostMs
  if (progressMs + GRANULARITY_MS < leastMs) return progressMs + GRANULARITY_MS - leastMs
  return 0
}

export type Offset = { readonly offsetMs: number; readonly uncertaintyMs: number }

/** How far the node's clock is ahead of our wall clock, and the uncertainty: half a round trip. */
export function offsetOf(nodeMs: number, sentWallMs: number, roundTripMs: number): Offset {
  return { offsetMs: nodeMs - (sentWallMs + roundTripMs / 2), uncertaintyMs: roundTripMs / 2 }
}

/** Surely too far, surely not, or undecided by this answer. */
export function judgeOffset({ offsetMs, uncertaintyMs }: Offset, maxSkewMs: number): boolean | undefined {
  if (Math.abs(offsetMs) - uncertaintyMs > maxSkewMs) return true
  return Math.abs(offsetMs) + uncertaintyMs <= maxSkewMs ? false : undefined
}

/** How far apart the clocks are at least: a node that answers late has shown no other time than ours. */
export function provenOffsetMs({ offsetMs, uncertaintyMs }: Offset): number {
  return Math.sign(offsetMs) * Math.max(0, Math.abs(offsetMs) - uncertaintyMs)
}

/** How long a sample serves for comparison: a clock that runs wrong by 5 % shows within two of these. */
export const BASELINE_MS = 10_000

/** What is remembered of a node's clock: the last answer for steps, an older one for wrong rates. */
export type Baseline = {
  readonly last: ClockSample
  readonly newer: ClockSample
  readonly older: ClockSample
}

type Followed = {
  readonly baseline: Baseline
  readonly stepMs: number
  /** When the earlier of the two requests that enclose the step was sent. */
  readonly fromMonoMs: number
}

/** @returns what to remember, and the step that this answer shows (0: none) */
export function follow(known: Baseline | undefined, sample: ClockSample): Followed {
  const fromMonoMs = sample.sentMonoMs
  const anew: Baseline = { last: sample, newer: sample, older: sample }
  if (known === undefined) return { baseline: anew, stepMs: 0, fromMonoMs }
  const { last, older } = known
  const sinceLastMs = stepBetween(last, sample)
  if (sinceLastMs !== 0) return { baseline: anew, stepMs: sinceLastMs, fromMonoMs: last.sentMonoMs }
  const sinceOlderMs = stepBetween(older, sample)
  if (sinceOlderMs !== 0) return { baseline: anew, stepMs: sinceOlderMs, fromMonoMs: older.sentMonoMs }
  if (sample.sentMonoMs - known.newer.sentMonoMs < BASELINE_MS)
    return { baseline: { last: sample, newer: known.newer, older }, stepMs: 0, fromMonoMs }
  return { baseline: { last: sample, newer: sample, older: known.newer }, stepMs: 0, fromMonoMs }
}

/** How far the node's clock is ahead of ours, as one answer shows it. */
export function readingOf({ nodeMs, sentMonoMs, receivedMonoMs }: ClockSample): Reading {
  return {
    aheadMs: nodeMs - (sentMonoMs + receivedMonoMs) / 2,
    uncertaintyMs: (receivedMonoMs - sentMonoMs) / 2,
  }
}
