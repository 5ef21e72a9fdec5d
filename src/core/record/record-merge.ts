/**
 * What a node that forgot has to be told of one record, from what other nodes show of it.
 *
 * Owns the merge of records, which only ever raises: the largest fence, the outcome that a majority accepted at one token or
 * else the one accepted at the largest, the claim that stands highest. It knows no nodes and no order of messages; merging in any order and twice gives the same.
 *
 * In terms of Paxos a node is an acceptor whose promises and acceptances were lost. Its promises are restored by the
 * largest fence that a majority shows, because every promise that was counted is known to one of them. An outcome is
 * restored too, or an outcome of {1,2,3} would be unknown to {3,4,5} once 3 forgot. But repeating an acceptance is not the
 * acceptance: copying an outcome that only a minority accepted, past a larger promise, would in the end show it on a
 * majority that never voted for it. Such an outcome is marked `copied`, and adopted under a new token where it matters.
 *
 * Attempts whose fate is unknown are kept rather than forgotten: an application told `attempt 2` without need looks twice,
 * one not told of it does the work twice.
 */

import { ATTEMPT_MAX, NO_OWNER, type NodeRecord } from './record.ts'

type Completed = Extract<NodeRecord, { state: 'completed' }>
type Undecided = Exclude<NodeRecord, Completed>
type Claimed = Extract<NodeRecord, { state: 'claimed' }>

/** One record as one node shows it. */
export type RecordSnapshot = {
  readonly record: NodeRecord
  /** The node's own clock at that moment. */
  readonly nodeMs: number
  /** How long the node will go on remembering it. */
  readonly ttlMs: number
}

/** A record on its way to another node: the lease says how long it runs on, not until when on a foreign clock. */
export type Merged = {
  /** `leaseUntilNodeMs` is what remains of the lease; 0: lapsed. */
  readonly record: NodeRecord
  readonly ttlMs: number
  /** A majority accepted this very outcome: whoever holds it holds it for good. */
  readonly chosen: boolean
}

/** The record with its lease as the time that remains of it. */
export function onNoClock(record: NodeRecord, nodeMs: number): NodeRecord {
  if (record.state !== 'claimed') return record
  return { ...record, leaseUntilNodeMs: Math.max(0, record.leaseUntilNodeMs - nodeMs) }
}

/**
 * What the snapshots of one record amount to; undefined where no node has it.
 *
 * @param needed a majority of all nodes of the cluster
 */
export function mergeSnapshots(snapshots: readonly RecordSnapshot[], needed: number): Merged | undefined {
  const [first, ...rest] = snapshots.map(({ record, nodeMs }) => onNoClock(record, nodeMs))
  if (first === undefined) return undefined
  const record = rest.reduce(mergeRecords, first)
  const ttlMs = Math.max(...snapshots.map((snapshot) => snapshot.ttlMs))
  if (record.state === 'claimed')
    return { record: ofWhatMayStand(record, [first, ...rest], needed), ttlMs, chosen: false }
  if (record.state === 'released') return { record, ttlMs, chosen: false }
  const accepted = chosenAmong(snapshots, needed)
  if (accepted === undefined) return { record: markCopied(record, false), ttlMs, chosen: false }
  // Whatever larger ballots a minority shows: fence and owner are the highest, the outcome is the chosen one.
  const { fence, owner } = record
  return { record: markCopied({ ...accepted, fence, owner }, true), ttlMs, chosen: true }
}

/** The outcome that a majority accepted at one ballot. Of its snapshots the first, which may be the only one with its bytes. */
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
 * Of several contents under one key the one with the largest token speaks, unless so few nodes show it that no majority can have
 * granted it, and of another a majority may have: that one may have been carried out. The larger token stays promised.
 * A node keeps the content that it has granted, so nodes are counted by content and not by token, which moves on.
 */
