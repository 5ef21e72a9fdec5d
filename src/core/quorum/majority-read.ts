/**
 * Explains, for a caller that only reads, what the nodes' records of one identity amount to.
 *
 * Owns one promise: no result contradicts a call that was acknowledged before the read began. A majority knows every
 * acknowledged claim, extension, completion or release, so at most a minority of the nodes that were heard does not.
 * `uncertain` is what a majority may hold but is not seen to hold: neither free nor held, neither over nor recorded.
 *
 *   completed          a majority has accepted the outcome at one ballot
 *   minority_outcome   a node shows an outcome, but no majority is seen to have it: `leases.ts` may help it to one
 *   claimed            a majority shows this claim, running or over; or leftovers of several on a majority, all over
 *   released, absent   no claim is left that a majority may have granted
 *
 * What a refused claim amounts to is `refused-claim.ts`.
 *
 * Source: L. Lamport, "Paxos Made Simple" (2001), section 2.3 (a learner must know that a majority accepted the value);
 * M. Herlihy, J. Wing, "Linearizability" (1990).
 */

import type { NodeAnswer } from '../ports.ts'
import { type Fingerprint, NO_OWNER, type NodeRecord, type Owner } from '../record/record.ts'
import { NO_TOKEN, type Token } from '../record/token.ts'
import { majorityOf } from '../units.ts'
import { type Answers, bestOf } from './tally.ts'

type Read = Extract<NodeAnswer, { kind: 'record' }>
export type CompletedRecord = Extract<NodeRecord, { state: 'completed' }>

export type MajorityRead =
  /** A majority has accepted this outcome: it is chosen. */
  | { readonly kind: 'completed'; readonly record: CompletedRecord }
  /** It is not known to be chosen. With `claim` it is surely not, and a majority shows this claim beside it. */
  | { readonly kind: 'minority_outcome'; readonly record: CompletedRecord; readonly claim?: ClaimedRead }
  | ClaimedRead
  | { readonly kind: 'released'; readonly fence: Token }
  | { readonly kind: 'absent' }
  /** A majority answered, and fewer than a majority show a claim that a majority may hold. */
  | { readonly kind: 'uncertain'; readonly answered: number }
  | { readonly kind: 'unavailable'; readonly answered: number }
  /** Nodes that have not answered may still make the difference. */
  | { readonly kind: 'undecided' }

export type ClaimedRead = {
  readonly kind: 'claimed'
  readonly fence: Token
  readonly owner: Owner
  /** 0: it is over. */
  readonly remainingMs: number
  readonly attempt: number
  readonly fingerprint: Fingerprint
  /** A majority shows this token or a larger one: every claim from now on has a larger one. */
  readonly majorityReached: boolean
  /** Leftovers of several claims: it is unknown which of them a majority granted. */
  readonly leftovers?: true
}

/** What was heard: nodes that showed a record or none, and how many are silent. */
type Heard = {
  readonly reads: readonly Read[]
  readonly silent: number
  readonly needed: number
  /** Claims as the nodes show them, the largest ballot first, and for each claim the longest remainder first. */
  readonly views: readonly ClaimedRead[]
  readonly outcomes: readonly CompletedRecord[]
}

/** @param settled every node has answered or was given up: no `undecided` any more */
export function explainRead(answers: Answers, settled: boolean): MajorityRead {
  const needed = majorityOf(answers.length)
  const reads = answers.flatMap((answer) => (answer?.kind === 'record' ? [answer] : []))
  if (reads.length < needed)
    return settled ? { kind: 'unavailable', answered: reads.length } : { kind: 'undecided' }

  // A majority knows of no claim: whatever fewer show was granted to nobody, or is over. They might as well answer later.
  const blank = reads.filter(({ record }) => record === undefined || record.state === 'released')
  if (blank.length >= needed) return withoutClaim(blank)

  const outcomes = reads.flatMap(({ record }) => (record?.state === 'completed' ? [record] : []))
  const leading = bestOf(outcomes, needed)
  if (leading !== undefined && leading.holders >= needed) return { kind: 'completed', record: leading.best }
  if (leading !== undefined && !settled) return { kind: 'undecided' }

  const views = claimsAmong(reads, needed)
  const heard: Heard = { reads, silent: answers.length - reads.length, needed, views, outcomes }
  // A node may have missed a renewal or a claim, or its clock was set back: more answers decide which.
  if (
    !settled &&
    views.some((view) => view.fence !== views[0]?.fence || isExpired(view) !== isExpired(views[0]))
  )
    return { kind: 'undecided' }
  const standing = claimOfMajority(heard)
  if (leading !== undefined) {
    // A node may have accepted it at a smaller ballot than the one it shows, so count nodes whatever their ballot.
    const surelyNotChosen = outcomes.length + heard.silent < needed
    const { best: record } = leading
    return standing !== undefined && surelyNotChosen
      ? { kind: 'minority_outcome', record, claim: standing }
      : { kind: 'minority_outcome', record }
  }
  if (standing !== undefined) return standing
  const verdict = withoutClaimOfMajority(heard)
  return verdict.kind === 'uncertain' && !settled ? { kind: 'undecided' } : verdict
}

