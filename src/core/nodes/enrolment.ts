/**
 * Brings a node that forgot back among the voters, one step at a time, over any kind of node.
 *
 * Owns the acts: founding a brand-new cluster, and for one node in quarantine waiting, copying and enrolling.
 * `enrolment-rules.ts` decides the next one; `record-copying.ts` copies records. Several sidecars may do and repeat
 * every act at once: copying only raises, and what must happen once is conditional on the nonce on the node. An act
 * that fails rejects; its driver inspects the nodes again and goes on.
 */

import type { Random } from '../clock.ts'
import type { EnrolmentNode, Peer } from './enrolment-node.ts'
import {
  type Cluster,
  type CopyProgress,
  type EnrolmentStep,
  type EnrolmentView,
  nextEnrolmentStep,
} from './enrolment-rules.ts'
import { type CopyPorts, copyPages } from './record-copying.ts'

export type Turn =
  | Exclude<EnrolmentStep, { kind: 'copy' | 'finish' }>
  | { readonly kind: 'copied'; readonly progress: CopyProgress }
  | { readonly kind: 'enrolled' }
  /** The node forgot again meanwhile. */
  | { readonly kind: 'gone' }

export type EnrolmentPorts = CopyPorts & { readonly random: Random }

/**
 * One step for one node in quarantine.
 *
 * @param peers all other nodes that answer
 */
export async function takeEnrolmentTurn(
  target: EnrolmentNode,
  peers: readonly Peer[],
  view: Omit<EnrolmentView, 'voting' | 'others'>,
  cluster: Cluster,
  ports: EnrolmentPorts,
): Promise<Turn> {
  const { quarantine } = view
  const step = nextEnrolmentStep({ ...view, ...runIdsOf(peers) })
  switch (step.kind) {
    case 'wait':
    case 'blocked':
      return step
    case 'wait_anew':
      await target.restart(quarantine.nonce, ports.random.hex(16))
      return step
    case 'finish':
      return { kind: (await target.enrol(quarantine.nonce, cluster)) ? 'enrolled' : 'gone' }
    case 'copy': {
      const progress = await copyPages(target, peers, view, step, ports)
      return (await target.save(quarantine.nonce, progress)) ? { kind: 'copied', progress } : { kind: 'gone' }
    }
  }
}

/** The other nodes as the rules name them. */
export function runIdsOf(peers: readonly Peer[]): Pick<EnrolmentView, 'voting' | 'others'> {
  const of = (voting: boolean) => peers.filter((peer) => peer.voting === voting).map(({ runId }) => runId)
  return { voting: of(true), others: of(false) }
}

/**
 * Enrols all nodes of a brand-new cluster at once, where all of them answer and can be claimed: each with the nonce
 * that was proposed on it and has stood for the founding window. A founder that dies between its first epoch and its
 * last leaves a cluster that only a declared loss can restart.
 */
export async function foundCluster(
  proposed: readonly { readonly node: EnrolmentNode; readonly nonce: string }[],
  of: Omit<Cluster, 'id'>,
  random: Random,
): Promise<boolean> {
  const nonce = random.hex(16)
  const nodes = proposed.map(({ node }) => node)
  const claims = await Promise.allSettled(proposed.map((one) => one.node.claimFounding(nonce, one.nonce)))
  if (!claims.every((claim) => claim.status === 'fulfilled' && claim.value)) {
    await Promise.allSettled(nodes.map((node) => node.abandonFounding(nonce)))
    return false
  }
  const cluster: Cluster = { ...of, id: random.hex(8) }
  const founded = await Promise.allSettled(nodes.map((node) => node.found(nonce, cluster)))
  return founded.every((one) => one.status === 'fulfilled' && one.value)
}
