/**
 * Counts the answers of N independent nodes: which of them count at all, and how many nodes accepted which outcome.
 *
 * Owns the counting and not what it amounts to; each kind of command has a file for that beside this one. A node that
 * did not answer in time is neither for nor against, and so is one in quarantine.
 */

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
  // A copy that a node adopted when it was enrolled can be returned, but never counts as a vote.
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
