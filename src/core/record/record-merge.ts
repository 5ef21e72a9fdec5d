/**
 * Restores one record on a node that forgot it, from what other nodes show.
 *
 * Owns the merge of records, which only ever raises: the largest fence; the outcome that a majority accepted at one
 * token, or else the one accepted at the largest; the highest claim. It knows no nodes and no order of messages: the
 * merge is commutative and idempotent.
 *
 * In terms of Paxos a node is an acceptor that lost its promises and acceptances. The largest fence that a majority
 * shows restores its promises, because one of them knows every promise that was counted. An outcome is restored too, or
 * an outcome of {1,2,3} would be unknown to {3,4,5} once 3 forgot. But repeating an acceptance is not the acceptance:
 * copying an outcome of a minority past a larger promise would in the end show it on a majority that never voted for
 * it. Such an outcome is marked `copied`, and adopted under a new token where it matters.
 *
 * What the node took while it did not vote is no part of that: an outcome or another content that the others' promises
 * would have refused gives way to what they show. Its promises stay.
 *
 * Attempts of unknown fate are kept rather than forgotten: an application told `attempt 2` without need looks twice,
 * one not told of it does the work twice.
 */

import { ATTEMPT_MAX, NO_OWNER, type NodeRecord } from './record.ts'
import { endOf } from './stored-outcome.ts'
import type { Token } from './token.ts'

type Completed = Extract<NodeRecord, { state: 'completed' }>
type Undecided = Exclude<NodeRecord, Completed>
type Claimed = Extract<NodeRecord, { state: 'claimed' }>

/** With the remaining times of its lease or outcome, so that records of several clocks compare. */
type RemainingRecord = Undecided | RemainingOutcome
type RemainingOutcome = Completed & { readonly overAtNodeMs: number }

/** One record as one node shows it. */
export type RecordSnapshot = {
  readonly record: NodeRecord
  /** The node's own clock at that moment. */
  readonly nodeMs: number
  /** How long the node will remember it. */
  readonly ttlMs: number
}

/** A record on its way to another node: its times say how long something still lasts, not until when on a foreign clock. */
export type Merged = {
  /**
   * `leaseUntilNodeMs` is what remains of the lease; 0: expired. `overAtNodeMs` is what remains of an outcome, at least 1;
   * absent where it lasts as long as the record.
   */
  readonly record: NodeRecord
  readonly ttlMs: number
  /** A majority accepted this very outcome: a node that holds it keeps it for good. */
  readonly chosen: boolean
}

/**
 * The record with what remains of its lease or outcome. A promise may outlive the outcome beside it: who copies both
 * without the difference lets the outcome last as long as the promise, and longer with each copy, until it comes back in
 * place of a later one.
 */
export function onNoClock({ record, nodeMs, ttlMs }: RecordSnapshot): RemainingRecord {
  switch (record.state) {
    case 'completed': {
      const lastsMs = record.overAtNodeMs === undefined ? ttlMs : record.overAtNodeMs - nodeMs
      return { ...record, overAtNodeMs: Math.max(1, lastsMs) }
    }
    case 'claimed':
      return { ...record, leaseUntilNodeMs: Math.max(0, record.leaseUntilNodeMs - nodeMs) }
    case 'released':
      return record
  }
}

/**
 * The record as far as its outcome says that it lasts, which no lifetime of a key prolongs: past its end it stands for its
 * promise alone.
 *
 * @param nowMs the earliest of the nodes' clocks: one that is wrong ends no outcome of the others
 */
export function untilItsEnd<S extends RecordSnapshot>(seen: S, nowMs: number): S {
  const { record, nodeMs, ttlMs } = seen
  const end = record.state === 'completed' ? endOf(record.outcome) : undefined
  if (record.state !== 'completed' || end === undefined) return seen
  const leftMs = end.atMs + end.toleratedMs - nowMs
  if (leftMs <= 0) return { ...seen, record: { state: 'released', fence: record.fence } }
  const overAtNodeMs = Math.ceil(nodeMs + leftMs)
  return overAtNodeMs < (record.overAtNodeMs ?? nodeMs + ttlMs)
    ? { ...seen, record: { ...record, overAtNodeMs } }
    : seen
}

