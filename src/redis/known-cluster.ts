/**
 * The cluster that this process works with, for as long as it lives.
 *
 * Owns what makes a cluster another one. If all nodes were emptied and founded anew while this process was cut off,
 * they look as sound as before and have forgotten everything: a process that accepted them would grant again what it
 * acknowledged itself. So once a node has voted, its cluster is the only one, and only a new process accepts another.
 * And how long its nodes' longest quarantine is: it only ever rises, so it is known also while no node can be asked.
 */

import type { Events } from '../core/events.ts'
import type { NodeFacts } from './inspection.ts'

export class KnownCluster {
  readonly #events: Events
  #id: string | undefined
  #quarantineMs: number
  /** The clusters found in its place; one more each time that the nodes are founded anew. */
  readonly #told = new Set<string>()

  /** @param quarantineMs as this process needs it */
  constructor(events: Events, quarantineMs: number) {
    this.#events = events
    this.#quarantineMs = quarantineMs
  }

  /** Undefined before any node has voted. */
  get id(): string | undefined {
    return this.#id
  }

  /** The longest quarantine that this process or a node asked for: until every lease of any sidecar is over. */
  get quarantineMs(): number {
    return this.#quarantineMs
  }

  /** A node of this cluster was looked at. */
  saw({ cluster }: NodeFacts): void {
    this.#quarantineMs = Math.max(this.#quarantineMs, cluster?.quarantineMs ?? 0)
  }

  /** A node votes. */
  learn({ cluster }: NodeFacts): void {
    this.#id ??= cluster?.id
  }

  /**
   * Why this process must not use a node of another cluster. Published once for each, if the known one is gone.
   *
   * @param clusterLives other nodes vote in the known one
   */
  refusal(node: string, { cluster }: NodeFacts, clusterLives: boolean): string | undefined {
    const [known, found] = [this.#id, cluster?.id]
    if (known === undefined || found === undefined || known === found) return undefined
    if (clusterLives)
      return `it belongs to the cluster ${found}, and the nodes that vote to ${known}: restart it empty`
    if (!this.#told.has(found)) this.#events.publish({ kind: 'cluster_replaced', node, known, found })
    this.#told.add(found)
    return `it belongs to the cluster ${found}, and this sidecar has worked with ${known}: founded anew beside it, the nodes have forgotten what they promised. Find out which cluster is the right one, then restart this sidecar (docs/operations/nodes.md, "Founded anew beside a running sidecar")`
  }
}
