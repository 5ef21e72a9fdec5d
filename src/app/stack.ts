/**
 * The stack: everything that a claim passes on its way to the nodes, listed once. Outermost first:
 *
 *   request
 *     shared leases     one process asks the nodes once for what several of its requests want, and remembers outcomes
 *     group routing     of several quorum groups the one that keeps the record; with one group there is nothing in between
 *     quorum breaker    answers at once while its group has no majority. Inside the routing: a lost group refuses its own
 *                       records only. Inside the shared leases: what is known here is answered without a quorum, too
 *     leases            the record protocol: claim, renew, complete, release, read
 *     rounds            one command to all nodes of the group, decided by a majority (redlock)
 *     tracing           a span for each command, where that is asked for; outside the breaker, so that what it kept from a
 *                       node shows as well
 *     encryption        where there is a key ring, no node is shown an outcome; whatever looks at replies further inside
 *                       looks at their kind and time only
 *     node breaker      spares a node that does not answer. Outside the clock watch: what was not sent says nothing of a clock
 *     clock watch       next to the node, so that it times every reply; takes away the votes of a node whose clock jumped
 *   node                Redis, or embedded
 *
 * Beside it stands what routes fall back to that chose `local`: the same protocol on one node inside this process, behind the
 * write-back, which tells the quorum of each group what was completed here once it is back.
 */

import type { Config } from '../config/load.ts'
import { createLeases } from '../core/claims/leases.ts'
import { type SharedLeases, shareLeases } from '../core/claims/shared-leases.ts'
import type { WaitQueues } from '../core/claims/wait-queue.ts'
import { createWriteBack, type WriteBack } from '../core/claims/write-back.ts'
import type { Clock, Random } from '../core/clock.ts'
import type { AuditLog } from '../core/coordination/audit-log.ts'
import { auditLogOverGroups } from '../core/coordination/group-audit-log.ts'
import { type Events, SILENT } from '../core/events.ts'
import { encryptedNode } from '../core/nodes/encrypted-node.ts'
import { type Placement, routeLeases, routeWaitQueues } from '../core/nodes/groups.ts'
import { withBreaker } from '../core/nodes/node-breaker.ts'
import { type WatchedNodes, watchNodeClocks } from '../core/nodes/node-clocks.ts'
import { withQuorumBreaker } from '../core/nodes/quorum-breaker.ts'
import type { Leases, Quorum, RecordNode } from '../core/ports.ts'
import { createEmbeddedNodes } from '../embedded/node.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import { createRedlockQuorum } from '../redlock/rounds.ts'
import type { CoordinatedGroup } from './coordination.ts'

type Outside = { readonly clock: Clock; readonly random: Random; readonly events: Events }

export type StackPorts = Outside & {
  readonly tracedNode: (node: RecordNode) => RecordNode
  /** A majority of one group. */
  readonly required: number
}

export type Stack = Disposable & {
  /** All of it. */
  readonly leases: SharedLeases
  /** Of this process alone, for routes that chose `local`: what is completed here is written back. */
  readonly local: Leases
  writeBackPending(): number
  readonly waitQueues: WaitQueues
  readonly auditLog: AuditLog | undefined
  /** Of each group without its breaker, telling nobody: for synthetic claims. */
  readonly probed: readonly Leases[]
  /** The groups that outlive the process: what is elected, swept and written down there. */
  readonly coordinated: readonly CoordinatedGroup[]
}

/** One whole quorum, as the stack stands on it. */
export type NodeGroup = {
  /** Empty where it is the only one. */
  readonly name: string
  /** Guarded ({@link guardNodes}). */
  readonly nodes: readonly RecordNode[]
  /** Where those who wait for a record stand. */
  readonly waitQueues: WaitQueues
  /** The connections and the audit log behind them; undefined where the nodes are embedded. */
  readonly redis: { readonly nodes: RedisNodes; readonly auditLog: AuditLog } | undefined
}

export type NodeGroups = {
  readonly groups: readonly [NodeGroup, ...NodeGroup[]]
  /** Which of them keeps a record. */
  readonly placement: Placement
  /** Whether every group was seen to have a majority that names the same groups: once is enough, as long as it votes. */
  agreed(): boolean
}

