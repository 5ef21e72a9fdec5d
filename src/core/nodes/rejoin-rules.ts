/**
 * When a node may vote, and what must happen before it may again.
 *
 *   founded ──────────────────────────────────────────────┐
 *   forgot → quarantined → copying(source, cursor) → … → joined
 *               ↑ another crash: a new nonce ↓
 *               └────────────────────────────┘
 *
 * Its incarnation names the run of its process. A node of another run waits until every lease that it may have forgotten is over, and adopts
 * what a majority of voting nodes remembers; if its nonce is still current then, it gets an incarnation. Pure functions of what a node shows.
 */

import { driftMs } from '../clock.ts'
import type { Merged, RecordSnapshot } from '../record/record-merge.ts'

/** Why a node has no incarnation. Only nodes without a known past can be those of a brand-new cluster. */
export type Origin = 'new' | 'forgot'

/** The progress of copying. It stays true however many sidecars work on it: what was copied stays copied. */
export type CopyProgress = {
  /** `run_id`s of the nodes whose every record was read. */
  readonly done: readonly string[]
  /** The current source, and where to go on. */
  readonly source?: { readonly runId: string; readonly cursor: string }
  /** Records copied to the node so far. */
  readonly copied: number
}

/** The state of a node that has not joined; all sidecars read it, any may go on with it. */
export type Quarantine = {
  /** The process that it was written for. */
  readonly runId: string
  /** New for each quarantine: lost when the node forgets again. */
  readonly nonce: string
  /** On the node's own clock. */
  readonly sinceNodeMs: number
  readonly origin: Origin
  /** An operator declared what a majority remembered as lost: copy the rest from every node that answers. */
  readonly declaredBy?: string
  /** The node's {@link Lineage} when it began; absent where an earlier version began it. */
  readonly lineage?: Lineage
  /** Keys that the node had evicted when it began; absent where an earlier version began it. */
  readonly evictedKeys?: number
  /** Calls that have told it records since it began; absent where there was none. */
  readonly catchUps?: number
  /** It began anew because another server is used under the node's name (`hearsay.ts`). */
  readonly duplicateServer?: true
  readonly progress: CopyProgress
}

export const NOTHING_COPIED: CopyProgress = { done: [], copied: 0 }

/** Everything a node reports about itself at one moment. */
export type Membership = {
  readonly runId: string
  readonly nodeMs: number
  /** Its current incarnation; it may be that of an earlier run. */
  readonly incarnation: string | undefined
  readonly quarantine: Quarantine | undefined
  readonly cluster: Cluster | undefined
}

/** What all nodes of one cluster have in common. */
export type Cluster = {
  readonly id: string
  /** The longest quarantine that any sidecar of this cluster requested, as far as two nodes say so. */
  readonly quarantineMs: number
  /** The names of all its nodes, sorted; absent where none were ever given. */
  readonly members?: readonly string[]
}

/** No sidecar asks for more: twice what `FENCEPOST_QUARANTINE` takes. */
export const LONGEST_QUARANTINE_MS = 2 * 86_400_000

/** How long a node that forgot must not vote: until every lease that it may have granted is over on any clock. */
export function quarantineMsFor(longestLeaseMs: number, clockStepMs: number): number {
  return longestLeaseMs + driftMs(longestLeaseMs) + clockStepMs
}

/**
 * Where a node's data come from, besides its own writes: `0`, or the replication id that its server took when it last
 * ceased to be a replica. A replica gets the data of another server while its process goes on, and an incarnation among them.
 *
 * A server takes another id also where a first replica comes, or where it frees what it kept for replicas after they
 * have gone. Neither changes its data, and both forget that it ever was a replica: then this is `0`.
 */
export type Lineage = string

export const NEVER_A_REPLICA: Lineage = '0'

/** Whether a node was a replica since it had that lineage. False where that is not known. */
export function wasReplicaSince(then: Lineage | undefined, now: Lineage): boolean {
  return then !== undefined && now !== NEVER_A_REPLICA && now !== then
}

/**
 * Below what it was, a counter was reset since, and counts evictions since then. At 0 there were none since, and those
 * before are unknown. That is taken for none: a node that never evicted shows a reset by nothing, so the opposite
 * would find few more, and would end the vote of each node whose operator resets its counters, perhaps of all at once.
 */
export function hasEvictedSince(before: number, now: number): boolean {
  return now !== before && now > 0
}