/** An outcome that lasts as long as its record needs no time of its own. */
function unlessItsRecordEndsIt({ overAtNodeMs, ...outcome }: RemainingOutcome, ttlMs: number): Completed {
  return overAtNodeMs < ttlMs ? { ...outcome, overAtNodeMs } : outcome
}

/**
 * Merges the snapshots of one record; undefined where no node has it.
 *
 * @param needed a majority of all nodes of the cluster
 * @param leasesOver whether the node that they are for forgot so long ago that every lease that it granted before is over
 */
export function mergeSnapshots(
  snapshots: readonly RecordSnapshot[],
  needed: number,
  leasesOver = false,
): Merged | undefined {
  const records = snapshots.map(onNoClock)
  const [first, ...rest] = records
  if (first === undefined) return undefined
  const ttlMs = Math.max(...snapshots.map((snapshot) => snapshot.ttlMs))
  const record = rest.reduce(mergeRecords, first)
  if (record.state === 'claimed')
    return { record: ofWhatMayStand(record, records, needed, leasesOver), ttlMs, chosen: false }
  if (record.state === 'released') return { record, ttlMs, chosen: false }
  const accepted = chosenAmong(records, needed)
  if (accepted === undefined) {
    const sighted = unlessItsRecordEndsIt(markCopied(record, false), ttlMs)
    return { record: sighted, ttlMs, chosen: false }
  }
  // Whatever larger ballots a minority shows: fence and owner are the highest, the outcome is the chosen one.
  const { fence, owner } = record
  const chosen = markCopied({ ...accepted, fence, owner }, true)
  return { record: unlessItsRecordEndsIt(chosen, ttlMs), ttlMs, chosen: true }
}

/**
 * The outcome that a majority accepted at one ballot: of its first record, which may be the only one with its bytes, and
 * for as long as the longest memory of it.
 */
function chosenAmong(records: readonly RemainingRecord[], needed: number): RemainingOutcome | undefined {
  const outcomes = records.filter((record) => record.state === 'completed')
  const votes = outcomes.filter(({ copied }) => copied === undefined)
  const isChosen = ({ acceptedToken }: Completed) =>
    votes.filter((vote) => vote.acceptedToken === acceptedToken).length >= needed
  const ballot = votes.find(isChosen)?.acceptedToken
  const [first, ...rest] = outcomes.filter(({ acceptedToken }) => acceptedToken === ballot)
  if (first === undefined) return undefined
  return { ...first, overAtNodeMs: Math.max(first.overAtNodeMs, ...rest.map((one) => one.overAtNodeMs)) }
}

/**
 * Of several contents under one key the one with the largest token wins, unless too few nodes show it for a majority to
 * have granted it while a majority may have granted, and executed, another. The larger token stays promised. A node
 * keeps the content that it granted, so nodes are counted by content and not by token, which moves on. Where a majority
 * may have granted either, one that somebody is known to work under wins: the other may be of a round that is lost.
 */
function ofWhatMayStand(
  merged: Claimed,
  records: readonly RemainingRecord[],
  needed: number,
  leasesOver: boolean,
): Claimed {
  const claims = records.filter((record) => record.state === 'claimed')
  // A silent node, or one without the record, may have granted anything; one that shows a release grants nothing that
  // stands. Clusters are odd.
  const silent = 2 * needed - 1 - records.length
  const mayStand = ({ fingerprint }: Claimed) => {
    const shown = claims.filter((claim) => claim.fingerprint === fingerprint)
    // A first lease that runs was granted after the node forgot: not by its vote.
    const isLater = leasesOver && shown.every((claim) => !claim.kept && claim.leaseUntilNodeMs > 0)
    return shown.length + silent - (isLater ? 1 : 0) >= needed
  }
  const standing = claims.filter(mayStand)
  const workedUnder = new Set(standing.filter(({ kept }) => kept).map(({ fingerprint }) => fingerprint))
  const [first, ...rest] =
    workedUnder.size > 0 ? standing.filter(({ fingerprint }) => workedUnder.has(fingerprint)) : standing
  if (first === undefined || [first, ...rest].some(({ fingerprint }) => fingerprint === merged.fingerprint))
    return merged
  const winner = rest.reduce<RemainingRecord>(mergeRecords, first)
  return winner.state === 'claimed' ? withoutOwner(winner, merged.fence) : merged
}

