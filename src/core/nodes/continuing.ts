/**
 * Brings a node that restarted with its data back to voting, one step at a time, over any kind of node.
 *
 * Owns the acts, and the progress of copying to each node. `continuity.ts` decides which act is sound when;
 * `continuing.ts` reads the sources. A step that is not allowed, or fails, leaves the node to its quarantine.
 */

import { driftMs } from '../clock.ts'
import type { RecordSnapshot } from '../record/record-merge.ts'
import { type Continuity, type ContinuityView, judgeContinuity, type NodeView } from './continuity.ts'
import {
  type CopyPorts,
  type CopyView,
  copyPages,
  type MergedKeys,
  mergedKeys,
  type Source,
} from './record-copying.ts'
import {
  type Cluster,
  type CopyProgress,
  FIRST_CURSOR,
  NOTHING_COPIED,
  type Quarantine,
  type RejoiningNode,
} from './rejoin-rules.ts'

export type ContinuityTurn =
  | { readonly kind: 'wait'; readonly remainingMs: number }
  | { readonly kind: 'busy' | 'gone' }
  /** `copied`: so many records were copied to it before; absent: it had forgotten nothing. */
  | { readonly kind: 'joined'; readonly copied?: number }
  | { readonly kind: 'progress'; readonly progress: CopyProgress }

/** How the process that does it sees the nodes. */
export type Watcher = {
  /** By the last poll. */
  view(): ContinuityView
  /** Polls all nodes again. */
  pollAgain(): Promise<unknown>
  /** The node of that index, as a source of records. */
  sourceOf(index: number): PeerSource['node'] | undefined
}

export type ContinuingPorts = PeerRecoveryPorts & {
  readonly watcher: Watcher
  /** Takes the work on this node; false: another sidecar has it. */
  readonly occupy: () => Promise<boolean>
}

/** The progress of copying to each node, kept by the process that copies. */
export class Continuing {
  readonly #progress = new Map<number, { readonly nonce: string; readonly progress: PeerRecoveryProgress }>()

  /**
   * The next step for a waiting node; undefined where its data do not suffice, and it goes through its quarantine.
   *
   * @param index of the node among those of the view
   * @param observedForMs since this process first saw it wait
   */
  async turn(
    target: RejoiningNode,
    index: number,
    quarantine: Quarantine,
    observedForMs: number,
    cluster: Cluster,
    { watcher, occupy, ...ports }: ContinuingPorts,
  ): Promise<ContinuityTurn | undefined> {
    if (quarantine.declaredBy !== undefined) return undefined
    const { nonce } = quarantine
    const verdict = judgeAt(index, watcher.view())
    if (verdict?.kind !== 'no_loss' && verdict?.kind !== 'recover_from_peers') return undefined
    const join = () => target.join(nonce, cluster)
    if (verdict.kind === 'no_loss') {
      if (!(await occupy())) return { kind: 'busy' }
      // The other nodes as they are now: one of them may know of a later heartbeat than at the last poll.
      await watcher.pollAgain()
      if (judgeAt(index, watcher.view())?.kind !== 'no_loss') return undefined
      return { kind: (await join()) ? 'joined' : 'gone' }
    }
    const remainingMs = answersCountForMs(watcher.view()) - observedForMs
    if (remainingMs > 0) return { kind: 'wait', remainingMs }
    if (!(await occupy())) return { kind: 'busy' }
    const { required, toleratedStepMs } = watcher.view()
    const known = this.#progress.get(index)
    const before = known?.nonce === nonce ? known.progress : undefined
    const { quarantineMs } = cluster
    const terms = { quarantine, quarantineMs, required, slackMs: 2 * toleratedStepMs }
    const progress = await takePeerRecoveryTurn(target, sourcesOf(watcher), before, terms, ports)
    this.#progress.set(index, { nonce, progress })
    if (!hasHeard(progress, sourcesOf(watcher))) return { kind: 'progress', progress: progress.copied }
    const leasesMs = progress.caughtUp.leasesUntilMonoMs - ports.monoMs()
    if (leasesMs > 0) return { kind: 'wait', remainingMs: leasesMs }
    // Each source as it is now: one that restarted or was flushed meanwhile is read again, and may be one too many.
    await watcher.pollAgain()
    if (
      judgeAt(index, watcher.view())?.kind !== 'recover_from_peers' ||
      !hasHeard(progress, sourcesOf(watcher))
    )
      return { kind: 'progress', progress: progress.copied }
    this.#progress.delete(index)
    return (await join()) ? { kind: 'joined', copied: progress.copied.copied } : { kind: 'gone' }
  }
}

/** Undefined where the node does not wait. */
export function judgeAt(index: number, view: ContinuityView): Continuity | undefined {
  const target = view.nodes[index]
  return target?.kind === 'waiting' ? judgeContinuity(target, view) : undefined
}

/** For so long after a node restarted, a round may still count its earlier answers. */
function answersCountForMs({ answerMaxAgeMs }: ContinuityView): number {
  return answerMaxAgeMs + driftMs(answerMaxAgeMs)
}

