/**
 * What a sidecar runs against nodes that are all new, or look new: it inspects each about once a second, keeps to the
 * cluster that it knows, objects to a second founding of that one, and founds a cluster where no sidecar objects.
 *
 * Owns the looks, and what production's `node-driver.ts` and `enroller.ts` do with them. When and how a cluster
 * is founded, and which one a process accepts, is production code. Only in some plans: in others the cluster is founded
 * before the history begins.
 */

import { SILENT } from '../../src/core/events.ts'
import { foundCluster } from '../../src/core/nodes/enrolment.ts'
import { isEnrolled, isQuarantined, type Membership } from '../../src/core/nodes/enrolment-rules.ts'
import { foundingWindowMs, type Proposal, proposedBy } from '../../src/core/nodes/founding.ts'
import { KnownCluster } from '../../src/core/nodes/known-cluster.ts'
import { pause } from '../../src/core/retry.ts'
import { CLUSTER, call, type EnrollerPorts, membershipOf, SimulatedEnrolmentNode } from './enroller.ts'
import type { Link } from './link.ts'
import type { SimulatedNode } from './node.ts'

const LOOK_EVERY_MS = 1_000
const CONNECT_TIMEOUT_MS = 500
const AGAIN_MS = 100

export type MembershipPorts = EnrollerPorts & {
  readonly links: readonly Link[]
  /** It waits for its vote as a node that forgot. */
  readonly onForgot: (node: SimulatedNode) => void
}

/** @returns the cluster that the process keeps to; undefined before any node has voted */
export function keepMembership(ports: MembershipPorts): () => string | undefined {
  const { process, nodes, links, dice, history } = ports
  const { clock } = process
  const known = new KnownCluster(SILENT, CLUSTER.quarantineMs)
  const seen: (Membership | undefined)[] = nodes.map(() => undefined)
  const wasVoting = nodes.map(() => false)
  let founding = false

  async function look(node: SimulatedNode): Promise<void> {
    const at = nodes.indexOf(node)
    const membership = () => call(node, node.runId, ports, () => membershipOf(node)).catch(() => undefined)
    let member = await membership()
    if (member !== undefined && !isEnrolled(member)) {
      await receive(node, member, at).catch(() => {})
      member = await membership()
    }
    const facts = member ?? { runId: '', epoch: undefined, cluster: undefined }
    if (member !== undefined) known.saw(node.name, member)
    const lives = seen.some(
      (one, other) => other !== at && one !== undefined && isEnrolled(one) && one.cluster?.id === known.id,
    )
    const refused = known.refusal(node.name, facts, lives) !== undefined
    if (refused) history.saw('cluster_refused')
    seen[at] = refused ? undefined : member
    const voting = member !== undefined && isEnrolled(member) && !refused
    links[node.index]?.useEpoch(voting ? member?.epoch : undefined)
    if (voting) {
      known.learn(facts)
      wasVoting[at] = true
    }
  }

  /** A node without a vote gets what this process knows better. */
  async function receive(node: SimulatedNode, member: Membership, at: number): Promise<void> {
    const clusterLives = seen.some((one) => one?.epoch !== undefined)
    const knew = known.id !== undefined || member.epoch !== undefined || member.cluster !== undefined
    const forgot = wasVoting[at] || knew || clusterLives || member.quarantine?.origin === 'forgot'
    if (isQuarantined(member) && (!forgot || member.quarantine.origin === 'forgot')) return
    if (forgot && member.quarantine?.origin === 'new') history.saw('founding_objected')
    const its = new SimulatedEnrolmentNode(node, member, ports)
    await its.begin(dice.hex(8), forgot ? 'forgot' : 'new')
    if (known.id !== undefined) await its.raise({ ...CLUSTER, id: known.id })
  }

  async function found(): Promise<void> {
    if (founding) return
    founding = true
    let proposal: Proposal | undefined
    for (;;) {
      const waiting = seen.map((one) => (one !== undefined && isQuarantined(one) ? one : undefined))
      proposal = proposedBy(waiting, proposal, clock.monoMs())
      if (proposal === undefined) break
      const remainingMs = proposal.sinceMonoMs + foundingWindowMs(CONNECT_TIMEOUT_MS) - clock.monoMs()
      if (remainingMs <= 0) {
        const { nonces } = proposal
        const proposed = waiting.flatMap((member, at) => {
          const node = nodes[at]
          if (node === undefined || member === undefined) return []
          return [{ node: new SimulatedEnrolmentNode(node, member, ports), nonce: nonces[at] ?? '' }]
        })
        const { quarantineMs } = CLUSTER
        await foundCluster(proposed, { quarantineMs }, dice)
      }
      await pause(
        clock,
        remainingMs > 0 ? Math.min(remainingMs, LOOK_EVERY_MS) : AGAIN_MS * (1 + dice.fraction()),
      )
      await Promise.all(nodes.map(look))
    }
    founding = false
  }

  async function lookOn(node: SimulatedNode): Promise<void> {
    await look(node)
    if (seen.some((one) => one !== undefined && isQuarantined(one) && one.quarantine.origin === 'new'))
      void found()
    const one = seen[nodes.indexOf(node)]
    if (one !== undefined && isQuarantined(one) && one.quarantine.origin === 'forgot') ports.onForgot(node)
    // A cluster that is whole again stays so.
    if (ports.healed() && seen.every((member) => member !== undefined && isEnrolled(member))) return
    clock.timer(LOOK_EVERY_MS * (0.75 + dice.fraction() / 2), () => void lookOn(node))
  }

  for (const node of nodes) void lookOn(node)
  return () => known.id
}
