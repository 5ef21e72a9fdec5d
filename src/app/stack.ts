/**
 * The stack: everything that a claim passes on its way to the nodes, as lists of layers, each list from the outside in.
 *
 *   request
 *     openStack     what serves several requests, and several groups
 *     leaseLayers   of one group, around the record protocol: claim, renew, complete, release, read (`core/claims/leases.ts`)
 *     rounds        one command to all nodes of the group, decided by a majority (redlock)
 *     nodeLayers    around the nodes of one group
 *     guardNodes    the same, before they are connected
 *   node            Redis, or embedded
 *
 * Beside it stands the fallback of routes with `local`: the same protocol on one node inside this process, behind the
 * write-back, which records in the quorum of each group, once it is back, what was completed here.
 */

import type { Config } from '../config/load.ts'
import type { Background } from '../core/background.ts'
import { withClaimDeadline } from '../core/claims/claim-deadline.ts'
import { createLeases } from '../core/claims/leases.ts'
import { shareLeases } from '../core/claims/shared-leases.ts'
import type { WaitQueues } from '../core/claims/wait-queue.ts'
import { createWriteBack } from '../core/claims/write-back.ts'
import type { Clock, Random } from '../core/clock.ts'
import { type AuditLog, auditLogOverGroups } from '../core/coordination/audit-log.ts'
import { type Events, SILENT } from '../core/events.ts'
import { type BelievedNodes, believedNodes } from '../core/nodes/believed-nodes.ts'
import { type Placement, routeLeases, routeWaitQueues } from '../core/nodes/groups.ts'
import { encryptedNode, type KeyRing } from '../core/nodes/key-ring.ts'
import { type WatchedNodes, watchNodeClocks } from '../core/nodes/node-clocks.ts'
import { quorumBreaker, withBreaker } from '../core/nodes/quorum-breaker.ts'
import { type NodeReply, sidecarMarkIn, sidecarMarkOf } from '../core/operator/record-view.ts'
import type { Leases, RecordNode } from '../core/ports.ts'
import type { Owner } from '../core/record/record.ts'
import { createEmbeddedNodes } from '../embedded/node.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import type { SidecarNames } from '../redis/sidecar-names.ts'
import { createRedlockQuorum } from '../redlock/rounds.ts'

type Outside = { readonly clock: Clock; readonly random: Random; readonly events: Events }

/** Undefined: outcomes are stored as they are. */
type Encryption = { readonly keyRing: (() => KeyRing) | undefined }

export type StackPorts = Outside &
  Encryption & {
    readonly tracedNode: (node: RecordNode) => RecordNode
    /** A majority of one group. */
    readonly required: number
    /** Its name, which the owners of its claims are marked with. */
    readonly instance: string
    /** Claims that outlive their callers. */
    readonly lateClaims: Background
  }

export type Stack = ReturnType<typeof openStack>

/** One whole quorum, under the stack. */
export type NodeGroup = {
  /** Empty for the only group. */
  readonly name: string
  /** Guarded ({@link guardNodes}). */
  readonly nodes: readonly RecordNode[]
  /** Order those who wait for a record. */
  readonly waitQueues: WaitQueues
  /** The connections, their audit log and the sidecars' names; undefined for embedded nodes. */
  readonly redis:
    | { readonly nodes: RedisNodes; readonly auditLog: AuditLog; readonly names: SidecarNames }
    | undefined
}

export type NodeGroups = {
  readonly groups: readonly [NodeGroup, ...NodeGroup[]]
  /** The group of a record. */
  readonly placement: Placement
  /** Whether every group once had a majority that names the same groups: once is enough while it votes. */
  agreed(): boolean
}

/** A layer gets what is inside of it, and gives what stands in its place. */
type Layer<T> = (inside: T) => T

function stacked<T>(layers: readonly Layer<T>[], innermost: T): T {
  return layers.reduceRight((inside, layer) => layer(inside), innermost)
}

/** Around the leases of one group. */
function leaseLayers(
  group: string,
  { required, lateClaims, ...outside }: StackPorts,
): readonly [Layer<Leases>, ...Layer<Leases>[]] {
  return [
    // Answers at once while its group has no majority. Inside the routing: a lost group refuses only its own records. Inside the shared
    // leases: remembered outcomes are answered without a quorum.
    quorumBreaker({ ...outside, ...(group === '' ? {} : { group }), required }),
    // Ends the wait for a claim with its budget, so that hung nodes delay no refusal.
    (leases) => withClaimDeadline(leases, { ...outside, required, lateClaims }),
  ]
}

type NodePorts = Pick<Outside, 'clock' | 'events'> & Encryption & Partial<Pick<StackPorts, 'tracedNode'>>

function nodeLayers({ tracedNode, keyRing, ...outside }: NodePorts): readonly Layer<BelievedNodes>[] {
  const each = (layer: Layer<RecordNode> | undefined): Layer<BelievedNodes>[] =>
    layer === undefined ? [] : [({ nodes, nowMs }) => ({ nodes: nodes.map(layer), nowMs })]
  return [
    // A span for each command, if configured. Outside the breaker, so that a command that it kept from a node shows as well.
    ...each(tracedNode),
    // No outcome counts past its end. Outside the encryption, which hides the end.
    ({ nodes }) => believedNodes(nodes, outside),
    // With a key ring, no node sees an outcome; layers further inside see only kind and time of a reply.
    ...each(keyRing && ((node) => encryptedNode(node, keyRing))),
  ]
}

