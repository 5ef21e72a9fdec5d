/** Shared by faults of nodes: settings that are changed and restored, counted errors, votes that come back. */

import type { Redis } from 'ioredis'
import { hasJoined } from '../../src/core/nodes/rejoin-rules.ts'
import { INCARNATION_KEY } from '../../src/redis/keys.ts'
import type { FaultContext } from './fault.ts'
import { ANSWER_WITHIN_MS, NODES, QUARANTINE_MS, type Stage } from './stage.ts'

/** To copy records to a node that syncs each write takes a while on a busy disk. */
const COPIED_WITHIN_MS = 120_000

/**
 * For one record on one node, where all nodes are copied one after another: each reads the record from three others, and the sidecar that copies
 * reads 5,000 a second for all nodes together, on two cores full of traffic a fifth of that.
 */
const COPIED_WITHIN_MS_A_RECORD = 15

/** How long nodes that were emptied or restarted may take until they vote: the longer the campaign, the more they have to copy. */
export async function joinedWithinMs({ admin }: Stage): Promise<number> {
  const records = await Promise.all(admin.map((node) => node.dbsize().catch(() => 0)))
  return QUARANTINE_MS + Math.max(COPIED_WITHIN_MS, COPIED_WITHIN_MS_A_RECORD * Math.max(...records))
}

/**
 * Every node votes again: joined, copied, and the clocks of sidecars content.
 *
 * It inspects the nodes themselves: a sidecar looks at them once a second, and right after a fault it may count a vote
 * that is over. The next fault would then take two more nodes from a cluster that has four.
 */
export async function allVote({ stage, demand }: FaultContext): Promise<void> {
  await demand('every node votes again after it rejoined', await joinedWithinMs(stage), async () => {
    const joined = await Promise.all(stage.admin.map(hasJoinedItself))
    if (!joined.every((one) => one)) return false
    const votes = await Promise.all(stage.sidecars.map((_, index) => stage.votingNodes(index)))
    return votes.every((count) => count === NODES)
  })
}

export async function hasJoinedItself(node: Redis): Promise<boolean> {
  const [about, incarnation] = await Promise.all([node.info('server'), node.get(INCARNATION_KEY)])
  return hasJoined({ runId: /run_id:(\w+)/.exec(about)?.[1] ?? '', incarnation: incarnation ?? undefined })
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

/** How often the nodes have answered with this error, by their own count. */
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

/** Refused with the true reason: no quorum, retry; not "in progress", and not executed. */
export async function refused({ stage, clients, fraction, freshKey }: FaultContext): Promise<boolean> {
  const sidecar = Math.floor(fraction() * stage.sidecarCount)
  const answer = await clients.submit({ sidecar, key: freshKey() })
  return answer.type === 'ok' && answer.status === 503
}

/** The nodes 0, 1 and 2 keep an append-only file, 3 and 4 do not (`run.ts`). */
export const PERSISTENT = [0, 1, 2]
export const FORGETFUL = [3, 4]

/** Each sidecar in turn answers recorded keys from the record. */
export async function stillKnown(
  context: FaultContext,
  keys: readonly string[],
  what: string,
): Promise<void> {
  const { stage, clients, demand, history } = context
  await Promise.all(
    keys.map((key, at) =>
      demand(`a recorded answer is there ${what}`, ANSWER_WITHIN_MS, async () => {
        const again = await clients.submit({ sidecar: at % stage.sidecarCount, key })
        return again.type === 'ok' && again.says === 'replayed'
      }),
    ),
  )
  history.saw(`a replay ${what}`, keys.length)
}