/** Clock watch and node breaker: around the nodes of a group before they are dialled. */
export function guardNodes(config: Config, redis: RedisNodes, outside: Outside): WatchedNodes {
  const watched = watchNodeClocks({
    ...outside,
    nodes: redis.nodes,
    suspendMs: config.quarantineMs,
    maxSkewMs: config.clockMaxSkewMs,
    enforce: config.clockEnforce,
    toleratedStepMs: config.clockStepMs,
    onForwardJump: (index, jump) => redis.invalidateEpoch(index, jumpReason(jump.aheadMs), jump),
  })
  return { ...watched, nodes: watched.nodes.map((node) => withBreaker(node, outside)) }
}

/** Everything above, on nodes that are guarded and connected. */
export function openStack(config: Config, nodes: NodeGroups, ports: StackPorts): Stack {
  const { clock, events, required } = ports
  const { placement } = nodes
  const [first, ...rest] = nodes.groups
  const own = ownLeases(config, ports)
  const groups = [first, ...rest].map((group) => groupStack(config, group, own, ports))
  const routed = (of: readonly Leases[], isAgreed: () => boolean) =>
    routeLeases(of, placement, { required, agreed: isAgreed })
  const guarded = groups.map((group) => group.guarded)
  const [only] = guarded
  const redis = groups.flatMap((group) => group.redis ?? [])
  return {
    leases: shareLeases({
      leases: rest.length === 0 && only !== undefined ? only : routed(guarded, () => nodes.agreed()),
      outcomeBytesMax: config.outcomeCacheBytes,
      clock,
      events,
    }),
    // A process's own record needs nobody's agreement.
    local: routed(
      groups.map(({ writeBack }) => writeBack.local),
      () => true,
    ),
    writeBackPending: () => groups.reduce((sum, { writeBack }) => sum + writeBack.pending(), 0),
    waitQueues: routeWaitQueues([first.waitQueues, ...rest.map(({ waitQueues }) => waitQueues)], placement),
    auditLog:
      redis.length === 0
        ? undefined
        : auditLogOverGroups(
            redis.map(({ auditLog }) => auditLog),
            placement,
          ),
    probed: groups.map(({ probed }) => probed),
    coordinated: groups.flatMap(({ redis, guarded: leases }) =>
      redis === undefined ? [] : [{ redis: redis.nodes, auditLog: redis.auditLog, leases }],
    ),
    [Symbol.dispose]: () => {
      for (const { writeBack } of groups) writeBack[Symbol.dispose]()
    },
  }
}

/** What a command of an operator asks through: it is alone, asks once, and wants to hear what the nodes say now. */
export function operatorLeases(config: Config, nodes: readonly RecordNode[], outside: Outside): Leases {
  return createLeases({ ...outside, quorum: roundsOver(config, nodes, outside) })
}

type GroupStack = Pick<NodeGroup, 'redis'> & {
  readonly guarded: Leases
  readonly probed: Leases
  readonly writeBack: WriteBack
}

function groupStack(
  config: Config,
  { name, nodes, redis }: NodeGroup,
  own: Leases,
  { tracedNode, required, ...outside }: StackPorts,
): GroupStack {
  const quorum = roundsOver(config, nodes, outside, tracedNode)
  const guarded = withQuorumBreaker(createLeases({ ...outside, quorum }), {
    ...outside,
    ...(name === '' ? {} : { group: name }),
    required,
  })
  return {
    redis,
    guarded,
    probed: createLeases({ ...outside, quorum, events: SILENT }),
    writeBack: createWriteBack(own, { ...outside, leases: guarded }),
  }
}

/** Rounds, over tracing, over encryption. */
function roundsOver(
  config: Config,
  nodes: readonly RecordNode[],
  { clock, events }: Outside,
  tracedNode = (node: RecordNode) => node,
): Quorum {
  const ring = config.keyRing?.ring
  const encrypted = ring === undefined ? nodes : nodes.map((node) => encryptedNode(node, ring))
  return createRedlockQuorum({ nodes: encrypted.map(tracedNode), clock, events })
}

/** As much as waits to be written back, at most: what is executed beyond it nobody else would ever be told of. */
const OWN_RECORD_BYTES_MAX = 64 * 1024 * 1024

/** It publishes nothing: its rounds must not count as rounds of the quorum. */
function ownLeases({ tokenAheadMs }: Config, { clock, random }: Outside): Leases {
  const nodes = createEmbeddedNodes(1, clock, tokenAheadMs, SILENT, OWN_RECORD_BYTES_MAX)
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  return createLeases({ quorum, clock, random, events: SILENT })
}

function jumpReason(aheadMs: number): string {
  return `its clock jumped ${(aheadMs / 1_000).toFixed(1)} s ahead of the others: what it was to remember may have expired`
}
