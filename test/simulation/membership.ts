/**
 * What a sidecar runs against the nodes of one group: the driver of production over simulated connections. It keeps to the cluster that
 * it knows, brings nodes that forgot or restarted back to voting, and founds a cluster where no sidecar objects.
 *
 * Owns the wiring.
 */

import type { CoreEvent } from '../../src/core/events.ts'
import type { ForwardJump } from '../../src/core/nodes/clock-samples.ts'
import { memberOf, type PollListener } from '../../src/core/nodes/member.ts'
import { NodeDriver } from '../../src/core/nodes/node-driver.ts'
import { SIMULATED_ANSWER_MAX_AGE_MS, SIMULATED_HEARTBEAT_MS } from './drains.ts'
import type { Link } from './link.ts'
import type { SimulatedNode } from './node.ts'
import { CLOCK_STEP_MS, CLUSTER, type NodePorts } from './rejoining-node.ts'
import { SimulatedLink } from './simulated-link.ts'

const CONNECT_TIMEOUT_MS = 500
/** Of production. */
const HEARTBEAT_MS = 500

export type Membership = {
  /** The cluster that the process keeps to; undefined before any node has voted. */
  readonly knownCluster: () => string | undefined
  /** The node answers that its incarnation is outdated. */
  readonly forgot: (index: number) => void
  readonly jumped: (index: number, jump: ForwardJump) => void
}

export type MembershipPorts = NodePorts & {
  readonly nodes: readonly SimulatedNode[]
  readonly links: readonly Link[]
  /** Nodes restart with their data, in histories as short as these. */
  readonly drains: boolean
  /** Nothing happens to the nodes any more: a cluster that is whole stays so. */
  readonly settled: () => boolean
  readonly onPoll: PollListener
}

export function keepMembership(ports: MembershipPorts): Membership {
  const { process, nodes, links, dice, history, settled, drains, onPoll } = ports
  const heartbeatEveryMs = drains ? SIMULATED_HEARTBEAT_MS : HEARTBEAT_MS
  const members = nodes.flatMap((node, index) => {
    const voter = links[index]
    return voter === undefined
      ? []
      : [memberOf(voter, new SimulatedLink(node, { ...ports, heartbeatEveryMs }), node.name)]
  })
  const publish = (event: CoreEvent) => {
    if (event.kind === 'node_state' && event.to === 'unfit') history.saw('cluster_refused')
  }
  const driver: NodeDriver = new NodeDriver(members, {
    names: nodes.map(({ name }) => name),
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    quarantineMs: CLUSTER.quarantineMs,
    clockStepMs: CLOCK_STEP_MS,
    clock: process.clock,
    random: dice,
    events: { publish },
    heartbeatEveryMs,
    ...(drains
      ? { inspectEveryMs: SIMULATED_HEARTBEAT_MS, answerMaxAgeMs: SIMULATED_ANSWER_MAX_AGE_MS }
      : {}),
  })
  void driver.connect((...reading) => {
    const isWhole = members.every(({ state }) => state.kind === 'voting')
    if (isWhole && settled()) void driver[Symbol.asyncDispose]()
    return onPoll(...reading)
  })
  return {
    knownCluster: () => (members.some(({ wasVoting }) => wasVoting) ? driver.cluster().id : undefined),
    forgot: (index) => driver.forgot(index),
    jumped: (index, jump) => {
      driver.invalidateIncarnation(index, 'its clock jumped', jump)
      if (members[index]?.invalidated !== undefined) history.saw('leap_noticed')
    },
  }
}
