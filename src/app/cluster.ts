/**
 * Composes the nodes from the configuration, group by group, as the sidecar uses them.
 */

import type { Config } from '../config/load.ts'
import type { Lines } from '../core/claims/line.ts'
import type { Trail } from '../core/coordination/trail.ts'
import type { Events } from '../core/events.ts'
import { nodeName, type Placement, placementOf } from '../core/nodes/groups.ts'
import { withBreaker } from '../core/nodes/node-breaker.ts'
import { watchNodeClocks } from '../core/nodes/node-clocks.ts'
import { shareOfMemory } from '../core/nodes/node-memory.ts'
import type { Clock, Random, RecordNode } from '../core/ports.ts'
import { createEmbeddedLines } from '../embedded/lines.ts'
import { createEmbeddedNodes, type StoppableNode } from '../embedded/node.ts'
import type { NodeView } from '../http/admin/server.ts'
import { createRedisLines } from '../redis/lines.ts'
import { standstillOf } from '../redis/loss.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import { connectAll, hasMajority, openRedisGroups, trailOn, votersOf } from './redis-groups.ts'

const EMBEDDED_NODES = 5

/** One whole quorum. */
export type OpenGroup = {
  /** Empty where it is the only one. */
  readonly name: string
  readonly nodes: readonly RecordNode[]
  /** Where those who wait for a record stand. */
  readonly lines: Lines
  /** The connections and the trail behind them; undefined where the nodes are embedded. */
  readonly redis: { readonly nodes: RedisNodes; readonly trail: Trail } | undefined
}

export type OpenNodes = AsyncDisposable & {
  readonly groups: readonly [OpenGroup, ...OpenGroup[]]
  /** Which of them keeps a record. */
  readonly placement: Placement
  /** Whether every group was seen to have a majority that names the same groups: once is enough, as long as it votes. */
  agreed(): boolean
  /** Nodes that must not be used, each with its reason. Where there is one, the sidecar must not start. */
  readonly refused: readonly string[]
  views(): readonly NodeView[]
  /** Of each group that does not come back by itself: why, and what to do. */
  standstills(): readonly string[]
  stopEmbedded(index: number): void
}

/** As the nodes call themselves, in their order, group by group. */
export function nodeNamesOf({ redisNodes }: Pick<Config, 'redisNodes'>): readonly (readonly string[])[] {
  if (redisNodes.kind === 'embedded')
    return [Array.from({ length: EMBEDDED_NODES }, (_, index) => `embedded-${index}`)]
  const { groups } = redisNodes
  return groups.map(({ name, nodes }) => nodes.map((_, at) => nodeName(at, groups.length > 1 ? name : '')))
}

export async function openNodes(
  config: Config,
  clock: Clock,
  random: Random,
  events: Events,
): Promise<OpenNodes> {
  if (config.redisNodes.kind === 'embedded') return embeddedNodes(config, clock, events)
  const opened = openRedisGroups(config, config.redisNodes.groups, { clock, random, events })
  const groups = opened.map(({ name, nodes }) => votingGroup(config, name, nodes, { clock, random, events }))
  const [first, ...rest] = groups
  if (first === undefined) throw new RangeError('a configuration has at least one group of nodes')
  const refused = await connectAll(opened)
  let agreed = groups.length === 1
  return {
    groups: [first, ...rest],
    placement: placementOf(opened.map(({ name }) => name)),
    agreed: () => {
      agreed ||= opened.every(({ nodes }) => hasMajority(nodes))
      return agreed
    },
    refused,
    views: () => groups.flatMap((group) => group.views()),
    standstills: () => opened.flatMap(({ nodes }) => standstillOf(nodes) ?? []),
    stopEmbedded: () => {},
    [Symbol.asyncDispose]: async () => {
      await Promise.all(opened.map(({ nodes }) => nodes[Symbol.asyncDispose]()))
    },
  }
}

function embeddedNodes(config: Config, clock: Clock, events: Events): OpenNodes {
  const nodes: readonly StoppableNode[] = createEmbeddedNodes(
    EMBEDDED_NODES,
    clock,
    config.tokenAheadMs,
    events,
  )
  return {
    groups: [{ name: '', nodes, lines: createEmbeddedLines(clock), redis: undefined }],
    placement: placementOf(['']),
    agreed: () => true,
    refused: [],
    views: () => nodes.map(({ name, stopped }) => ({ name, state: stopped ? 'down' : 'voting' })),
    standstills: () => [],
    stopEmbedded: (index) => nodes[index]?.stop(),
    [Symbol.asyncDispose]: async () => {},
  }
}

type Ports = { readonly clock: Clock; readonly random: Random; readonly events: Events }

/** The nodes of a group with what takes their votes away, and spares them, around each. */
function votingGroup(
  config: Config,
  name: string,
  redis: RedisNodes,
  { clock, random, events }: Ports,
): OpenGroup & { views(): readonly NodeView[] } {
  const watched = watchNodeClocks({
    nodes: redis.nodes,
    clock,
    events,
    suspendMs: config.quarantineMs,
    maxSkewMs: config.clockMaxSkewMs,
    enforce: config.clockEnforce,
    toleratedStepMs: config.clockStepMs,
    onLeap: (index, leap) => redis.distrust(index, leaptReason(leap.aheadMs), leap),
  })
  redis.onLook = watched.saw
  return {
    name,
    nodes: watched.nodes.map((node) => withBreaker(node, { clock, random, events })),
    lines: createRedisLines({
      clients: () => votersOf(redis),
      nodeCount: redis.members.length,
      deadlineMs: config.nodeDeadlineMs,
      clock,
    }),
    redis: { nodes: redis, trail: trailOn(redis, clock) },
    views: () =>
      redis.states().map(({ name: node, state }, index) => {
        const of = name === '' ? {} : { group: name }
        const started = 'facts' in state ? { startedWallMs: state.facts.startedNodeMs } : {}
        const share = 'facts' in state ? shareOfMemory(state.facts.memory) : undefined
        const known = { ...started, ...(share === undefined ? {} : { memoryShare: share }) }
        if (state.kind === 'voting' && clock.monoMs() < watched.suspendedUntilMonoMs(index))
          return {
            ...of,
            name: node,
            state: 'suspended',
            reason: 'its clock was stepped, or is not that of the others',
            ...known,
          }
        return 'reason' in state
          ? { ...of, name: node, state: state.kind, reason: state.reason, ...known }
          : { ...of, name: node, state: state.kind, ...known }
      }),
  }
}

function leaptReason(aheadMs: number): string {
  return `its clock leapt ${(aheadMs / 1_000).toFixed(1)} s ahead of the others: what it was to remember may have expired`
}
