/** What faults of nodes have in common: settings that are changed and put back, errors that are counted, votes that come back. */

import type { FaultContext } from './fault.ts'
import { NODES, QUARANTINE_MS, type Stage } from './stage.ts'

/** Copying what others remember to a node that syncs each write takes a while on a busy disk. */
export const COPIED_WITHIN_MS = 120_000

/** Every node votes again: enrolled, copied, and the clocks of sidecars content. */
export async function allVote({ stage, demand }: FaultContext): Promise<void> {
  await demand('every node votes again after it was enrolled', QUARANTINE_MS + COPIED_WITHIN_MS, async () => {
    const votes = await Promise.all(stage.sidecars.map((_, index) => stage.votingNodes(index)))
    return votes.every((count) => count === NODES)
  })
}

/** Changes settings of nodes and puts them back. */
export async function configured(
  stage: Stage,
  nodes: readonly number[],
  setting: string,
  values: readonly [fault: string, healthy: string],
  meanwhile: () => Promise<unknown>,
): Promise<number> {
  for (const node of nodes) await stage.admin[node]?.config('SET', setting, values[0])
  await meanwhile()
  for (const node of nodes) await stage.admin[node]?.config('SET', setting, values[1])
  return nodes.length
}

/** How often the nodes have answered with this error, as they count it themselves. */
export async function errorsOf(stage: Stage, nodes: readonly number[], error: string): Promise<number> {
  const counts = nodes.map(async (node) => {
    const stats = (await stage.admin[node]?.info('errorstats')) ?? ''
    return Number(new RegExp(`errorstat_${error}:count=(\\d+)`).exec(stats)?.[1] ?? 0)
  })
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0)
}

export async function recorded({ stage, clients, fraction, freshKey }: FaultContext): Promise<boolean> {
  const sidecar = Math.floor(fraction() * stage.sidecarCount)
  const answer = await clients.submit({ sidecar, key: freshKey() })
  return answer.type === 'ok' && answer.says === 'created'
}

/** Said as it is: no quorum, come again; not "somebody holds it", and not carried out. */
export async function refused({ stage, clients, fraction, freshKey }: FaultContext): Promise<boolean> {
  const sidecar = Math.floor(fraction() * stage.sidecarCount)
  const answer = await clients.submit({ sidecar, key: freshKey() })
  return answer.type === 'ok' && answer.status === 503
}

/** The nodes 0, 1 and 2 keep an append-only file, 3 and 4 nothing (`run.ts`). */
export const PERSISTENT = [0, 1, 2]
export const FORGETFUL = [3, 4]