/** The node's lineage when it joined; undefined in an incarnation of a version that did not write it. */
export function lineageIn(incarnation: string): Lineage | undefined {
  return incarnation.split(':')[4]
}

/** Distinguishes the incarnations of one node. */
export function nonceIn(incarnation: string): string {
  return incarnation.split(':')[2] ?? ''
}

/**
 * The incarnation of one run of a node's process. The nonce distinguishes two rejoins in the same run; the node's own time
 * shows whether it joined before or after its clock jumped. On Redis its {@link Lineage} comes last.
 */
export function incarnationFor(runId: string, nonce: string, nodeMs: number): string {
  return `1:${runId}:${nonce}:${nodeMs}`
}

/** The node's time when it joined; undefined in an incarnation of a version that did not write it. */
export function joinedAtNodeMs(incarnation: string): number | undefined {
  const [, , , nodeMs] = incarnation.split(':')
  return nodeMs === undefined ? undefined : Number(nodeMs)
}

/** Whether the incarnation on the node was written for the process that runs there now. */
export function hasJoined(member: Pick<Membership, 'runId' | 'incarnation'>): boolean {
  return member.incarnation?.startsWith(`1:${member.runId}:`) ?? false
}

/** Whether this run of the node is in quarantine already. */
export function isQuarantined(
  member: Membership,
): member is Membership & { readonly quarantine: Quarantine } {
  return member.quarantine?.runId === member.runId
}

/**
 * Whether a node may adopt records for this rejoin: checked in the very step that would write them. Records that
 * arrive late, at a node that votes again, are older than its new promises and would replace them.
 */
export function mayGetRecords(member: Membership, nonce: string): boolean {
  return !hasJoined(member) && isQuarantined(member) && member.quarantine.nonce === nonce
}

export type RejoinStep =
  | { readonly kind: 'wait'; readonly remainingMs: number }
  /** The node's clock ran ahead of ours during the quarantine, or was set back: its `since` is meaningless. */
  | { readonly kind: 'wait_anew' }
  /** Too few nodes vote to know what the others forgot. Only a declared loss continues from here. */
  | { readonly kind: 'blocked'; readonly voting: number; readonly required: number }
  | { readonly kind: 'copy'; readonly sourceRunId: string; readonly cursor: string }
  | { readonly kind: 'finish' }

export type RejoinView = {
  readonly quarantine: Quarantine
  /** The node's clock now. */
  readonly nodeMs: number
  /** The node's clock and ours when this process first saw this nonce, and ours now: they reveal a step in between. */
  readonly firstSeenNodeMs: number
  readonly observedForMs: number
  readonly quarantineMs: number
  readonly toleratedStepMs: number
  /** `run_id`s of the other nodes that vote now. */
  readonly voting: readonly string[]
  /** `run_id`s of the other nodes that answer and do not vote: sources only after a declared loss. */
  readonly others: readonly string[]
  /** A majority of all N. */
  readonly required: number
}

/** The next act for a node in quarantine. */
export function nextRejoinStep(view: RejoinView): RejoinStep {
  const { quarantine, nodeMs, quarantineMs, voting, required } = view
  const aheadMs = nodeMs - view.firstSeenNodeMs - view.observedForMs
  if (aheadMs > view.toleratedStepMs + driftMs(view.observedForMs)) return { kind: 'wait_anew' }
  const elapsedMs = nodeMs - quarantine.sinceNodeMs
  // The node's clock was set back since: the end of its wait may be hours away.
  if (elapsedMs < 0) return { kind: 'wait_anew' }
  if (elapsedMs < quarantineMs) return { kind: 'wait', remainingMs: quarantineMs - elapsedMs }

  const lossDeclared = quarantine.declaredBy !== undefined
  if (voting.length < required && !lossDeclared) return { kind: 'blocked', voting: voting.length, required }
  const sources = lossDeclared ? [...voting, ...view.others] : voting
  const { done, source } = quarantine.progress
  // After a declared loss read every node that answers; otherwise a majority knows all that can be known.
  const heardEnough = lossDeclared ? sources.every((runId) => done.includes(runId)) : done.length >= required
  if (heardEnough) return { kind: 'finish' }
  if (source !== undefined && sources.includes(source.runId)) {
    return { kind: 'copy', sourceRunId: source.runId, cursor: source.cursor }
  }
  const next = sources.find((runId) => !done.includes(runId))
  // Every voter was read, and they are too few: some have come and gone since.
  if (next === undefined) return { kind: 'blocked', voting: voting.length, required }
  return { kind: 'copy', sourceRunId: next, cursor: FIRST_CURSOR }
}

