/**
 * Changes which nodes a cluster consists of, when an operator decides so.
 *
 * Owns the decision whether the new list is safe, and writing it onto every node of the old one. From then on these
 * nodes refuse sidecars with the old list; new nodes are enrolled like any that forgot.
 */

import { memberList, nodesIn, sameMark, sameMembers, whyNotChange } from '../core/nodes/members.ts'
import { whyNewer } from '../core/nodes/node-format.ts'
import { majorityOf } from '../core/units.ts'
import { forCommand, inspectForCommand } from './inspection.ts'
import { callMembership } from './membership.ts'
import type { RedisNodes } from './nodes.ts'

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
  /** The nodes belong to several clusters, or have several lists that are not this one. */
  | { readonly kind: 'several'; readonly what: string }
  | { readonly kind: 'not_confirmed'; readonly from: readonly string[]; readonly expected: string }
  /** Too few nodes took it, although they had answered: the operator must repeat the command. */
  | { readonly kind: 'unfinished'; readonly on: readonly string[]; readonly required: number }
  /** A later version has taken the cluster over. */
  | { readonly kind: 'newer'; readonly node: string; readonly reason: string }

/**
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
  const looked = await Promise.all(
    members.map(async ({ node, client }) => {
      // The same command moves a silent node to the new list later.
      const facts = await inspectForCommand(client, options.clock)
      const known = facts?.cluster?.members
      if (facts?.cluster === undefined || known === undefined) return []
      const { runId, cluster } = facts
      return [{ name: node.name, client, runId, id: cluster.id, known, newer: whyNewer(facts) }]
    }),
  ).then((all) => all.flat())
  const [one] = looked
  if (one === undefined) return { kind: 'no_cluster' }
  for (const { name, newer } of looked)
    if (newer !== undefined) return { kind: 'newer', node: name, reason: newer }
  const ids = [...new Set(looked.map(({ id }) => id))]
  if (ids.length > 1) return { kind: 'several', what: `clusters: ${ids.join(', ')}` }
  const lists = [
    ...new Set(looked.filter(({ known }) => !sameMembers(known, to)).map(({ known }) => known.join(', '))),
  ]
  if (lists.length === 0) return { kind: 'same', members: to }
  if (lists.length > 1) return { kind: 'several', what: `lists: ${lists.join('; ')}` }
  const from = memberList((lists[0] ?? '').split(', '))
  const reason = sameMark(from, to)
    ? whyNotChange(nodesIn(from), nodesIn(to))
    : 'the groups are others, which `fencepost nodes change-groups` changes'
  if (reason !== undefined) return { kind: 'unsafe', from, reason }
  const required = majorityOf(nodesIn(from).length)
  if (looked.length < required) return { kind: 'too_few', answering: looked.length, required }
  if (confirmation !== one.id) return { kind: 'not_confirmed', from, expected: one.id }
  const nonce = options.random.hex(16)
  const written = await Promise.allSettled(
    looked.map(({ client, runId }) =>
      forCommand(options.clock, callMembership(client, runId, ['members', to.join(','), nonce, by])),
    ),
  )
  const on = looked.flatMap(({ name }, at) => (written[at]?.status === 'fulfilled' ? [name] : []))
  return on.length < required ? { kind: 'unfinished', on, required } : { kind: 'changed', from, to, on }
}
