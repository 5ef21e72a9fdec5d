/**
 * Changes which nodes a cluster consists of, when an operator decides so.
 *
 * Owns the decision whether the new list is safe, and writing it onto every node of the old one. From then on these
 * nodes refuse sidecars with the old list; new nodes join like any that forgot. A node that was taken away and
 * comes again has an incarnation, and lacks what was recorded without it: it has to be seen empty before it is in the list.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import { sentenceOf } from '../core/node-faults.ts'
import {
  memberList,
  type NodeFacts,
  nodesIn,
  sameMark,
  sameMembers,
  whyNewer,
  whyNotChange,
} from '../core/nodes/fitness.ts'
import { type Cluster, joinedAtNodeMs } from '../core/nodes/rejoin-rules.ts'
import { majorityOf } from '../core/units.ts'
import { forCommand, inspectForCommand } from './inspection.ts'
import { CLUSTER_KEY } from './keys.ts'
import type { RedisNodes } from './nodes.ts'
import { callMembership } from './scripts.ts'

export type MembersChanged =
  | {
      readonly kind: 'changed'
      readonly from: readonly string[]
      readonly to: readonly string[]
      readonly on: readonly string[]
    }
  | { readonly kind: 'same'; readonly members: readonly string[] }
  /** No node that answers knows of a cluster with names: the first sidecar that starts writes its own list. */
  | { readonly kind: 'no_cluster' }
  /** Too few nodes of the old list answer: sidecars with that list could still find a majority. */
  | { readonly kind: 'too_few'; readonly answering: number; readonly required: number }
  | { readonly kind: 'unsafe'; readonly from: readonly string[]; readonly reason: string }
  /** Nodes that come and give no answer: they may remember the cluster of before. */
  | { readonly kind: 'silent'; readonly nodes: readonly string[] }
  /** Nodes that come, and were nodes of this cluster before. */
  | { readonly kind: 'not_empty'; readonly nodes: readonly string[] }
  /** Nodes that stay, and have forgotten: the others are too few of the new list to tell anything to a node. */
  | { readonly kind: 'forgot'; readonly nodes: readonly string[]; readonly required: number }
  /** The nodes belong to several clusters, or have several lists that are not this one. */
  | { readonly kind: 'several'; readonly what: string }
  | { readonly kind: 'not_confirmed'; readonly from: readonly string[]; readonly expected: string }
  /** Too few nodes took it, although they had answered: the operator must repeat the command. */
  | { readonly kind: 'unfinished'; readonly on: readonly string[]; readonly required: number }
  /** A later version has taken the cluster over. */
  | { readonly kind: 'newer'; readonly node: string; readonly reason: string }

/**
 * @param names of the nodes, in their order; what else stands in their list comes after them
 * @param confirmation the id of the cluster
 * @param by the operator, for the audit log that stays on the nodes
 */
