/**
 * Composes the sidecar's nodes from the configuration, group by group.
 */

import type { Config } from '../config/load.ts'
import { createLeases } from '../core/claims/leases.ts'
import type { Clock, Random } from '../core/clock.ts'
import { reportingUntaken } from '../core/coordination/audit-log.ts'
import { type CoreEvent, type Events, SILENT } from '../core/events.ts'
import { troubleOf } from '../core/node-faults.ts'
import type { NodeStatus } from '../core/node-status.ts'
import { placementOf } from '../core/nodes/groups.ts'
import type { PollListener } from '../core/nodes/member.ts'
import { standstillOf, statusesOf } from '../core/nodes/shown-nodes.ts'
import type { RecordNode } from '../core/ports.ts'
import { majorityOf } from '../core/units.ts'
import { createEmbeddedNodes, createEmbeddedWaitQueues, type StoppableNode } from '../embedded/node.ts'
import { WARM_UP_KEY } from '../redis/keys.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import { createRedisWaitQueues } from '../redis/wait-queues.ts'
import { createRedlockQuorum } from '../redlock/rounds.ts'
import {
  auditLogOn,
  connectAll,
  hasMajority,
  type NamedNodes,
  type NodeSecrets,
  openRedisGroups,
  redisNodeNames,
  sidecarNamesOn,
  votersOf,
} from './redis-groups.ts'
import { guardNodes, type NodeGroup, type NodeGroups } from './stack.ts'

const EMBEDDED_NODES = 5

export type OpenNodes = AsyncDisposable &
  NodeGroups & {
    /** Nodes that must not be used, each with its reason. With any of them the sidecar must not start. */
    readonly refused: readonly string[]
    views(): readonly NodeStatus[]
    /** For each group that cannot recover by itself: why, and what to do. */
    standstills(): readonly string[]
    /** For each group: the id of the cluster that its nodes are, empty while none is known. Embedded nodes are one that nobody shares. */
    clusterIds(): readonly string[]
    /** Nodes of groups that stay closed where more of them are killed at once than a quorum survives, though all keep their data. */
    lossyNodes(): readonly string[]
    stopEmbedded(index: number): void
  }

/** The names that the nodes report, in their order, group by group. */
export function nodeNamesOf(config: NamedNodes): readonly (readonly string[])[] {
  return config.redisNodes.kind === 'embedded'
    ? [Array.from({ length: EMBEDDED_NODES }, (_, index) => `embedded-${index}`)]
    : redisNodeNames(config.redisNodes.groups, config)
}

export async function openNodes(
  config: Config,
  clock: Clock,
  random: Random,
  events: Events,
  secrets: NodeSecrets,
): Promise<OpenNodes> {
  if (config.redisNodes.kind === 'embedded') return embeddedNodes(config, { clock, random, events })
  const changes = watchChanges(events, clock)
  const ports = { clock, random, events: changes }
  const opened = openRedisGroups(config, config.redisNodes.groups, { ...ports, ...secrets })
  const groups = opened.map(({ name, nodes }) => votingGroup(config, name, nodes, ports))
  const [first, ...rest] = groups
  if (first === undefined) throw new RangeError('a configuration has at least one group of nodes')
  const refused = await connectAll(opened.map(({ nodes }, at) => ({ nodes, onPoll: groups[at]?.onPoll })))
  let agreed = groups.length === 1
  return {
    groups: [first, ...rest],
    placement: placementOf(opened.map(({ name }) => name)),
    agreed: () => {
      agreed ||= opened.every(({ nodes }) => hasMajority(nodes))
      return agreed
    },
    refused,
    views: () => groups.flatMap((group) => group.views()).map(changes.dated),
    standstills: () => opened.flatMap(({ nodes }) => standstillOf(nodes) ?? []),
    lossyNodes: () => opened.flatMap(({ nodes }) => lossyOf(nodes)),
    clusterIds: () => opened.map(({ nodes }) => nodes.cluster().id),
    stopEmbedded: () => {},
    [Symbol.asyncDispose]: async () => {
      await Promise.all(opened.map(({ nodes }) => nodes[Symbol.asyncDispose]()))
    },
  }
}