function ofWhatMayStand(merged: Claimed, records: readonly NodeRecord[], needed: number): Claimed {
  const claims = records.filter((record) => record.state === 'claimed')
  // Whoever was not heard, or shows nothing, may have granted anything. Clusters are odd.
  const silent = 2 * needed - 1 - claims.length
  const mayStand = ({ fingerprint }: Claimed) =>
    claims.filter((claim) => claim.fingerprint === fingerprint).length + silent >= needed
  if (mayStand(merged)) return merged
  const [first, ...rest] = claims.filter(mayStand)
  const standing = first && rest.reduce<NodeRecord>(mergeRecords, first)
  return standing?.state === 'claimed' ? { ...standing, fence: merged.fence, owner: NO_OWNER } : merged
}

/**
 * The same with no more left of its lease than any lease can last. More shows a node whose clock was set back; told of it,
 * another one would refuse everybody for as long as that clock is behind.
 */
export function leasedAtMost(merged: Merged, longestMs: number): Merged {
  const { record } = merged
  if (record.state !== 'claimed' || record.leaseUntilNodeMs <= longestMs) return merged
  return { ...merged, record: { ...record, leaseUntilNodeMs: longestMs } }
}

/** What a node holds after it was told `merged`. `nodeMs` is its own clock. */
export function adoptRecord(own: NodeRecord | undefined, merged: Merged, nodeMs: number): NodeRecord {
  const { record, chosen } = merged
  const mine = own === undefined ? undefined : onNoClock(own, nodeMs)
  const both = mine === undefined ? record : (withoutStrayClaim(mine, record) ?? mergeRecords(mine, record))
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
 * The node has granted a claim of another content, which it would have refused had it not forgotten theirs: while it did not
 * vote, so nobody counts it. A promise it is all the same; but giving it back must not leave nothing of theirs.
 */
function withoutStrayClaim(mine: NodeRecord, theirs: NodeRecord): NodeRecord | undefined {
  if (mine.state !== 'claimed' || theirs.state !== 'claimed') return undefined
  if (mine.fence <= theirs.fence || mine.fingerprint === theirs.fingerprint) return undefined
  return { ...theirs, fence: mine.fence, owner: NO_OWNER }
}

/** Of one and the same moment: see {@link onNoClock}. Commutative, and merging again changes nothing. */
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

/** An acceptance is repeated only where nothing above it was promised, or where it is known to be chosen. */
function markCopied(record: Completed, chosen: boolean): Completed {
  const { copied: _, ...accepted } = record
  return chosen || record.fence === record.acceptedToken ? accepted : { ...accepted, copied: true }
}

/**
 * Neither completed, the same token. Which need not be the same claim: two claimants may have proposed it, and a release
 * does not say whose it was. So a claim is kept beside a release, or an attempt that was carried out would be forgotten;
 * had it been released after all, the application is told of one attempt too many.
 */
function mergeClaims(a: Undecided, b: Undecided): NodeRecord {
  if (a.state === 'released') return b
  if (b.state === 'released') return a
  // Beyond the lease only so that the order of asking does not show.
  const [longer = a] = [a, b].sort(
    (one, other) =>
      other.leaseUntilNodeMs - one.leaseUntilNodeMs ||
      compare(other.owner, one.owner) ||
      compare(other.fingerprint, one.fingerprint),
  )
  return { ...longer, attempt: Math.max(attemptBeside(a, b), attemptBeside(b, a)) }
}

/**
 * The attempt of a claim where another node shows the same one. A claim that was given back counts what was there before
 * it; a node that missed all that, and shows the claim as it was, counts one less than it would be with it. To give it back
 * there as well would leave nothing of an attempt that was carried out.
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
    return { ...under, fence: over.fence, owner: NO_OWNER, leaseUntilNodeMs: 0 }
  }
  if (over.fingerprint !== under.fingerprint) return over
  const least = over.owner === NO_OWNER ? under.attempt : under.attempt + 1
  return { ...over, attempt: Math.min(ATTEMPT_MAX, Math.max(over.attempt, least)) }
}
