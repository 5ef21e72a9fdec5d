/**
 * Whether a node that adopted the others' records also keeps the running leases.
 *
 * A merge keeps fences, outcomes and attempts, and of two claims the highest: it drops a lease below another's fence.
 * After a quarantine no holder loses by that, because each lease that the node had granted is over. A node that is to
 * vote sooner must refuse other claimants for as long as it would have: it waits for every lease that it does not keep.
 *
 * Owns which leases those are. A claim that too few nodes can have granted has no holder; a completed one needs no
 * lease any more.
 */

import { driftMs } from '../clock-drift.ts'
import { NO_OWNER, type NodeRecord } from '../record/record.ts'
import type { RecordSnapshot } from '../record/record-merge.ts'
import type { EnrolmentNode, Inspection } from './enrolment-node.ts'

export type LeaseWatch = {
  monoMs(): number
  /** Nodes that do not vote now: each of them may have granted a lease that it does not show. */
  readonly mayHaveForgotten: number
  /** Called for a lease that the node does not keep, with its remaining time. */
  owes(remainingMs: number): void
}

type Running = { readonly record: Extract<NodeRecord, { state: 'claimed' }>; readonly remainingMs: number }

/**
 * @param snapshots for each key one entry per node that answered; sent at `askedMonoMs`
 * @param longestMs no lease is longer
 */
export async function keepLeases(
  target: EnrolmentNode,
  keys: readonly string[],
  snapshots: readonly (readonly RecordSnapshot[])[],
  {
    required,
    longestMs,
    askedMonoMs,
  }: { readonly required: number; readonly longestMs: number; readonly askedMonoMs: number },
  watch: LeaseWatch,
): Promise<void> {
  const running = keys.map((_, index) => runningLeases(snapshots[index] ?? [], required, longestMs, watch))
  const wanted = keys.flatMap((key, index) => ((running[index]?.length ?? 0) > 0 ? [{ key, index }] : []))
  if (wanted.length === 0) return
  // Its present state: a record written between reading and adopting may have won over the adopted one.
  const own = await target.inspect(
    wanted.map(({ key }) => key),
    false,
  )
  const elapsedMs = watch.monoMs() - askedMonoMs
  for (const [at, { index }] of wanted.entries()) {
    for (const lease of running[index] ?? []) {
      if (!isKept(lease, own.snapshots[at], elapsedMs + driftMs(elapsedMs))) watch.owes(lease.remainingMs)
    }
  }
}

function runningLeases(
  snapshots: readonly RecordSnapshot[],
  required: number,
  longestMs: number,
  { mayHaveForgotten }: LeaseWatch,
): readonly Running[] {
  const all = snapshots.flatMap(({ record, nodeMs }): Running[] => {
    if (record.state !== 'claimed' || record.leaseUntilNodeMs <= nodeMs) return []
    return [{ record, remainingMs: Math.min(longestMs, record.leaseUntilNodeMs - nodeMs) }]
  })
  return all.filter(({ record }) => {
    const holders = all.filter((other) => other.record.owner === record.owner).length
    return record.owner !== NO_OWNER && holders + mayHaveForgotten >= required
  })
}

/** Whether the node refuses everyone but the holder for as long as the lease runs. */
function isKept(
  { record: claim, remainingMs }: Running,
  own: Inspection['snapshots'][number],
  elapsedMs: number,
): boolean {
  if (own === undefined || own === 'damaged') return own === 'damaged'
  const { record, nodeMs } = own
  switch (record.state) {
    case 'released':
      return false
    case 'completed':
      return record.acceptedToken >= claim.fence
    case 'claimed':
      return (
        (record.owner === claim.owner || record.owner === NO_OWNER) &&
        record.leaseUntilNodeMs - nodeMs + elapsedMs >= remainingMs
      )
  }
}
