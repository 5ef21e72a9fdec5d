/**
 * What a sidecar runs against nodes that are all new, or look new: the driver of production over simulated connections. It keeps to the
 * cluster that it knows, objects to a second founding of that one, and founds a cluster where no sidecar objects.
 *
 * Owns the wiring. Only in some plans: in others the cluster is founded before the history begins.
 */

import type { CoreEvent } from '../../src/core/events.ts'
import { memberOf } from '../../src/core/nodes/member.ts'
import { NodeDriver } from '../../src/core/nodes/node-driver.ts'
import { NO_EPOCH } from '../../src/core/nodes/node-link.ts'
import { CLOCK_STEP_MS, CLUSTER, type EnrollerPorts } from './enroller.ts'
import type { Link } from './link.ts'
import { SimulatedLink } from './simulated-link.ts'

const CONNECT_TIMEOUT_MS = 500

export type MembershipPorts = EnrollerPorts & { readonly links: readonly Link[] }

/** @returns the cluster that the process keeps to; undefined before any node has voted */
export function keepMembership(ports: MembershipPorts): () => string | undefined {
  const { process, nodes, links, dice, history, healed } = ports
  const members = nodes.map((node, index) => {
    const voter = {
      name: node.name,
      calls: 0,
      useEpoch: (epoch: string | undefined) => links[index]?.useEpoch(epoch === NO_EPOCH ? undefined : epoch),
      sawMemory: () => {},
    }
    return memberOf(voter, new SimulatedLink(node, ports), node.name)
  })
  const publish = (event: CoreEvent) => {
    if (event.kind === 'node_state' && event.to === 'unfit') history.saw('cluster_refused')
    if (event.kind === 'node_enrolled') history.saw('enrolled')
    // A cluster that is whole again stays so.
    const isWhole = members.every(({ state }) => state.kind === 'voting')
    if (healed() && isWhole) void driver[Symbol.asyncDispose]()
  }
  const driver: NodeDriver = new NodeDriver(members, {
    names: nodes.map(({ name }) => name),
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    quarantineMs: CLUSTER.quarantineMs,
    clockStepMs: CLOCK_STEP_MS,
    clock: process.clock,
    random: dice,
    events: { publish },
  })
  void driver.connect((index, sample, sentWallMs) => ports.counts(index, sample, sentWallMs))
  return () => {
    const { id } = driver.cluster()
    return members.some(({ wasVoting }) => wasVoting) ? id : undefined
  }
}