function claimsAmong(reads: readonly Read[], needed: number): readonly ClaimedRead[] {
  return reads
    .flatMap(({ record, nodeMs }): readonly ClaimedRead[] => {
      if (record?.state !== 'claimed') return []
      const { fence, owner, attempt, fingerprint, leaseUntilNodeMs } = record
      const remainingMs = Math.max(0, leaseUntilNodeMs - nodeMs)
      const majorityReached =
        reads.filter((other) => (other.record?.fence ?? NO_TOKEN) >= fence).length >= needed
      return [{ kind: 'claimed', fence, owner, attempt, fingerprint, remainingMs, majorityReached }]
    })
    .sort((one, other) => other.fence - one.fence || other.remainingMs - one.remainingMs)
}

/** The one claim that a majority shows, if there is one. Two claimants may have proposed one token. */
function claimOfMajority(heard: Heard): ClaimedRead | undefined {
  const firsts = heard.views.filter((view, at) => heard.views.findIndex((one) => isSame(one, view)) === at)
  const [only, ...more] = firsts.filter((view) => holdersOf(view, heard) >= heard.needed)
  return only === undefined || more.length > 0
    ? undefined
    : { ...only, remainingMs: remainderOf(only, heard) }
}

function isSame(one: ClaimedRead, other: ClaimedRead): boolean {
  return one.fence === other.fence && one.owner === other.owner
}

/** Nodes that show the claim, or an outcome of it: such a node had granted the claim. */
function holdersOf(claim: ClaimedRead, { views, outcomes }: Heard): number {
  const claimants = views.filter((view) => isSame(view, claim)).length
  const done = outcomes.filter(
    ({ acceptedToken, fence, owner }) =>
      acceptedToken === claim.fence && (fence !== acceptedToken || owner === claim.owner),
  ).length
  return claimants + done
}

/**
 * The remaining time of a claim whose nodes disagree. A majority knows every acknowledged renewal, so all but a
 * minority of the nodes that were heard do; some of them may show an outcome or a release by now. A larger remainder on
 * fewer nodes comes from their clock, or from a renewal that did not count.
 */
function remainderOf(claim: ClaimedRead, { reads, silent, needed, views }: Heard): number {
  const same = views.filter((view) => isSame(view, claim))
  const movedOn =
    reads.filter(({ record }) => (record?.fence ?? NO_TOKEN) >= claim.fence).length - same.length
  const know = needed - silent - movedOn
  return same[Math.min(Math.max(know, 1), same.length) - 1]?.remainingMs ?? 0
}

/** No node shows an outcome, and no majority shows a claim. */
function withoutClaimOfMajority(heard: Heard): MajorityRead {
  const { reads, silent, needed, views } = heard
  const uncertain: MajorityRead = { kind: 'uncertain', answered: reads.length }
  // By its holder: its token is raised on one node after another.
  const running = views.filter((view) => !isExpired(view))
  const mayBeHeld = running.some(
    ({ owner }) => views.filter((view) => view.owner === owner).length + silent >= needed,
  )
  if (mayBeHeld) return uncertain
  // An attempt that ended without an outcome: its claim, or a later one on the same node.
  const expired = views.filter((view) => isExpired(view) || view.attempt > 1).length
  if (expired >= needed) {
    const speaker = speakerOf(heard)
    return speaker === undefined ? uncertain : { ...speaker, remainingMs: 0, leftovers: true }
  }
  if (expired > 0 && expired + silent >= needed) return uncertain
  return withoutClaim(reads)
}

function withoutClaim(reads: readonly Read[]): MajorityRead {
  const fences = reads.flatMap(({ record }) => (record?.state === 'released' ? [record.fence] : []))
  return fences.length === 0 ? { kind: 'absent' } : { kind: 'released', fence: Math.max(...fences) }
}

/**
 * Which of several expired claims is reported: the largest that a majority may have granted. A larger one was granted to
 * no holder, so it hides none. A node that granted a claim promised its token, and promises only rise: it shows that
 * token or a larger one, even after that claim was released or another came and went. Where no node shows the claim of
 * that token any more, the claim that it took over is reported under its token. Where a node shows it running, and none
 * shows it over, somebody is claiming at this moment and may yet be granted it: then none is reported.
 */
function speakerOf({ reads, views, silent, needed }: Heard): ClaimedRead | undefined {
  const promised = reads.map(({ record }) => record?.fence ?? NO_TOKEN).sort((one, other) => other - one)
  const largest = promised[needed - 1 - silent] ?? NO_TOKEN
  const granted = views.filter(({ fence }) => fence <= largest)
  const speaker = granted.find(isExpired)
  if (speaker === undefined || speaker.fence === largest) return speaker
  if (granted[0]?.fence === largest) return undefined
  const majorityReached = promised.filter((fence) => fence >= largest).length >= needed
  return { ...speaker, fence: largest, owner: NO_OWNER, majorityReached }
}

function isExpired(view: ClaimedRead | undefined): boolean {
  return view === undefined || view.owner === NO_OWNER || view.remainingMs === 0
}