export async function changeMembers(
  { members, options }: RedisNodes,
  names: readonly string[],
  confirmation: string | undefined,
  by: string,
): Promise<MembersChanged> {
  const to = memberList(names)
  const polled = (await pollAll({ members, options })).map((node, at) => ({
    ...node,
    name: names[at] ?? '',
  }))
  const known = await Promise.all(polled.filter(knowsList).map((node) => withTimes(node, options.clock)))
  const [one] = known
  if (one === undefined) return { kind: 'no_cluster' }
  for (const { node, facts } of known) {
    const newer = whyNewer(facts)
    if (newer !== undefined) return { kind: 'newer', node, reason: sentenceOf(newer) }
  }
  const ids = [...new Set(known.map(({ facts }) => facts.cluster.id))]
  if (ids.length > 1) return { kind: 'several', what: `clusters: ${ids.join(', ')}` }
  const unchanged = known.filter(({ list }) => !sameMembers(list, to))
  const lists = [...new Set(unchanged.map(({ list }) => list.join(', ')))]
  if (lists.length === 0) return { kind: 'same', members: to }
  if (lists.length > 1) return { kind: 'several', what: `lists: ${lists.join('; ')}` }
  const from = memberList((lists[0] ?? '').split(', '))
  const reason = sameMark(from, to)
    ? whyNotChange(nodesIn(from), nodesIn(to))
    : 'the groups are others, which `fencepost nodes change-groups` changes'
  if (reason !== undefined) return { kind: 'unsafe', from, reason }
  const required = majorityOf(nodesIn(from).length)
  const stays = ({ name }: { readonly name: string }) => from.includes(name)
  // Under another name, too: a server that was moved to another address.
  const old = known.filter((node) => stays(node) || unchanged.includes(node))
  if (old.length < required) return { kind: 'too_few', answering: old.length, required }
  const changed = known.filter((node) => stays(node) && !unchanged.includes(node))
  const silent = polled.filter((node) => !stays(node) && node.facts === undefined)
  const staying = polled.filter(stays)
  // An incarnation of an earlier run is memory, too: a node that was started again with its data is judged when it rejoins.
  const forgot = staying.filter(({ facts }) => facts !== undefined && facts.incarnation === undefined)
  const majority = majorityOf(nodesIn(to).length)
  // Where the change has begun, this was so then.
  if (changed.length === 0) {
    if (silent.length > 0) return { kind: 'silent', nodes: silent.map(({ node }) => node) }
    if (staying.length - forgot.length < majority)
      return { kind: 'forgot', nodes: forgot.map(({ node }) => node), required: majority }
  }
  const returned = known.filter((node) => !old.includes(node) && isOfBefore(node, changed, unchanged))
  if (returned.length > 0) return { kind: 'not_empty', nodes: returned.map(({ node }) => node) }
  const { id } = one.facts.cluster
  if (confirmation !== id) return { kind: 'not_confirmed', from, expected: id }
  const on = await writeList(old, to, by, options)
  return on.length < required ? { kind: 'unfinished', on, required } : { kind: 'changed', from, to, on }
}

type Polled = { readonly node: string; readonly client: Redis; readonly facts: NodeFacts | undefined }
/** It belongs to a cluster with names, which it tells. */
export type Knows = Polled & {
  readonly facts: NodeFacts & { readonly cluster: Cluster }
  readonly list: readonly string[]
}

export function pollAll({ members, options: { clock } }: Pick<RedisNodes, 'members' | 'options'>) {
  return Promise.all(
    members.map(async ({ node: { name: node }, client }) => {
      const facts = await inspectForCommand(client, clock)
      return { node, client, facts, list: facts?.cluster?.members }
    }),
  )
}

/** The same command moves the others to the new list later. */
export function knowsList<T extends Polled & { readonly list: readonly string[] | undefined }>(
  node: T,
): node is T & Knows {
  return node.list !== undefined
}

/**
 * Of two operators the second must not undo half of what the first one did, and a node that changed since it was inspected is left as it is.
 *
 * @returns the nodes on which the list stands now
 */
export async function writeList(
  known: readonly Knows[],
  list: readonly string[],
  by: string,
  { clock, random }: RedisNodes['options'],
): Promise<readonly string[]> {
  const nonce = random.hex(16)
  const written = await Promise.all(
    known.map(async ({ node, client, facts, list: before }) => {
      if (sameMembers(before, list)) return node
      const act = ['members', list.join(','), nonce, by, before.join(',')] as const
      const answer = await forCommand(clock, callMembership(client, facts.runId, act)).catch(() => 0)
      return answer === 1 ? node : []
    }),
  )
  return written.flat()
}

async function withTimes<T extends Knows>(node: T, clock: Clock): Promise<T & Times> {
  const { client, facts } = node
  const changed = await forCommand(clock, client.hget(CLUSTER_KEY, 'members_changed_at')).catch(() => null)
  const joinedMs = facts.incarnation === undefined ? undefined : (joinedAtNodeMs(facts.incarnation) ?? 0)
  return { ...node, joinedMs, changedMs: Number(changed ?? 0) }
}

/** `joinedMs`: also by an incarnation of an earlier run, from which a node that restarts may go on. `changedMs`: 0 where its list never was. */
type Times = { readonly joinedMs: number | undefined; readonly changedMs: number }

/** Whether a node that comes has what it knows from before it was taken away, and not since this very change has begun. */
function isOfBefore(
  { joinedMs, changedMs }: Times,
  changed: readonly Times[],
  unchanged: readonly Times[],
): boolean {
  if (joinedMs === undefined) return false
  const sinceMs = Math.max(joinedMs, changedMs)
  if (unchanged.some((other) => other.changedMs >= sinceMs)) return true
  // A server that was moved to another address was changed itself.
  return changedMs === 0 && !changed.some((other) => other.changedMs > 0 && other.changedMs < sinceMs)
}
