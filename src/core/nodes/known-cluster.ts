/**
 * The cluster that this process works with, for as long as it lives.
 *
 * Owns what makes a cluster another one. If all nodes were emptied and founded anew while this process was cut off,
 * they look as sound as before and have forgotten everything: a process that accepted them would grant again what it
 * acknowledged itself. So once nodes have voted, their cluster is the only one, and only a new process accepts another.
 * And how long its nodes' longest quarantine is: it only ever rises, so it is known also while no node can be asked.
 *
 * What one node says of its cluster takes no vote of another: two nodes have to say the same.
 */

import type { Events } from '../events.ts'
import { type Trouble, troubleOf } from '../node-faults.ts'
import { type Cluster, isEnrolled, LONGEST_QUARANTINE_MS, type Membership } from './enrolment-rules.ts'
import { ANY, Hearsay } from './hearsay.ts'
import type { Member } from './member.ts'
import { sameMembers } from './members.ts'

type Shown = Pick<Membership, 'runId' | 'epoch' | 'cluster'>

export class KnownCluster {
  readonly #events: Events
  readonly #ownQuarantineMs: number
  readonly #list: readonly string[] | undefined
  readonly #quarantines = new Hearsay()
  /** By node: the cluster in which it votes, as it says. */
  readonly #ids = new Map<string, string>()
  #id: string | undefined
  /** Two nodes have said so: no other counts from then on. */
  #isCertain = false
  /** The clusters found in its place; one more each time that the nodes are founded anew. */
  readonly #told = new Set<string>()

  /**
   * @param quarantineMs as this process needs it
   * @param list the names of the nodes; absent: other sidecars' lists are not checked
   */
  constructor(events: Events, quarantineMs: number, list?: readonly string[]) {
    this.#events = events
    this.#list = list
    this.#ownQuarantineMs = quarantineMs
  }

  /** Undefined before any node has voted. */
  get id(): string | undefined {
    return this.#id
  }

  /** The longest quarantine that this process or two nodes asked for: until every lease of any sidecar is over. */
  get quarantineMs(): number {
    const { value = 0 } = this.#quarantines.believed('', ANY, LONGEST_QUARANTINE_MS) ?? {}
    return Math.max(this.#ownQuarantineMs, value)
  }

  /** A node was looked at. @returns whether it is known only now which cluster this is */
  saw(node: string, { runId, epoch, cluster }: Shown): boolean {
    if (cluster !== undefined) this.#quarantines.heard(node, '', ANY, cluster.quarantineMs, 0)
    const isOther = this.#list !== undefined && !sameMembers(cluster?.members ?? this.#list, this.#list)
    // A node of another list says nothing of this cluster.
    if (cluster === undefined || isOther || !isEnrolled({ runId, epoch })) this.#ids.delete(node)
    else this.#ids.set(node, cluster.id)
    const agreed = this.#agreed()
    if (agreed === undefined || this.#isCertain) return false
    this.#isCertain = true
    this.#id = agreed
    return true
  }

  /** A node votes. */
  learn({ cluster }: Shown): void {
    this.#id ??= cluster?.id
  }

  /** The cluster of which most nodes say that they vote in it, and two at least. */
  #agreed(): string | undefined {
    const counts = new Map<string, number>()
    for (const id of this.#ids.values()) counts.set(id, (counts.get(id) ?? 0) + 1)
    const [most] = [...counts].sort(([, one], [, other]) => other - one)
    return most === undefined || most[1] < 2 ? undefined : most[0]
  }

  /** As nodes know it that vote, or else as any node does. */
  clusterOf(members: readonly Pick<Member, 'state'>[]): Cluster {
    const found = members.flatMap(({ state }) =>
      'facts' in state && state.facts.cluster !== undefined
        ? [{ voting: state.kind === 'voting', id: state.facts.cluster.id }]
        : [],
    )
    const idOnNodes = (found.find(({ voting }) => voting) ?? found[0])?.id ?? ''
    const named = this.#list === undefined ? {} : { members: this.#list }
    return { id: this.#id ?? idOnNodes, quarantineMs: this.quarantineMs, ...named }
  }

  /**
   * Why this process must not use a node of another cluster. Published once for each, if the known one is gone.
   *
   * @param clusterLives other nodes vote in the known one
   */
  refusal(node: string, { cluster }: Shown, clusterLives: boolean): Trouble | undefined {
    const [known, found] = [this.#id, cluster?.id]
    if (known === undefined || found === undefined || known === found) return undefined
    if (clusterLives) return troubleOf('other_cluster', found, known)
    if (!this.#told.has(found)) this.#events.publish({ kind: 'cluster_replaced', node, known, found })
    this.#told.add(found)
    return troubleOf('founded_anew', found, known)
  }
}