/**
 * The same, its remaining lease cut to the longest possible lease. A node whose clock was set back shows more; a node
 * that copied that would refuse every claimant for as long as that clock is behind.
 */
export function leasedAtMost(merged: Merged, longestMs: number): Merged {
  const { record } = merged
  if (record.state !== 'claimed' || record.leaseUntilNodeMs <= longestMs) return merged
  return { ...merged, record: { ...record, leaseUntilNodeMs: longestMs } }
}

/** What a node holds, and for how long, after it adopted `merged`. `nodeMs` is its own clock. */
export function adoptRecord(
  own: { readonly record: NodeRecord; readonly ttlMs: number } | undefined,
  merged: Merged,
  nodeMs: number,
): { readonly record: NodeRecord; readonly ttlMs: number } {
  const ttlMs = Math.max(own?.ttlMs ?? 0, merged.ttlMs)
  const theirs = onNoClock({ record: merged.record, nodeMs: 0, ttlMs: merged.ttlMs })
  const mine = own === undefined ? undefined : onNoClock({ ...own, nodeMs })
  const both =
    mine === undefined
      ? theirs
      : (withoutLateOutcome(mine, theirs) ?? withoutStrayClaim(mine, theirs) ?? mergeRecords(mine, theirs))
  switch (both.state) {
    case 'released':
      return { record: both, ttlMs }
    case 'claimed': {
      const leaseUntilNodeMs = both.leaseUntilNodeMs > 0 ? nodeMs + both.leaseUntilNodeMs : 0
      return { record: { ...both, leaseUntilNodeMs }, ttlMs }
    }
    case 'completed': {
      const isTheirs = theirs.state === 'completed' && theirs.acceptedToken === both.acceptedToken
      const outcome = mine === undefined ? both : markCopied(both, merged.chosen && isTheirs)
      const lasts = { ...outcome, overAtNodeMs: nodeMs + outcome.overAtNodeMs }
      return { record: unlessItsRecordEndsIt(lasts, nodeMs + ttlMs), ttlMs }
    }
  }
}

/**
 * The node took an outcome below what the others promise, and none of them has it: it came late, to a node that had
 * forgotten that promise, and its holder may have been told that it has no effect. The node did not vote, and had the
 * outcome been recorded, one of them would have it.
 */
function withoutLateOutcome(mine: RemainingRecord, theirs: RemainingRecord): Undecided | undefined {
  if (mine.state !== 'completed' || theirs.state === 'completed') return undefined
  if (mine.acceptedToken >= theirs.fence) return undefined
  if (mine.fence <= theirs.fence) return theirs
  return theirs.state === 'claimed' ? withoutOwner(theirs, mine.fence) : { ...theirs, fence: mine.fence }
}

/**
 * The node granted a claim of another content, which it would have refused had it not forgotten theirs. It did not vote
 * then, so no round counts that grant. It is a promise all the same; but releasing it must leave theirs, which may stand
 * under that very promise already.
 */
function withoutStrayClaim(mine: RemainingRecord, theirs: RemainingRecord): Claimed | undefined {
  if (mine.state !== 'claimed' || theirs.state !== 'claimed') return undefined
  if (mine.fence < theirs.fence || mine.fingerprint === theirs.fingerprint) return undefined
  return mine.fence === theirs.fence ? theirs : withoutOwner(theirs, mine.fence)
}