/** The sources that the rule counts as heard. */
function sourcesOf(watcher: Watcher): readonly PeerSource[] {
  return watcher.view().nodes.flatMap((its, index): PeerSource[] => {
    const node = watcher.sourceOf(index)
    if (node === undefined || its.kind === 'silent') return []
    if (its.kind === 'waiting' && !its.clockAgrees) return []
    return [{ node, runId: heardAs(its), voting: its.kind === 'voting' }]
  })
}

/*
 * Copies what ALL nodes that answer show, the node itself included. Which were read the copying process keeps: if it dies, another begins
 * anew. A node counts as heard only in its state then (a run that votes, or one that waits under one nonce).
 */

/** `runId` is its present state: {@link heardAs}. */
export type PeerSource = Source

export type PeerRecoveryProgress = {
  /** The states of all of them when the records were copied. */
  readonly among: string
  readonly caughtUp: CaughtUp
  readonly copied: CopyProgress
}

/**
 * The copied keys. One object, so that the lease owed for a copied key stays known, also where the turn that copied it
 * fails after that.
 */
type CaughtUp = {
  readonly keys: MergedKeys
  /** Until then a lease may run that the node does not keep. */
  leasesUntilMonoMs: number
}

export type PeerRecoveryPorts = Omit<CopyPorts, 'merged' | 'leases'> & { readonly monoMs: () => number }

/** The state in which a node is heard. */
export function heardAs({ kind, membership }: Exclude<NodeView, { kind: 'silent' }>): string {
  const { runId, incarnation, quarantine } = membership
  return kind === 'voting' ? `voting ${incarnation}` : `waiting ${runId} ${quarantine?.nonce ?? ''}`
}

/** Whether all these nodes have been read. */
export function hasHeard(
  progress: PeerRecoveryProgress | undefined,
  sources: readonly PeerSource[],
): boolean {
  return progress !== undefined && sources.every(({ runId }) => progress.copied.done.includes(runId))
}

/**
 * Reads on through one node for as long as the turn lasts.
 *
 * @param slackMs how far the clock of a waiting node may differ from its earlier one: so much longer are its leases
 */
export async function takePeerRecoveryTurn(
  target: RejoiningNode,
  sources: readonly PeerSource[],
  known: PeerRecoveryProgress | undefined,
  {
    quarantine,
    quarantineMs,
    required,
    slackMs,
  }: Omit<CopyView, 'hearAtLeast'> & { readonly slackMs: number },
  { monoMs, ...ports }: PeerRecoveryPorts,
): Promise<PeerRecoveryProgress> {
  const ids = sources.map(({ runId }) => runId).sort()
  const among = ids.join()
  const same = known !== undefined && known.among === among
  const leasesUntilMonoMs = known?.caughtUp.leasesUntilMonoMs ?? Number.NEGATIVE_INFINITY
  const caughtUp = same ? known.caughtUp : { keys: mergedKeys(), leasesUntilMonoMs }
  const before = known?.copied ?? NOTHING_COPIED
  const done = before.done.filter((id) => ids.includes(id))
  // Part of it was read together with other states of the nodes: read the rest with their present ones.
  const source = same ? before.source : undefined
  const next = source?.runId ?? ids.find((id) => !done.includes(id))
  if (next === undefined) return { among, caughtUp, copied: { done, copied: before.copied } }
  const progress = { done, copied: before.copied }
  const leases = {
    monoMs,
    mayHaveForgotten: 2 * required - 1 - sources.filter(({ voting }) => voting).length,
    owes: (ms: number) => {
      caughtUp.leasesUntilMonoMs = Math.max(caughtUp.leasesUntilMonoMs, monoMs() + ms + driftMs(ms))
    },
  }
  const heard = sources.map((one) =>
    one.voting ? one : { ...one, voting: true, node: waiting(one.node, slackMs) },
  )
  const copied = await copyPages(
    target,
    heard,
    { quarantine: { ...quarantine, progress }, quarantineMs, required, hearAtLeast: sources.length },
    { kind: 'copy', sourceRunId: next, cursor: source?.cursor ?? FIRST_CURSOR },
    { ...ports, leases, merged: caughtUp.keys },
  )
  return { among, caughtUp, copied }
}

/** Its records count although it does not vote; and its leases as if its clock were that far behind. */
function waiting(node: Source['node'], slackMs: number): Source['node'] {
  const later = (seen: RecordSnapshot): RecordSnapshot => ({ ...seen, nodeMs: seen.nodeMs - slackMs })
  return {
    name: node.name,
    keys: (cursor) => node.keys(cursor),
    inspect: async (keys, whole) => {
      const { nodeMs, snapshots } = await node.inspect(keys, whole)
      return {
        voting: true,
        nodeMs: nodeMs - slackMs,
        snapshots: snapshots.map((seen) =>
          seen === undefined || seen === 'damaged' ? seen : { ...seen, ...later(seen) },
        ),
      }
    },
  }
}
