/**
 * Which nodes may vote: what a node must show when it is connected, and the epoch that says it remembers.
 *
 * A node is enrolled for one run of its process: the epoch names the `run_id` it was written for. A process that was
 * started again shows another `run_id`, whatever it persisted, and does not vote until it is enrolled again; a node that
 * was flushed has no epoch, and its scripts say so in every answer. Nodes of a brand-new cluster, where none of all N
 * has an epoch, are enrolled at once.
 *
 * Owns the inspection of one node and the first enrolment. It opens no connections and counts no votes.
 */

import type { Redis } from 'ioredis'
import { EPOCH_KEY } from './keys.ts'

/** What a node said of itself. */
export type NodeFacts = {
  readonly runId: string
  readonly role: string
  readonly evictionPolicy: string
  readonly version: string
  /** The epoch that stands on the node, or undefined where there is none. */
  readonly epoch: string | undefined
}

export type Fitness = { readonly kind: 'fit' } | { readonly kind: 'unfit'; readonly reason: string }

/** @throws Error where the node does not answer or does not allow INFO and GET. */
export async function inspectNode(client: Redis): Promise<NodeFacts> {
  const [info, epoch] = await Promise.all([client.info(), client.get(EPOCH_KEY)])
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? ''
  return {
    runId: field('run_id'),
    role: field('role'),
    evictionPolicy: field('maxmemory_policy'),
    version: field('redis_version'),
    epoch: epoch ?? undefined,
  }
}

/** Whether a node may be used at all. */
export function fitnessOf(facts: NodeFacts): Fitness {
  const unfit = (reason: string): Fitness => ({ kind: 'unfit', reason })
  if (facts.runId === '')
    return unfit('it does not show its run_id in INFO: allow the command, or use another server')
  if (facts.role !== 'master')
    return unfit(
      `its role is ${facts.role}, and a replica loses what was not copied yet: use an independent master`,
    )
  if (facts.evictionPolicy !== 'noeviction') {
    return unfit(
      `its maxmemory-policy is ${facts.evictionPolicy}, which silently forgets records: set noeviction`,
    )
  }
  return { kind: 'fit' }
}

/** The epoch of one run of a node's process. The nonce keeps two enrolments of the same run apart. */
export function epochFor(runId: string, nonce: string): string {
  return `1:${runId}:${nonce}`
}

/** Whether the epoch on the node was written for the process that runs there now. */
export function isEnrolled(facts: NodeFacts): boolean {
  return facts.epoch?.startsWith(`1:${facts.runId}:`) ?? false
}

/**
 * Writes the first epoch of a brand-new node; where another sidecar was faster, its epoch stands.
 * @returns the epoch that stands afterwards
 */
export async function enrolNewNode(client: Redis, facts: NodeFacts, nonce: string): Promise<string> {
  const epoch = epochFor(facts.runId, nonce)
  const written = await client.set(EPOCH_KEY, epoch, 'NX')
  if (written === 'OK') return epoch
  return (await client.get(EPOCH_KEY)) ?? epoch
}
