/**
 * Counts the answers of N independent nodes: which of them count at all, and how many nodes accepted which outcome.
 *
 * Owns the counting and not what it amounts to; each kind of command has a file for that beside this one. A node that
 * did not answer in time is neither for nor against, and so is one in quarantine.
 */

import { driftMs, type Instant } from '../clock.ts'
import type { Replies } from '../events.ts'
import type { NodeAnswer } from '../ports.ts'
import { decodeOutcome, sameContent } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'
import { majorityOf } from '../units.ts'

/** One slot per node, in the order of the nodes; undefined while its answer is under way. */
export type Answers = readonly (NodeAnswer | undefined)[]
export type Completed = Extract<NodeAnswer, { kind: 'completed' }>

/** The answers that count. */
export function answered(answers: Answers): readonly NodeAnswer[] {
  return answers.filter(
    (answer): answer is NodeAnswer =>
      answer !== undefined && answer.kind !== 'unreachable' && answer.kind !== 'quarantined',
  )
}

/** The largest attempt that a node granted; a node that missed earlier claims counts fewer. */
export function attemptOf(answers: Answers): number {
  return answers.reduce(
    (most, answer) => (answer?.kind === 'granted' ? Math.max(most, answer.attempt) : most),
    1,
  )
}

export function mayHaveGranted(answer: NodeAnswer | undefined): boolean {
  if (answer === undefined) return true
  if (answer.kind === 'unreachable') return answer.reason !== 'refused'
  return answer.kind === 'granted' || answer.kind === 'quarantined'
}

/** The time that the clocks of a majority have reached; undefined where fewer have answered. */
export function timeOfMajority(answers: Answers): number | undefined {
  const clocks = answered(answers).flatMap((answer) => ('nodeMs' in answer ? [answer.nodeMs] : []))
  return clocks.sort((a, b) => b - a)[majorityOf(answers.length) - 1]
}

/** How many nodes gave which reply; a missing one by its reason. Never what a node said in words of its own. */
export function repliesOf(answers: Answers): Replies {
  const replies: Record<string, number> = {}
  for (const answer of answers) {
    const word =
      answer === undefined ? 'no reply yet' : answer.kind === 'unreachable' ? answer.reason : answer.kind
    replies[word] = (replies[word] ?? 0) + 1
  }
  return replies
}

/** A majority is healthy, but too few of its nodes have memory for a new claim. */
export function isForWantOfRoom({ answered, required, full = 0 }: Counted): boolean {
  return answered + full >= required
}

/**
 * Fewer than a majority of the nodes vote. Else they do, and the claim was not granted for another reason: what a route chose for a lost
 * quorum is not for that, because the nodes may remember the very request.
 */
export function isQuorumLost({ answered, required, well = 0 }: Counted): boolean {
  return answered + well < required
}

type Counted = {
  readonly answered: number
  readonly required: number
  readonly full?: number
  readonly well?: number
}

/** Nodes that are healthy and have no memory for a new claim. */
export function withoutRoom(answers: Answers): number {
  return answers.filter((answer) => answer?.kind === 'unreachable' && answer.full === true).length
}

/** Nodes that vote, and whose answer does not count here. */
export function wellBesides(answers: Answers): number {
  return answers.filter(
    (answer) =>
      (answer?.kind === 'unreachable' && answer.answered === true) ||
      (answer?.kind === 'quarantined' && answer.votes === true),
  ).length
}

type Accepted = { readonly acceptedToken: Token; readonly outcome: Buffer; readonly copied?: true }

/**
 * The winning outcome among those that nodes accepted, and how many nodes accepted it: the one that a majority accepted
 * at one ballot, which is chosen whatever larger ballots a minority shows; else the one with the largest ballot. Equal
 * bytes at several ballots never add up to a majority.
 *
 * One ballot has one value, so copies of one ballot are equal, unless a node's memory was altered. Such a node accepted
 * the outcome all the same, and counts; but an intact copy is returned.
 *
 * @param needed a majority of all nodes
 */
export function bestOf<T extends Accepted>(
  accepted: readonly T[],
  needed: number,
): { best: T; holders: number } | undefined {
  const ballots = [...new Set(accepted.map(({ acceptedToken }) => acceptedToken))].sort((a, b) => b - a)
  const bests = ballots.map((ballot) => bestAt(accepted.filter((one) => one.acceptedToken === ballot)))
  return bests.find((best) => best !== undefined && best.holders >= needed) ?? bests[0]
}

/** @param copies of one ballot */
function bestAt<T extends Accepted>(copies: readonly T[]): { best: T; holders: number } | undefined {
  const [first] = copies
  if (first === undefined) return undefined
  // A retry at the same ballot may carry another completion time.
  const holdersOf = (one: T) => copies.filter(({ outcome }) => sameContent(outcome, one.outcome)).length
  // A copy that a node adopted when it rejoined can be returned, but never counts as a vote.
  const copiedCount = copies.filter(({ copied }) => copied !== undefined).length
  if (holdersOf(first) === copies.length) return { best: first, holders: copies.length - copiedCount }

  const intact = copies.filter(({ outcome }) => decodeOutcome(outcome).kind === 'intact')
  const best = intact.reduce(
    (top, next) => (holdersOf(next) > holdersOf(top) ? next : top),
    intact[0] ?? first,
  )
  const holders = holdersOf(best) + (intact.length === 0 ? 0 : copies.length - intact.length)
  return { best, holders: Math.max(0, holders - copiedCount) }
}

/** {@link bestOf} the completed records among answers to a claim or a completion. */
export function bestCompleted(answers: Answers): { best: Completed; holders: number } | undefined {
  const completed = answers.filter((answer): answer is Completed => answer?.kind === 'completed')
  return completed.length === 0 ? undefined : bestOf(completed, majorityOf(answers.length))
}

type Rejection = 'refused' | 'unavailable' | 'undecided'

/**
 * Of a renewal or a release that no majority took: `refused` once no majority can be won, whatever the silent nodes did; `unavailable` while
 * they decide it.
 *
 * @param inFavour answers that count for the command
 */
export function explainRejected(
  answers: Answers,
  settled: boolean,
  inFavour: readonly NodeAnswer['kind'][],
): Rejection {
  const needed = majorityOf(answers.length)
  const against = answered(answers).filter((answer) => !inFavour.includes(answer.kind)).length
  if (answers.length - against < needed) return 'refused'
  return settled ? 'unavailable' : 'undecided'
}

/**
 * How old an answer of a node may be and still count: it must be read within this time of its request, on the monotonic and on the wall clock.
 *
 * A node that lost its memory votes again after a quarantine. A process that was suspended meanwhile could count an
 * answer from before the loss beside the current answers of the others: a majority with a member that remembers none of
 * it. So an answer that is read when such a node may vote again does not count. That loses nothing: a granted claim is
 * released, and a recorded outcome is recorded again by the retry.
 *
 * Embedded nodes need no such limit: they are suspended with the process, and lose their memory with it.
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
