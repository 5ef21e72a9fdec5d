/**
 * What the answers of one node show of its clock: steps between two of them, and its offset from ours.
 *
 * Steps cost nothing to detect: between two answers the node's time must have progressed by as much as our monotonic
 * clock, give or take the round trips and the drift. An offset is known to half a round trip.
 *
 * Owns the arithmetic as pure functions. What follows for a node's votes is `node-clocks.ts`.
 */

import { DRIFT_FACTOR, driftMs } from '../clock.ts'
import { joinedAtNodeMs } from './rejoin-rules.ts'

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

/*
 * Whether a forward jump was the node's own: then records and fences expired early, and it may have forgotten. A watcher that was suspended
 * sees the same of every node, so the others judge: a node jumped where a majority went on steadily through that very time.
 */

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
 * Whether the node forgot by this jump what it promised under an incarnation. An incarnation first seen after the jump counts as a
 * later one, because other sidecars may have brought it back already, unless the time at which it joined contradicts that.
 */
export function isForgotten(incarnation: string, firstSeenMonoMs: number, jump: ForwardJump): boolean {
  if (firstSeenMonoMs < jump.untilMonoMs) return true
  const joinedNodeMs = joinedAtNodeMs(incarnation)
  return joinedNodeMs !== undefined && isBeforeJump(joinedNodeMs, jump)
}

/*
 * Whether a clock can be trusted at first sight: a new watcher has missed a jump of a moment ago, but such a clock disagrees with the
 * others. That finds a node that forgot, and is too coarse for leases: until a sidecar has watched a clock for the longest lease, it must
 * be closer to the others than the drift allowance by which a holder stops earlier than the node.
 */

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