/** The cursor with which a walk through a node's keys begins and ends. */
export const FIRST_CURSOR = '0'

/** The progress after one more step through a source. */
export function advanced(
  progress: CopyProgress,
  sourceRunId: string,
  nextCursor: string,
  copied: number,
): CopyProgress {
  const total = progress.copied + copied
  return nextCursor === FIRST_CURSOR
    ? { done: [...new Set([...progress.done, sourceRunId])], copied: total }
    : { done: progress.done, source: { runId: sourceRunId, cursor: nextCursor }, copied: total }
}

/*
 * When a brand-new cluster may be founded: all N nodes wait as new ones, and nobody objects for a while. Nodes that all forgot at once look
 * the same to a new sidecar; one that knew their cluster finds a node empty, and writes on it that it forgot. One that was cut off for
 * the whole window refuses the cluster it finds then.
 */

/**
 * Longer than a running sidecar takes to notice and object: a second between two attempts to dial, one for an
 * inspection, and one for a busy machine. A dial under way is added by {@link foundingWindowMs}.
 */
export const FOUNDING_WINDOW_MS = 3_000

/** The parts of it besides the dial. */
const BESIDE_DIALLING_MS = 2_000

/** @param connectTimeoutMs how long an attempt to dial may last: one that began too early must not use up the window */
export function foundingWindowMs(connectTimeoutMs: number): number {
  return Math.max(FOUNDING_WINDOW_MS, connectTimeoutMs + BESIDE_DIALLING_MS)
}

/** The proposals on all N nodes, and since when this process has seen them without a gap. */
export type Proposal = { readonly nonces: readonly string[]; readonly sinceMonoMs: number }

/**
 * If none of all N nodes has ever had an incarnation, and each waits as a new one, none is known to have forgotten one.
 *
 * @param members one entry per configured node; undefined where it does not answer
 */
export function mayBeFounded(members: readonly (Membership | undefined)[]): boolean {
  return noncesOfNew(members) !== undefined
}

/** Whether nothing on a node says that it ever joined; also before a sidecar has proposed anything there. */
export function looksNew({ incarnation, cluster, quarantine }: Membership): boolean {
  return incarnation === undefined && cluster === undefined && quarantine?.origin !== 'forgot'
}

/** The proposal after one more poll; undefined where there is none. A node that forgot again starts another one. */
export function proposedBy(
  members: readonly (Membership | undefined)[],
  before: Proposal | undefined,
  nowMonoMs: number,
): Proposal | undefined {
  const nonces = noncesOfNew(members)
  if (nonces === undefined) return undefined
  const same = before !== undefined && before.nonces.join() === nonces.join()
  return same ? before : { nonces, sinceMonoMs: nowMonoMs }
}

function noncesOfNew(members: readonly (Membership | undefined)[]): readonly string[] | undefined {
  const nonces = members.flatMap((member) =>
    member !== undefined && isNew(member) ? [member.quarantine.nonce] : [],
  )
  return nonces.length === members.length ? nonces : undefined
}

function isNew(member: Membership): member is Membership & { readonly quarantine: Quarantine } {
  return (
    member.incarnation === undefined &&
    member.cluster === undefined &&
    isQuarantined(member) &&
    member.quarantine.origin === 'new'
  )
}

/*
 * Whether a waiting node forgot or is new, and whether what was copied to it is still there: data that are set back while it waits have
 * the nonce and the progress of that moment, and who copied to it does not copy again. So the node counts the calls that tell it
 * records, and one that shows fewer than were known before it was asked lacks what later ones told it.
 */

/** The calls that have told a node records, as far as one process knows. */
export class CatchUpCounter {
  #nonce = ''
  #calls = 0
  #lacking: string | undefined

  known(nonce: string): number {
    return nonce === this.#nonce ? this.#calls : 0
  }

  learn(nonce: string, calls: number): void {
    this.#calls = Math.max(this.known(nonce), calls)
    this.#nonce = nonce
  }

