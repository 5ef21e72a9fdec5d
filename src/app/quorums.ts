/**
 * Composes what a request needs of the nodes: rounds, leases, breaker and write-back of each quorum group, and one of each
 * over all groups. With one group there is nothing in between.
 */

import type { Config } from '../config/load.ts'
import { createLeases } from '../core/claims/leases.ts'
import type { Lines } from '../core/claims/line.ts'
import { createWriteBack } from '../core/claims/write-back.ts'
import { trailOverGroups } from '../core/coordination/group-trail.ts'
import type { Trail } from '../core/coordination/trail.ts'
import { type Events, SILENT } from '../core/events.ts'
import { routeLeases, routeLines } from '../core/nodes/groups.ts'
import { withQuorumBreaker } from '../core/nodes/quorum-breaker.ts'
import { sealedNode } from '../core/nodes/sealed-node.ts'
import type { Clock, Leases, Random, RecordNode } from '../core/ports.ts'
import { createEmbeddedNodes } from '../embedded/node.ts'
import { createRedlockQuorum } from '../quorum/redlock.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import type { OpenGroup, OpenNodes } from './cluster.ts'

export type QuorumPorts = {
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  readonly tracedNode: (node: RecordNode) => RecordNode
  /** A majority of one group. */
  readonly required: number
}

export type Quorums = Disposable & {
  readonly leases: Leases
  /** Of this process alone, for routes that chose `local`: what is completed here is written back. */
  readonly local: Leases
  writeBackPending(): number
  readonly lines: Lines
  readonly trail: Trail | undefined
  /** Of each group, telling nobody: for synthetic claims. */
  readonly probed: readonly Leases[]
  /** Of each group that outlives the process, for its office and its trail. */
  readonly offices: readonly {
    readonly redis: RedisNodes
    readonly trail: Trail
    readonly leases: Leases
  }[]
}

/** As much as waits to be written back, at most: what is carried out beyond it nobody else would ever be told of. */
const OWN_RECORD_BYTES_MAX = 64 * 1024 * 1024

export function openQuorums(config: Config, nodes: OpenNodes, ports: QuorumPorts): Quorums {
  const { clock, random, required } = ports
  const { placement, agreed } = nodes
  const [first, ...rest] = nodes.groups
  // The same protocol on one node inside this process: what routes that chose `local` fall back to.
  // It publishes nothing: its rounds must not count as rounds of the quorum.
  const ownNodes = createEmbeddedNodes(1, clock, config.tokenAheadMs, SILENT, OWN_RECORD_BYTES_MAX)
  const ownQuorum = createRedlockQuorum({ nodes: ownNodes, clock, events: SILENT })
  const own = createLeases({ quorum: ownQuorum, clock, random, events: SILENT })
  const open = (group: OpenGroup) => openQuorum(config, group, own, ports)
  const opened = [open(first), ...rest.map(open)]
  const trails = opened.flatMap(({ redis }) => (redis === undefined ? [] : [redis.trail]))
  const over = (groups: readonly Leases[]): Leases =>
    rest.length === 0 && groups[0] !== undefined
      ? groups[0]
      : routeLeases(groups, placement, { required, agreed })
  // A process's own record needs nobody's agreement.
  const locals = opened.map(({ writeBack }) => writeBack.local)
  return {
    leases: over(opened.map(({ guarded }) => guarded)),
    local: routeLeases(locals, placement, { required, agreed: () => true }),
    writeBackPending: () => opened.reduce((sum, { writeBack }) => sum + writeBack.pending(), 0),
    lines: routeLines([first.lines, ...rest.map(({ lines }) => lines)], placement),
    trail: trails.length === 0 ? undefined : trailOverGroups(trails, placement),
    probed: opened.map(({ probed }) => probed),
    offices: opened.flatMap(({ redis, guarded: leases }) =>
      redis === undefined ? [] : [{ redis: redis.nodes, trail: redis.trail, leases }],
    ),
    [Symbol.dispose]: () => {
      for (const { writeBack } of opened) writeBack[Symbol.dispose]()
    },
  }
}

function openQuorum(
  config: Config,
  { name, nodes, redis }: OpenGroup,
  own: Leases,
  { clock, random, events, tracedNode, required }: QuorumPorts,
) {
  const ring = config.keyRing?.ring
  const voters = ring === undefined ? nodes : nodes.map((node) => sealedNode(node, ring))
  const quorum = createRedlockQuorum({ nodes: voters.map(tracedNode), clock, events })
  const guarded = withQuorumBreaker(createLeases({ quorum, clock, random, events }), {
    ...(name === '' ? {} : { group: name }),
    required,
    clock,
    random,
    events,
  })
  return {
    redis,
    guarded,
    probed: createLeases({ quorum, clock, random, events: SILENT }),
    writeBack: createWriteBack(own, { leases: guarded, clock, random, events }),
  }
}
