/**
 * When a node may vote, and what must happen before it may again.
 *
 *   founded ──────────────────────────────────────────────┐
 *   forgot → quarantined → copying(source, cursor) → … → enrolled
 *               ↑ another crash: a new nonce ↓
 *               └────────────────────────────┘
 *
 * A node is enrolled for one run of its process (its `run_id`): its epoch names that run. Otherwise it must wait until
 * every lease that it may have forgotten is over, and adopt what a majority of voting nodes remembers. Only then, if it
 * did not forget again meanwhile (its nonce is still current), does it get an epoch and a vote.
 *
 * Owns these decisions as pure functions of what a node shows. It sends nothing and knows no Redis; the acts are
 * `enrolment.ts`, storing them is an adapter's job.
 */

import { driftMs } from '../clock-drift.ts'

/** Why a node has no epoch. Only nodes without a known past can be those of a brand-new cluster. */
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

/** The state of a node that is not enrolled; all sidecars read it, any may go on with it. */
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
  readonly told?: number
  /** It began anew because another server is used under the node's name (`duplicate-server.ts`). */
  readonly rival?: true
  readonly progress: CopyProgress
}

export const NOTHING_COPIED: CopyProgress = { done: [], copied: 0 }

/** Everything a node reports about itself at one moment. */
export type Membership = {
  readonly runId: string
  readonly nodeMs: number
  /** Its current epoch; it may be that of an earlier run. */
  readonly epoch: string | undefined
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
 * ceased to be a replica. A replica gets the data of another server while its process goes on, and an epoch among them.
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

/** The node's lineage at its enrolment; undefined in an epoch of a version that did not write it. */
export function lineageIn(epoch: string): Lineage | undefined {
  return epoch.split(':')[4]
}

/** Distinguishes the enrolments of one node. */
export function nonceIn(epoch: string): string {
  return epoch.split(':')[2] ?? ''
}

/**
 * The epoch of one run of a node's process. The nonce distinguishes two enrolments of the same run; the node's own time
 * shows whether it was enrolled before or after its clock jumped. On Redis its {@link Lineage} comes last.
 */
export function epochFor(runId: string, nonce: string, nodeMs: number): string {
  return `1:${runId}:${nonce}:${nodeMs}`
}

/** The node's time at its enrolment; undefined in an epoch of a version that did not write it. */
export function enrolledAtNodeMs(epoch: string): number | undefined {
  const [, , , nodeMs] = epoch.split(':')
  return nodeMs === undefined ? undefined : Number(nodeMs)
}

/** Whether the epoch on the node was written for the process that runs there now. */
export function isEnrolled(member: Pick<Membership, 'runId' | 'epoch'>): boolean {
  return member.epoch?.startsWith(`1:${member.runId}:`) ?? false
}

/** Whether this run of the node is in quarantine already. */
export function isQuarantined(
  member: Membership,
): member is Membership & { readonly quarantine: Quarantine } {
  return member.quarantine?.runId === member.runId
}

/**
 * Whether a node may adopt records for this enrolment: checked in the very step that would write them. Records that
 * arrive late, at a node that votes again, are older than its new promises and would replace them.
 */
export function mayBeTold(member: Membership, nonce: string): boolean {
  return !isEnrolled(member) && isQuarantined(member) && member.quarantine.nonce === nonce
}

export type EnrolmentStep =
  | { readonly kind: 'wait'; readonly remainingMs: number }
  /** The node's clock ran ahead of ours during the quarantine, or was set back: its `since` is meaningless. */
  | { readonly kind: 'wait_anew' }
  /** Too few nodes vote to know what the others forgot. Only a declared loss continues from here. */
  | { readonly kind: 'blocked'; readonly voting: number; readonly required: number }
  | { readonly kind: 'copy'; readonly sourceRunId: string; readonly cursor: string }
  | { readonly kind: 'finish' }

export type EnrolmentView = {
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
export function nextEnrolmentStep(view: EnrolmentView): EnrolmentStep {
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
