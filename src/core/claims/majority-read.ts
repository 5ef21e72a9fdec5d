/**
 * Says what the records that nodes show of one identity amount to, for who only looks.
 *
 * Owns which of several views of a record speaks. Nothing that is granted or recorded rests on it: whoever acts on what was
 * read claims first. What a refused claim amounts to is `quorum.ts`.
 */

import type { NodeAnswer } from '../ports.ts'
import type { Fingerprint, NodeRecord, Owner } from '../record/record.ts'
import { NO_TOKEN, type Token } from '../record/token.ts'
import { majorityOf } from '../units.ts'
import { bestOf } from './quorum.ts'

type Answers = readonly (NodeAnswer | undefined)[]
type Read = Extract<NodeAnswer, { kind: 'record' }>
type CompletedRecord = Extract<NodeRecord, { state: 'completed' }>

export type MajorityRead =
  /** A majority has accepted this outcome: it is chosen. */
  | { readonly kind: 'completed'; readonly record: CompletedRecord }
  | ClaimedRead
  | { readonly kind: 'released'; readonly fence: Token }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unavailable'; readonly answered: number }
  /** Nodes that have not answered may still make the difference. */
  | { readonly kind: 'undecided' }

type ClaimedRead = {
  readonly kind: 'claimed'
  readonly fence: Token
  readonly owner: Owner
  readonly remainingMs: number
  readonly attempt: number
  readonly fingerprint: Fingerprint
  /** Some node shows an outcome, which a claim would adopt. */
  readonly sighted: boolean
  /** A majority shows this token or a larger one: every claim from now on has a larger one. */
  readonly carried: boolean
}

/**
 * What `read` answers say. A majority's outcome speaks, then the claim that a majority may have carried; else the claim or
 * release with the largest ballot. Who loses to a claim may release a larger ballot on a node that missed it, which makes
 * nobody free.
 * A minority's outcome is not an answer yet: it is shown as the lapsed claim that it still is.
 *
 * @param settled every node has answered or was given up: no `undecided` any more
 */
export function explainRead(answers: Answers, settled: boolean): MajorityRead {
  const needed = majorityOf(answers.length)
  const reads = answers.flatMap((answer) => (answer?.kind === 'record' ? [answer] : []))
  if (reads.length < needed)
    return settled ? { kind: 'unavailable', answered: reads.length } : { kind: 'undecided' }

  const sighting = bestOf(reads.flatMap(({ record }) => (record?.state === 'completed' ? [record] : [])))
  if (sighting !== undefined && sighting.holders >= needed)
    return { kind: 'completed', record: sighting.best }
  if (sighting !== undefined && !settled) return { kind: 'undecided' }

  const views = claimsAmong(reads, sighting !== undefined, needed)
  // Some have missed a renewal or a claim, or one has a clock that was set back: the more are heard, the surer it is which.
  if (
    !settled &&
    views.some((view) => view.fence !== views[0]?.fence || isLapsed(view) !== isLapsed(views[0]))
  )
    return { kind: 'undecided' }
  const released = reads.reduce<Token | undefined>(
    (largest, { record }) =>
      record?.state === 'released' ? Math.max(largest ?? NO_TOKEN, record.fence) : largest,
    undefined,
  )
  const claimed = speakerOf(views, reads, answers.length)
  if (sighting !== undefined && (claimed === undefined || claimed.fence < sighting.best.acceptedToken)) {
    const { acceptedToken: fence, owner, attempt, fingerprint } = sighting.best
    return {
      kind: 'claimed',
      fence,
      owner,
      attempt,
      fingerprint,
      remainingMs: 0,
      sighted: true,
      carried: false,
    }
  }
  if (claimed !== undefined) {
    if (sighting !== undefined || claimed.fence >= (released ?? NO_TOKEN) || views.length >= needed)
      return claimed
    if (!settled) return { kind: 'undecided' }
  }
  return released === undefined ? { kind: 'absent' } : { kind: 'released', fence: released }
}

/** As the nodes show them, the largest ballot first, and of one claim the longest remainder. */
function claimsAmong(reads: readonly Read[], sighted: boolean, needed: number): readonly ClaimedRead[] {
  return reads
    .flatMap(({ record, nodeMs }): readonly ClaimedRead[] => {
      if (record?.state !== 'claimed') return []
      const { fence, owner, attempt, fingerprint, leaseUntilNodeMs } = record
      const remainingMs = Math.max(0, leaseUntilNodeMs - nodeMs)
      const carried = reads.filter((other) => (other.record?.fence ?? NO_TOKEN) >= fence).length >= needed
      return [{ kind: 'claimed', fence, owner, attempt, fingerprint, remainingMs, sighted, carried }]
    })
    .sort((one, other) => other.fence - one.fence || other.remainingMs - one.remainingMs)
}

/**
 * Which of several claims speaks: the largest that a majority may have carried. A larger one was nobody's, or is not yet: it
 * hides none that was somebody's, also where its node has a clock that was set back and shows it as running.
 */
function speakerOf(
  views: readonly ClaimedRead[],
  reads: readonly Read[],
  nodeCount: number,
): ClaimedRead | undefined {
  // Who has an outcome of a claim has carried that claim.
  const tokens = reads.flatMap(({ record }) => {
    if (record?.state === 'completed') return [record.acceptedToken]
    return record?.state === 'claimed' ? [record.fence] : []
  })
  const silent = nodeCount - reads.length
  const largest = tokens.sort((one, other) => other - one)[majorityOf(nodeCount) - 1 - silent]
  const speaker = views.find(({ fence }) => largest !== undefined && fence <= largest) ?? views[0]
  const same = views.filter(({ fence }) => fence === speaker?.fence)
  return same[0] && { ...same[0], remainingMs: remainderOf(same, reads.length, nodeCount) }
}

function isLapsed(view: ClaimedRead | undefined): boolean {
  return view === undefined || view.remainingMs === 0
}

/**
 * What is left of a claim of which nodes show different remainders. A renewal that counted is known to a majority of all, so
 * to so many of those that were heard; what fewer show is a clock of their own, or a renewal that did not count.
 *
 * @param views of one claim, the longest remainder first
 */
function remainderOf(views: readonly ClaimedRead[], heard: number, nodeCount: number): number {
  const know = heard - (nodeCount - majorityOf(nodeCount))
  return views[Math.min(know, views.length) - 1]?.remainingMs ?? 0
}
