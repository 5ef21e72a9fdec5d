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
import type { Token } from './token.ts'

type Completed = Extract<NodeRecord, { state: 'completed' }>
type Undecided = Exclude<NodeRecord, Completed>
type Claimed = Extract<NodeRecord, { state: 'claimed' }>

/** One record as one node shows it. */
export type RecordSnapshot = {
  readonly record: NodeRecord
  /** The node's own clock at that moment. */
  readonly nodeMs: number
  /** How long the node will remember it. */
  readonly ttlMs: number
}

/** A record on its way to another node: it says how long the lease still runs, not until when on a foreign clock. */
export type Merged = {
  /** `leaseUntilNodeMs` is what remains of the lease; 0: lapsed. */
  readonly record: NodeRecord
  readonly ttlMs: number
  /** A majority accepted this very outcome: a node that holds it keeps it for good. */
  readonly chosen: boolean
}

/**
 * The record with the remaining time of its lease. An outcome that a promise outlives is kept as long as the promise
 * where it is copied to: a retention is the least that it is remembered.
 */
export function onNoClock(record: NodeRecord, nodeMs: number): NodeRecord {
  if (record.state === 'completed') {
    const { overAtNodeMs: _, ...outcome } = record
    return outcome
  }
  if (record.state === 'released') return record
  return { ...record, leaseUntilNodeMs: Math.max(0, record.leaseUntilNodeMs - nodeMs) }
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
  const [first, ...rest] = snapshots.map(({ record, nodeMs }) => onNoClock(record, nodeMs))
  if (first === undefined) return undefined
  const record = rest.reduce(mergeRecords, first)
  const ttlMs = Math.max(...snapshots.map((snapshot) => snapshot.ttlMs))
  if (record.state === 'claimed')
    return { record: ofWhatMayStand(record, [first, ...rest], needed, leasesOver), ttlMs, chosen: false }
  if (record.state === 'released') return { record, ttlMs, chosen: false }
  const accepted = chosenAmong(snapshots, needed)
  if (accepted === undefined) return { record: markCopied(record, false), ttlMs, chosen: false }
  // Whatever larger ballots a minority shows: fence and owner are the highest, the outcome is the chosen one.
  const { fence, owner } = record
  return { record: markCopied({ ...accepted, fence, owner }, true), ttlMs, chosen: true }
}

/** The outcome that a majority accepted at one ballot: its first snapshot, which may be the only one with its bytes. */
function chosenAmong(snapshots: readonly RecordSnapshot[], needed: number): Completed | undefined {
  const votes = snapshots.flatMap(({ record }) =>
    record.state === 'completed' && record.copied === undefined ? [record] : [],
  )
  const isChosen = ({ acceptedToken }: Completed) =>
    votes.filter((vote) => vote.acceptedToken === acceptedToken).length >= needed
  const ballot = votes.find(isChosen)?.acceptedToken
  if (ballot === undefined) return undefined
  return snapshots
    .map(({ record }) => record)
    .find((record): record is Completed => record.state === 'completed' && record.acceptedToken === ballot)
}

/**
 * Of several contents under one key the one with the largest token wins, unless too few nodes show it for a majority to
 * have granted it while a majority may have granted, and executed, another. The larger token stays promised. A node
 * keeps the content that it granted, so nodes are counted by content and not by token, which moves on. Where a majority
 * may have granted either, one that somebody is known to work under wins: the other may be of a round that is lost.
 */
