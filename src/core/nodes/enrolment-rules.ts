/**
 * When a node may vote, and what has to happen before it may again.
 *
 *   founded ──────────────────────────────────────────────┐
 *   forgot → quarantined → copying(source, cursor) → … → enrolled
 *               ↑ another crash: a new nonce ↓
 *               └────────────────────────────┘
 *
 * A node is enrolled for one run of its process (its `run_id`): its epoch names that run. Whatever else it shows it has
 * to wait until every lease that it may have forgotten is over, to learn what a majority of voting nodes remembers, and
 * only then, if it did not forget again meanwhile (its nonce still stands), does it get an epoch and a vote.
 *
 * Owns these decisions as pure functions of what a node shows. It sends nothing and knows no Redis; the acts are
 * `enrolment.ts`, the storing of them an adapter's.
 */

import { driftMs } from '../clock-drift.ts'

/** Why a node has no epoch. Only nodes of which nobody knows better can be those of a brand-new cluster. */
export type Origin = 'new' | 'forgot'

/** How far the copying has come. It stays true however many sidecars work on it: what was copied was copied. */
export type CopyProgress = {
  /** `run_id`s of the nodes of which every record was looked at. */
  readonly done: readonly string[]
  /** The node that is being gone through, and where to go on. */
  readonly source?: { readonly runId: string; readonly cursor: string }
  /** Records that were told to the node so far. */
  readonly copied: number
}

/** What stands on a node that is not enrolled; all sidecars read it, any may go on with it. */
export type Quarantine = {
  /** The process that it was written for. */
  readonly runId: string
  /** New for each quarantine: it is gone when the node forgets again. */
  readonly nonce: string
  /** On the node's own clock. */
  readonly sinceNodeMs: number
  readonly origin: Origin
  /** Somebody declared what a majority remembered as lost: copy what is left, from whoever answers. */
  readonly declaredBy?: string
  readonly progress: CopyProgress
}

export const NOTHING_COPIED: CopyProgress = { done: [], copied: 0 }

/** Everything a node says about itself at one moment. */
export type Membership = {
  readonly runId: string
  readonly nodeMs: number
  /** The epoch that stands there; it may be that of an earlier run. */
  readonly epoch: string | undefined
  readonly quarantine: Quarantine | undefined
  readonly cluster: Cluster | undefined
}

/** What all nodes of one cluster have in common. */
export type Cluster = {
  readonly id: string
  /** The longest quarantine that any sidecar of this cluster asked for. */
  readonly quarantineMs: number
  /** The names of all its nodes, sorted; absent where none were ever given. */
  readonly members?: readonly string[]
}

/** How long a node that forgot must not vote: until every lease that it may have granted is over on any clock. */
export function quarantineMsFor(longestLeaseMs: number, clockStepMs: number): number {
  return longestLeaseMs + driftMs(longestLeaseMs) + clockStepMs
}

/**
 * The epoch of one run of a node's process. The nonce keeps two enrolments of the same run apart; the node's own time says
 * whether it was enrolled before its clock jumped or after it.
 */
export function epochFor(runId: string, nonce: string, nodeMs: number): string {
  return `1:${runId}:${nonce}:${nodeMs}`
}

/** The node's time when it was enrolled; undefined in an epoch of a version that did not write it. */
export function enrolledAtNodeMs(epoch: string): number | undefined {
  const [, , , nodeMs] = epoch.split(':')
  return nodeMs === undefined ? undefined : Number(nodeMs)
}

/** Whether the epoch on the node was written for the process that runs there now. */
export function isEnrolled(member: Pick<Membership, 'runId' | 'epoch'>): boolean {
  return member.epoch?.startsWith(`1:${member.runId}:`) ?? false
}

/** Whether this run of the node has been told to wait already. */
export function isQuarantined(
  member: Membership,
): member is Membership & { readonly quarantine: Quarantine } {
  return member.quarantine?.runId === member.runId
}

/**
 * Whether a node may be told records for the sake of this enrolment: looked at in the very step that would write them. What is
 * told late, to a node that votes again, was gathered before that: it would take the place of what it has promised since.
 */
export function mayBeTold(member: Membership, nonce: string): boolean {
  return !isEnrolled(member) && isQuarantined(member) && member.quarantine.nonce === nonce
}

export type EnrolmentStep =
  | { readonly kind: 'wait'; readonly remainingMs: number }
  /** The node's clock ran ahead of ours during the quarantine, or was set back: its "since" means nothing. */
  | { readonly kind: 'wait_anew' }
  /** Too few nodes vote to know what the others forgot. Only a declared loss goes on from here. */
  | { readonly kind: 'blocked'; readonly voting: number; readonly required: number }
  | { readonly kind: 'copy'; readonly sourceRunId: string; readonly cursor: string }
  | { readonly kind: 'finish' }

export type EnrolmentView = {
  readonly quarantine: Quarantine
  /** The node's clock now. */
  readonly nodeMs: number
  /** The node's clock and ours when this process first saw this nonce, and ours now: a step in between shows. */
  readonly firstSeenNodeMs: number
  readonly observedForMs: number
  readonly quarantineMs: number
  readonly toleratedStepMs: number
  /** `run_id`s of the other nodes that vote now. */
  readonly voting: readonly string[]
  /** `run_id`s of the other nodes that answer and do not vote: asked only after a declared loss. */
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
  // The node's clock was set back since: what it would have to wait for may be hours away.
  if (elapsedMs < 0) return { kind: 'wait_anew' }
  if (elapsedMs < quarantineMs) return { kind: 'wait', remainingMs: quarantineMs - elapsedMs }

  const lossDeclared = quarantine.declaredBy !== undefined
  if (voting.length < required && !lossDeclared) return { kind: 'blocked', voting: voting.length, required }
  const sources = lossDeclared ? [...voting, ...view.others] : voting
  const { done, source } = quarantine.progress
  // After a declared loss everyone who answers is heard; otherwise a majority knows all that can be known.
  const heardEnough = lossDeclared ? sources.every((runId) => done.includes(runId)) : done.length >= required
  if (heardEnough) return { kind: 'finish' }
  if (source !== undefined && sources.includes(source.runId)) {
    return { kind: 'copy', sourceRunId: source.runId, cursor: source.cursor }
  }
  const next = sources.find((runId) => !done.includes(runId))
  // Every voter was gone through, and too few of them: some have come and gone since.
  if (next === undefined) return { kind: 'blocked', voting: voting.length, required }
  return { kind: 'copy', sourceRunId: next, cursor: FIRST_CURSOR }
}

/** With which a walk through a node's keys begins, and which it answers at its end. */
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