/** Under a fence that is not its own: nobody can renew or release it, so it is not kept either. */
function withoutOwner({ kept: _, ...claim }: Claimed, fence: Token): Claimed {
  return { ...claim, fence, owner: NO_OWNER }
}

/** Of one and the same moment: see {@link onNoClock}. Commutative and idempotent. */
export function mergeRecords(a: RemainingRecord, b: RemainingRecord): RemainingRecord {
  if (a.state === 'completed') return b.state === 'completed' ? mergeOutcomes(a, b) : overtaken(a, b)
  if (b.state === 'completed') return overtaken(b, a)
  if (a.fence === b.fence) return mergeClaims(a, b)
  return a.fence > b.fence ? supersede(a, b) : supersede(b, a)
}

function mergeOutcomes(a: RemainingOutcome, b: RemainingOutcome): RemainingOutcome {
  const best = b.acceptedToken > a.acceptedToken ? b : a
  const owner =
    a.fence === b.fence ? (a.owner > b.owner ? a.owner : b.owner) : a.fence > b.fence ? a.owner : b.owner
  const both = { ...best, fence: Math.max(a.fence, b.fence), owner }
  if (a.acceptedToken !== b.acceptedToken) return markCopied(both, false)
  return markCopied({ ...both, overAtNodeMs: Math.max(a.overAtNodeMs, b.overAtNodeMs) }, false)
}

/** An outcome, and a claim or release of which its node does not know the outcome. */
function overtaken(outcome: RemainingOutcome, other: Undecided): RemainingOutcome {
  if (other.fence <= outcome.fence) return markCopied(outcome, false)
  const owner = other.state === 'claimed' ? other.owner : NO_OWNER
  return markCopied({ ...outcome, fence: other.fence, owner }, false)
}

/** An acceptance is repeated only where no larger token was promised, or where it is known to be chosen. */
function markCopied(record: RemainingOutcome, chosen: boolean): RemainingOutcome {
  const { copied: _, ...accepted } = record
  return chosen || record.fence === record.acceptedToken ? accepted : { ...accepted, copied: true }
}

/**
 * Neither is completed, and the token is the same. The claims may differ: two claimants may have proposed it, and a
 * release does not say whose it was. So a claim wins over a release, or an executed attempt would be forgotten; if it
 * was released after all, the application is told of one attempt too many.
 */
function mergeClaims(a: Undecided, b: Undecided): Undecided {
  if (a.state === 'released') return b
  if (b.state === 'released') return a
  // Past the lease too, only so that the order of merging does not show.
  const [longer = a] = [a, b].sort(
    (one, other) =>
      other.leaseUntilNodeMs - one.leaseUntilNodeMs ||
      compare(other.owner, one.owner) ||
      compare(other.fingerprint, one.fingerprint),
  )
  return {
    ...longer,
    attempt: Math.max(attemptBeside(a, b), attemptBeside(b, a)),
    // Whichever of them was: a claim that is kept without need only lasts until its lease ends.
    ...(a.kept || b.kept ? { kept: true } : {}),
  }
}

/**
 * The attempt of a claim where another node shows the same one. A restored claim counts the attempts before the
 * released takeover; a node that missed those shows the takeover with one attempt too few. Releasing it there as well
 * would forget an executed attempt.
 */
function attemptBeside(claim: Claimed, other: Claimed): number {
  const onTop = claim.owner === NO_OWNER && other.owner !== NO_OWNER
  return onTop ? Math.min(ATTEMPT_MAX, claim.attempt + 1) : claim.attempt
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other)
}

/** `over` has the larger token; its node may have missed the claim `under`, whose fate is then still unknown. */
function supersede(over: Undecided, under: Undecided): Undecided {
  if (under.state === 'released') return over
  if (over.state === 'released') {
    return { ...withoutOwner(under, over.fence), leaseUntilNodeMs: 0 }
  }
  if (over.fingerprint !== under.fingerprint) return over
  const least = over.owner === NO_OWNER ? under.attempt : under.attempt + 1
  return { ...over, attempt: Math.min(ATTEMPT_MAX, Math.max(over.attempt, least)) }
}