function embeddedNodes(config: Config, { clock, random, events }: Ports): OpenNodes {
  const ofItsOwn = random.hex(8)
  const nodes: readonly StoppableNode[] = createEmbeddedNodes(
    EMBEDDED_NODES,
    clock,
    config.tokenAheadMs,
    events,
  )
  return {
    groups: [{ name: '', nodes, waitQueues: createEmbeddedWaitQueues(clock), redis: undefined }],
    placement: placementOf(['']),
    agreed: () => true,
    refused: [],
    views: () =>
      nodes.map(({ name, stopped }) => ({ name, address: name, state: stopped ? 'down' : 'voting' })),
    standstills: () => [],
    lossyNodes: () => [],
    clusterIds: () => [`embedded-${ofItsOwn}`],
    stopEmbedded: (index) => nodes[index]?.stop(),
    [Symbol.asyncDispose]: async () => {},
  }
}

/** Dates the state of each node by the change that this sidecar saw; what it found at its start began before. */
function watchChanges(events: Events, clock: Clock) {
  const sinceWallMs = new Map<string, number | undefined>()
  return {
    publish: (event: CoreEvent) => {
      if (event.kind === 'node_state' && event.from !== event.to)
        sinceWallMs.set(event.node, sinceWallMs.has(event.node) ? clock.wallMs() : undefined)
      events.publish(event)
    },
    dated: (status: NodeStatus): NodeStatus =>
      status.state === 'suspended'
        ? { ...status, sinceWallMs: undefined }
        : { ...status, sinceWallMs: sinceWallMs.get(status.name) ?? status.sinceWallMs },
  }
}

type Ports = { readonly clock: Clock; readonly random: Random; readonly events: Events }

/** The guarded nodes of a group, and their views. */
function votingGroup(
  config: Config,
  name: string,
  redis: RedisNodes,
  { clock, random, events }: Ports,
): NodeGroup & { readonly onPoll: PollListener; views(): readonly NodeStatus[] } {
  const untaken = reportingUntaken(clock, events)
  const guarded = guardNodes(config, redis, { clock, random, events })
  return {
    name,
    nodes: guarded.nodes,
    waitQueues: createRedisWaitQueues({
      clients: () => votersOf(redis),
      nodeCount: redis.members.length,
      deadlineMs: config.nodeDeadlineMs,
      clock,
      untaken: () => untaken.lost('queue', 'requests that wait for a record are served in no order'),
    }),
    redis: { nodes: redis, auditLog: auditLogOn(redis, clock), names: sidecarNamesOn(redis, clock) },
    onPoll: guarded.saw,
    views: () =>
      statusesOf(redis).map((status, index) => {
        const suspension = status.state === 'voting' ? guarded.suspension(index) : undefined
        const clock = guarded.clockOf(index)
        const seen = clock === undefined ? status : { ...status, clock }
        return suspension === undefined ? seen : { ...seen, state: 'suspended', ...troubleOf(suspension) }
      }),
  }
}

function lossyOf(redis: RedisNodes): readonly string[] {
  const lossy = redis.states().filter(({ state }) => 'facts' in state && !state.facts.durable)
  const { length } = redis.members
  return lossy.length > length - majorityOf(length) ? lossy.map(({ name }) => name) : []
}

/** The first takes some ten times as long as the tenth; the ninety after that bring what requests bring by themselves. */
const CYCLES = 10

/** Beyond it the nodes are slow, and further waiting would only delay the start. */
const WARM_UP_MAX_MS = 300

/**
 * A few claims before the first request, so that it does not pay for compilation: the first rounds of a fresh process can take longer than
 * the budget of a claim. Nothing depends on their success: readiness reports a cluster that does not reply.
 */
export async function warmUp(nodes: readonly RecordNode[], clock: Clock, random: Random): Promise<void> {
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  const leases = createLeases({ quorum, clock, random, events: SILENT })
  const startedMonoMs = clock.monoMs()
  for (let cycle = 0; cycle < CYCLES && clock.monoMs() - startedMonoMs < WARM_UP_MAX_MS; cycle += 1) {
    const key = `${WARM_UP_KEY}${random.hex(8)}`
    const fingerprint = random.hex(32)
    const claimed = await leases.claim({
      key,
      fingerprint,
      leaseMs: 1_000,
      retentionMs: 1_000,
      budgetMs: 100,
    })
    if (claimed.kind !== 'granted') return
    await leases.renew(claimed.lease)
    await leases.complete(claimed.lease, {
      kind: 'tombstone',
      status: 200,
      completedAtWallMs: clock.wallMs(),
    })
  }
}