function ofWhatMayStand(
  merged: Claimed,
  records: readonly NodeRecord[],
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
  const winner = rest.reduce<NodeRecord>(mergeRecords, first)
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

/** What a node holds after it adopted `merged`. `nodeMs` is its own clock. */
export function adoptRecord(own: NodeRecord | undefined, merged: Merged, nodeMs: number): NodeRecord {
  const { record, chosen } = merged
  const mine = own === undefined ? undefined : onNoClock(own, nodeMs)
  const both =
    mine === undefined
      ? record
      : (withoutLateOutcome(mine, record) ?? withoutStrayClaim(mine, record) ?? mergeRecords(mine, record))
  if (both.state === 'claimed') {
    const leaseUntilNodeMs = both.leaseUntilNodeMs > 0 ? nodeMs + both.leaseUntilNodeMs : 0
    return { ...both, leaseUntilNodeMs }
  }
  if (both.state === 'released' || mine === undefined) return both
  return markCopied(
    both,
    chosen && record.state === 'completed' && record.acceptedToken === both.acceptedToken,
  )
}

/**
 * The node took an outcome below what the others promise, and none of them has it: it came late, to a node that had
 * forgotten that promise, and its holder may have been told that it has no effect. The node did not vote, and had the
 * outcome been recorded, one of them would have it.
 */
function withoutLateOutcome(mine: NodeRecord, theirs: NodeRecord): NodeRecord | undefined {
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
function withoutStrayClaim(mine: NodeRecord, theirs: NodeRecord): NodeRecord | undefined {
  if (mine.state !== 'claimed' || theirs.state !== 'claimed') return undefined
  if (mine.fence < theirs.fence || mine.fingerprint === theirs.fingerprint) return undefined
  return mine.fence === theirs.fence ? theirs : withoutOwner(theirs, mine.fence)
}

/** Under a fence that is not its own: nobody can renew or release it, so it is not kept either. */
function withoutOwner({ kept: _, ...claim }: Claimed, fence: Token): Claimed {
  return { ...claim, fence, owner: NO_OWNER }
}

/** Of one and the same moment: see {@link onNoClock}. Commutative and idempotent. */
export function mergeRecords(a: NodeRecord, b: NodeRecord): NodeRecord {
  if (a.state === 'completed') return b.state === 'completed' ? mergeOutcomes(a, b) : overtaken(a, b)
  if (b.state === 'completed') return overtaken(b, a)
  if (a.fence === b.fence) return mergeClaims(a, b)
  return a.fence > b.fence ? supersede(a, b) : supersede(b, a)
}

function mergeOutcomes(a: Completed, b: Completed): NodeRecord {
  const best = b.acceptedToken > a.acceptedToken ? b : a
  const owner =
    a.fence === b.fence ? (a.owner > b.owner ? a.owner : b.owner) : a.fence > b.fence ? a.owner : b.owner
  return markCopied({ ...best, fence: Math.max(a.fence, b.fence), owner }, false)
}

/** An outcome, and a claim or release of which its node does not know the outcome. */
function overtaken(outcome: Completed, other: Undecided): NodeRecord {
  if (other.fence <= outcome.fence) return markCopied(outcome, false)
  const owner = other.state === 'claimed' ? other.owner : NO_OWNER
  return markCopied({ ...outcome, fence: other.fence, owner }, false)
}

/** An acceptance is repeated only where no larger token was promised, or where it is known to be chosen. */
function markCopied(record: Completed, chosen: boolean): Completed {
  const { copied: _, ...accepted } = record
  return chosen || record.fence === record.acceptedToken ? accepted : { ...accepted, copied: true }
}

/**
 * Neither is completed, and the token is the same. The claims may differ: two claimants may have proposed it, and a
 * release does not say whose it was. So a claim wins over a release, or an executed attempt would be forgotten; if it
 * was released after all, the application is told of one attempt too many.
 */
function mergeClaims(a: Undecided, b: Undecided): NodeRecord {
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
function supersede(over: Undecided, under: Undecided): NodeRecord {
  if (under.state === 'released') return over
  if (over.state === 'released') {
    return { ...withoutOwner(under, over.fence), leaseUntilNodeMs: 0 }
  }
  if (over.fingerprint !== under.fingerprint) return over
  const least = over.owner === NO_OWNER ? under.attempt : under.attempt + 1
  return { ...over, attempt: Math.min(ATTEMPT_MAX, Math.max(over.attempt, least)) }
}
