/**
 * Changes among which quorum groups identities are placed, when an operator decides so.
 *
 * Owns the order of the change: groups that leave are marked first, then those that stay, each on a majority of its
 * nodes and under another incarnation, so that a sidecar that places among the old groups has lost every vote before one that
 * places among the new ones gets any. A node that changed since it was inspected is left as it is. New groups are
 * empty, and the first such sidecar founds them.
 *
 * Records are not moved: an identity that another group keeps from now on is new there.
 */

import { sentenceOf } from '../core/node-faults.ts'
import { groupList, markIn, memberList, nodesIn, sameMembers, whyNewer } from '../core/nodes/fitness.ts'
import { hasJoined } from '../core/nodes/rejoin-rules.ts'
import { majorityOf } from '../core/units.ts'
import { knowsList, pollAll, writeList } from './change-members.ts'
import type { RedisNodes } from './nodes.ts'

export type GroupOfNodes = {
  readonly name: string
  readonly nodes: RedisNodes
  /** The common name of its nodes for all sidecars, without a mark. */
  readonly nodeNames: readonly string[]
}

export type GroupsChanged =
  | { readonly kind: 'changed'; readonly groups: readonly string[]; readonly on: readonly string[] }
  | { readonly kind: 'same'; readonly groups: readonly string[] }
  /** This configuration can't show or execute the change: it lacks groups or nodes, or has others. */
  | { readonly kind: 'refused'; readonly reason: string }
  | {
      readonly kind: 'too_few'
      readonly group: string
      readonly answering: number
      readonly required: number
      /** Groups that were changed before: the operator must repeat the command. */
      readonly changed: readonly string[]
    }
  | { readonly kind: 'not_confirmed'; readonly from: readonly string[]; readonly expected: string }

type Polled = Awaited<ReturnType<typeof poll>>

/**
 * @param groups all present and future ones
 * @param to the names of the future ones
 * @param confirmation the ids of the clusters that are changed
 * @param by the operator, for the audit log that stays on the nodes
 */
export async function changeGroups(
  groups: readonly GroupOfNodes[],
  to: readonly string[],
  confirmation: string | undefined,
  by: string,
): Promise<GroupsChanged> {
  const configured = groups.map(({ name }) => name)
  const stranger = to.find((name) => !configured.includes(name))
  if (to.length === 0 || stranger !== undefined)
    return refused(`there is no group ${stranger ?? ''} in this configuration, only ${configured.join(', ')}`)
  const polled = await Promise.all(groups.map((group) => poll(group, to)))
  const living = polled.filter(({ known, fresh }) => !fresh || known.length > 0)
  for (const group of living) {
    const wrong = whyNot(group, configured)
    if (wrong !== undefined) return refused(wrong)
  }
  const silent = living.find(({ known, required }) => known.length < required)
  if (silent !== undefined) return tooFew(silent, silent.known.length, [])
  const changing = living.filter(({ known, list }) => known.some((node) => !sameMembers(node.list, list)))
  if (changing.length === 0) return { kind: 'same', groups: to }
  const expected = changing.map(({ id }) => id).join('+')
  if (confirmation !== expected)
    return { kind: 'not_confirmed', from: memberList([...new Set(living.flatMap(placedAmong))]), expected }

  const leavingFirst = [...changing].sort((a, b) => Number(a.stays) - Number(b.stays))
  const on: string[] = []
  for (const group of leavingFirst) {
    const written = await writeList(group.known, group.list, by, group.options)
    if (written.length < group.required) return tooFew(group, written.length, on)
    on.push(group.name)
  }
  return { kind: 'changed', groups: to, on }
}

const refused = (reason: string): GroupsChanged => ({ kind: 'refused', reason })

function tooFew({ name, required }: Polled, answering: number, changed: readonly string[]): GroupsChanged {
  return { kind: 'too_few', group: name, answering, required, changed }
}

/** What the nodes of one group report, and what to write on them. */
async function poll({ name, nodes, nodeNames }: GroupOfNodes, to: readonly string[]) {
  const answers = await pollAll(nodes)
  const known = answers.filter(knowsList)
  return {
    name,
    stays: to.includes(name),
    /** No node has ever joined here. */
    fresh: answers.every(({ facts }) => facts !== undefined && !hasJoined(facts) && !facts.cluster),
    known,
    id: known[0]?.facts.cluster.id ?? '',
    nodeNames,
    list: memberList(groupList(nodeNames, name, to)),
    required: majorityOf(answers.length),
    options: nodes.options,
  }
}

/** The groups that a group's nodes name; where they name none, it is the only one. */
function placedAmong({ name, known }: Polled): readonly string[] {
  return known.flatMap(({ list }) => markIn(list)?.groups ?? [name])
}

function whyNot(group: Polled, configured: readonly string[]): string | undefined {
  const { name, known, nodeNames } = group
  for (const { node, facts } of known) {
    const newer = whyNewer(facts)
    if (newer !== undefined) return `${node}: ${sentenceOf(newer)}`
  }
  const others = known.find(({ list }) => !sameMembers(nodesIn(list), nodeNames))
  if (others !== undefined)
    return `the nodes of group ${name} are ${nodesIn(others.list).join(', ')}, and this configuration has ${memberList(nodeNames).join(', ')}: see \`fencepost nodes change-members\``
  const renamed = known.flatMap(({ list }) => markIn(list)?.group ?? []).find((other) => other !== name)
  if (renamed !== undefined)
    return `the group ${name} of this configuration is called ${renamed} on its nodes`
  const ids = new Set(known.map(({ facts }) => facts.cluster.id))
  if (ids.size > 1) return `the nodes of group ${name} belong to several clusters: ${[...ids].join(', ')}`
  const missing = placedAmong(group).find((other) => !configured.includes(other))
  if (missing !== undefined)
    return `identities are placed on the group ${missing} as well, which this configuration lacks: name all groups that there are and all that there are to be`
  return undefined
}