  /** A poll begins. @returns to be called with what it shows: a call that comes meanwhile is no sign */
  asked(): (shown: Quarantine | undefined) => void {
    const [nonce, calls] = [this.#nonce, this.#calls]
    return (shown) => {
      if (shown === undefined) return
      const { catchUps = 0 } = shown
      if (shown.nonce === nonce && catchUps < calls) this.#lacking = nonce
      else this.learn(shown.nonce, catchUps)
    }
  }

  /** What was copied to the node under that nonce is gone. */
  isLacking(nonce: string | undefined): boolean {
    return nonce !== undefined && nonce === this.#lacking
  }
}

export type Wait = {
  readonly forgot: boolean
  /** Of this run of its process. */
  readonly quarantine: Quarantine | undefined
  /** What was copied to it may be gone. */
  readonly emptied: boolean
  /** Its quarantine stands, and goes on. */
  readonly begun: boolean
}

/**
 * @param wasVoting in the life of this process
 * @param clusterIsKnown other nodes have an incarnation, or this process knows their cluster: then it is not new, whatever it looks like by itself
 */
export function waitOf(
  { wasVoting, catchUp }: { readonly wasVoting: boolean; readonly catchUp: CatchUpCounter },
  shown: Membership & { readonly lineage: Lineage; readonly evictedKeys: number },
  clusterIsKnown: boolean,
): Wait {
  // Nor is one that knows its cluster: its incarnation was taken away, perhaps by a sidecar that is gone.
  const knows = shown.incarnation !== undefined || shown.cluster !== undefined
  const forgot = wasVoting || clusterIsKnown || knows || shown.quarantine?.origin === 'forgot'
  const quarantine = isQuarantined(shown) ? shown.quarantine : undefined
  const emptied =
    quarantine !== undefined &&
    (catchUp.isLacking(quarantine.nonce) ||
      wasReplicaSince(quarantine.lineage, shown.lineage) ||
      hasEvictedSince(quarantine.evictedKeys ?? shown.evictedKeys, shown.evictedKeys))
  const begun = quarantine !== undefined && !emptied && (!forgot || quarantine.origin === 'forgot')
  return { forgot, quarantine, emptied, begun }
}

/* A node as a rejoin sees it: the port between the rules and any kind of node. */

/** A node's snapshots of some records. */
export type Inspection = {
  /** It had joined when it answered: a record that it does not show it never knew. */
  readonly voting: boolean
  /** Its clock at that moment. */
  readonly nodeMs: number
  /** One entry per key, in order; undefined: it has none. `damaged` where it can't be read. */
  readonly snapshots: readonly (SizedSnapshot | 'damaged' | undefined)[]
}

/** `sizeBytes`: its size with its outcome, where the node reports it. */
export type SizedSnapshot = RecordSnapshot & { readonly sizeBytes?: number }

export type Adoption = { readonly key: string; readonly merged: Merged }

/** A node as a rejoin sees it. Every call may reject; none may be executed on another run of the node's process. */
export interface RejoiningNode {
  readonly name: string
  /** Begins the quarantine, where none stands for this run of the node, or one of a node that was taken for a new one. */
  begin(nonce: string, origin: Origin): Promise<void>
  /** Begins it anew. */
  restart(nonce: string, nextNonce: string, why?: WhyAnew): Promise<void>
  /** False where the nonce is no longer current. */
  save(nonce: string, progress: CopyProgress): Promise<boolean>
  /** Sets the incarnation, where the nonce is still current. */
  join(nonce: string, cluster: Cluster): Promise<boolean>
  /** Some of its keys, and the next cursor; `FIRST_CURSOR` at the end. A key that stays is returned at least once. */
  keys(cursor: string): Promise<{ readonly keys: readonly string[]; readonly cursor: string }>
  /** @param whole with outcomes; else a record shows the first bytes of its own, which say when it ends */
  inspect(keys: readonly string[], whole: boolean): Promise<Inspection>
  /** Writes records to it, all or none: rejects, and changes nothing, where the nonce is outdated (`mayGetRecords`). */
  adopt(nonce: string, adoptions: readonly Adoption[]): Promise<void>
  /**
   * Claims the node for the founding of a new cluster, for a while. False where it is claimed already, or no longer
   * waits as a new one under the proposed nonce: from here on no sidecar can object.
   */
  claimFounding(nonce: string, proposed: string): Promise<boolean>
  /** Sets the first incarnation, where the claim still stands and there is none. */
  found(nonce: string, cluster: Cluster): Promise<boolean>
  abandonFounding(nonce: string): Promise<void>
}

export type WhyAnew = {
  /** Another server is used under its name: who polls the node later sees it. */
  readonly duplicateServer?: boolean
  /** It has forgotten once more: a loss that was declared before does not cover that. */
  readonly forgot?: boolean
}

export type Peer = { readonly node: RejoiningNode; readonly runId: string; readonly voting: boolean }