/** The node breaker spares a node that does not reply. Inside of it the clock watch, next to the node, so that it times every reply. */
export function guardNodes(
  config: Pick<Config, 'clockMaxSkewMs' | 'clockEnforce' | 'clockStepMs'>,
  redis: RedisNodes,
  outside: Outside,
): WatchedNodes {
  const watched = watchNodeClocks({
    ...outside,
    nodes: redis.nodes,
    suspendMs: () => redis.cluster().quarantineMs,
    maxSkewMs: config.clockMaxSkewMs,
    enforce: config.clockEnforce,
    toleratedStepMs: config.clockStepMs,
    onForwardJump: (index, jump) => redis.invalidateIncarnation(index, jumpReason(jump.aheadMs), jump),
  })
  return { ...watched, nodes: watched.nodes.map((node) => withBreaker(node, outside)) }
}

/** The whole stack, on nodes that are guarded and connected. */
export function openStack(config: Config, nodes: NodeGroups, ports: StackPorts) {
  const { clock, events, required } = ports
  const { placement } = nodes
  const own = ownLeases(config, ports)
  const groups = nodes.groups.map((group) => groupStack(config, group, own, ports))
  const routed = (of: readonly Leases[], isAgreed: () => boolean) =>
    routeLeases(of, placement, { required, agreed: isAgreed })
  const guarded = groups.map((group) => group.guarded)
  const [only] = guarded
  const redis = groups.flatMap((group) => group.redis ?? [])
  const [first, ...rest] = nodes.groups
  const logs = redis.map(({ auditLog }) => auditLog)
  // To the group that keeps the record.
  const unshared = guarded.length === 1 && only !== undefined ? only : routed(guarded, () => nodes.agreed())
  const { tracedNode: _, ...untraced } = ports
  const readable = nodes.groups.map((group) => layeredNodes(group.nodes, untraced).nodes)
  return {
    /** The whole stack. One round serves several requests of this process for the same record; outcomes are remembered. */
    leases: shareLeases({
      leases: unshared,
      outcomeBytesMax: config.outcomeCacheBytes,
      clock,
      events,
    }),
    /** This process's own records, for routes with `local`. Such a record needs no agreement of groups. */
    local: routed(
      groups.map(({ writeBack }) => writeBack.local),
      () => true,
    ),
    writeBackPending: () => groups.reduce((sum, { writeBack }) => sum + writeBack.pending(), 0),
    waitQueues: routeWaitQueues([first.waitQueues, ...rest.map(({ waitQueues }) => waitQueues)], placement),
    auditLog: redis.length === 0 ? undefined : auditLogOverGroups(logs, placement),
    /** Each group behind its breaker, without events of its claims: for synthetic claims. */
    probed: groups.map(({ probed }) => probed),
    /** For an operator's look at one record, and decisions about it: without what this process remembers. */
    operated: {
      leases: unshared,
      /** What each node of the record's group shows of it. */
      inspect: (key: string): Promise<readonly NodeReply[]> =>
        Promise.all(
          (readable[placement(key)] ?? []).map(async (node) => ({
            node: node.name,
            answer: await node.execute({ kind: 'read', key }),
          })),
        ),
      /** The name of the sidecar that holds a record as this owner; undefined where the nodes don't know. */
      sidecarOf: async (key: string, owner: Owner) =>
        nodes.groups[placement(key)]?.redis?.names.nameOf(sidecarMarkIn(owner)),
    },
    /** The groups that outlive the process: for election, sweeping and the audit log. */
    coordinated: groups.flatMap(({ redis, guarded: leases }) =>
      redis === undefined
        ? []
        : [{ redis: redis.nodes, auditLog: redis.auditLog, names: redis.names, leases }],
    ),
    [Symbol.dispose]: () => {
      for (const { writeBack } of groups) writeBack[Symbol.dispose]()
    },
  }
}

/** For an operator's command, which sends one call and needs the nodes' current replies: no sharing, no breaker. */
export function operatorLeases(
  config: Config,
  nodes: readonly RecordNode[],
  outside: Outside & Encryption,
): Leases {
  return createLeases({ ...outside, ...roundsOver(config, nodes, outside) })
}

function groupStack(config: Config, { name, nodes, redis }: NodeGroup, own: Leases, ports: StackPorts) {
  const rounds = roundsOver(config, nodes, ports)
  const [breaker, ...further] = leaseLayers(name, ports)
  const leases = createLeases({ ...ports, ...rounds, ownerMark: sidecarMarkOf(ports.instance) })
  const guarded = stacked([breaker, ...further], leases)
  return {
    redis,
    guarded,
    probed: breaker(createLeases({ ...ports, ...rounds, events: SILENT })),
    writeBack: createWriteBack(own, { ...ports, leases: guarded }),
  }
}

function layeredNodes(nodes: readonly RecordNode[], ports: NodePorts): BelievedNodes {
  return stacked(nodeLayers(ports), { nodes, nowMs: () => ports.clock.wallMs() })
}

function roundsOver({ clockStepMs }: Config, given: readonly RecordNode[], ports: NodePorts) {
  const { nodes, nowMs: nodesMs } = layeredNodes(given, ports)
  const { clock, events } = ports
  return { quorum: createRedlockQuorum({ nodes, clock, events }), nodesMs, clockStepMs }
}

/** As much as the write-back holds, at most: no other sidecar would ever learn of an execution beyond it. */
const OWN_RECORD_BYTES_MAX = 64 * 1024 * 1024

/** Without events: its rounds must not count as rounds of the quorum. */
function ownLeases({ tokenAheadMs }: Config, { clock, random }: Outside): Leases {
  const nodes = createEmbeddedNodes(1, clock, tokenAheadMs, SILENT, OWN_RECORD_BYTES_MAX)
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  return createLeases({ quorum, clock, random, events: SILENT })
}

function jumpReason(aheadMs: number): string {
  return `its clock jumped ${(aheadMs / 1_000).toFixed(1)} s ahead of the others: what it was to remember may have expired`
}
