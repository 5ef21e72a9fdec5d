/**
 * Copies to a node that restarted what ALL nodes that answer show, itself included (`continuity.ts` says when it may).
 *
 * Owns which nodes have been read so far. The process that copies keeps that, not the node: if it dies, another begins
 * anew. A node counts as heard only in its state then (a run of its process that votes, or one that waits under one
 * nonce): one that restarted, was flushed or enrolled since knows more or less than it did, and is read again.
 */

import { driftMs } from '../clock-drift.ts'
import type { RecordSnapshot } from '../record/record-merge.ts'
import type { NodeView } from './continuity.ts'
import type { EnrolmentNode } from './enrolment-node.ts'
import { type CopyProgress, FIRST_CURSOR, NOTHING_COPIED } from './enrolment-rules.ts'
import { type CopyPorts, type CopyView, copyPages, type Source } from './record-copying.ts'

/** `runId` is its present state: {@link heardAs}. */
export type UnionSource = Source

export type UnionProgress = {
  /** The states of all of them when the records were copied. */
  readonly among: string
  readonly told: Told
  readonly copied: CopyProgress
}

/**
 * The copied keys. One object, so that the lease owed for a copied key stays known, also where the turn that copied it
 * fails after that.
 */
type Told = {
  readonly keys: Set<string>
  /** Until then a lease may run that the node does not keep. */
  leasesUntilMonoMs: number
}

export type UnionPorts = Omit<CopyPorts, 'merged' | 'leases'> & { readonly monoMs: () => number }

/** The state in which a node is heard. */
export function heardAs({ kind, membership }: Exclude<NodeView, { kind: 'silent' }>): string {
  const { runId, epoch, quarantine } = membership
  return kind === 'voting' ? `voting ${epoch}` : `waiting ${runId} ${quarantine?.nonce ?? ''}`
}

/** Whether all these nodes have been read. */
export function hasHeard(progress: UnionProgress | undefined, sources: readonly UnionSource[]): boolean {
  return progress !== undefined && sources.every(({ runId }) => progress.copied.done.includes(runId))
}

/**
 * Reads on through one node for as long as the turn lasts.
 *
 * @param slackMs how far the clock of a waiting node may differ from its earlier one: so much longer are its leases
 */
export async function takeUnionTurn(
  target: EnrolmentNode,
  sources: readonly UnionSource[],
  known: UnionProgress | undefined,
  {
    quarantine,
    quarantineMs,
    required,
    slackMs,
  }: Omit<CopyView, 'hearAtLeast'> & { readonly slackMs: number },
  { monoMs, ...ports }: UnionPorts,
): Promise<UnionProgress> {
  const ids = sources.map(({ runId }) => runId).sort()
  const among = ids.join()
  const same = known !== undefined && known.among === among
  const leasesUntilMonoMs = known?.told.leasesUntilMonoMs ?? Number.NEGATIVE_INFINITY
  const told = same ? known.told : { keys: new Set<string>(), leasesUntilMonoMs }
  const before = known?.copied ?? NOTHING_COPIED
  const done = before.done.filter((id) => ids.includes(id))
  // Part of it was read together with other states of the nodes: read the rest with their present ones.
  const source = same ? before.source : undefined
  const next = source?.runId ?? ids.find((id) => !done.includes(id))
  if (next === undefined) return { among, told, copied: { done, copied: before.copied } }
  const progress = { done, copied: before.copied }
  const leases = {
    monoMs,
    mayHaveForgotten: 2 * required - 1 - sources.filter(({ voting }) => voting).length,
    owes: (ms: number) => {
      told.leasesUntilMonoMs = Math.max(told.leasesUntilMonoMs, monoMs() + ms + driftMs(ms))
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
    { ...ports, leases, merged: limited(told.keys) },
  )
  return { among, told, copied }
}

/** Beyond so many keys each source is compared anew: some 20 MB. */
const MERGED_MAX_KEYS = 100_000

function limited(keys: Set<string>) {
  return {
    has: (key: string) => keys.has(key),
    add: (key: string) => keys.size < MERGED_MAX_KEYS && keys.add(key),
  }
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
