/**
 * Which nodes a cluster consists of: all sidecars must name the same ones, and how that may change.
 *
 * Two majorities meet because they are taken from one list. Of {1,2,3} and {1,2,3,4,5} one may count 1 and 2 and the
 * other 3, 4 and 5: two sidecars configured like that would both hold the same claim. So the nodes keep the list,
 * and a sidecar with another list does not start.
 *
 * Where there are several quorum groups, the list of each names them all as well (its mark): two sidecars that choose
 * among different groups would keep one identity on two of them.
 */

import { type Trouble, troubleOf } from '../node-faults.ts'
import { majorityOf } from '../units.ts'

/** In the one order in which lists are written and compared. */
export function memberList(names: readonly string[]): readonly string[] {
  return [...names].sort()
}

export function sameMembers(one: readonly string[], other: readonly string[]): boolean {
  // Each look at a node asks, and nearly always both are in the one order.
  if (one.length === other.length && one.every((name, at) => name === other[at])) return true
  const others = memberList(other)
  return one.length === other.length && memberList(one).every((name, at) => name === others[at])
}

/** For the operator who must decide which of the two lists is wrong. */
export function membersDiffer(known: readonly string[], own: readonly string[]): Trouble {
  return troubleOf('other_members', memberList(known).join(', '), memberList(own).join(', '))
}

/**
 * Whether every majority of `to` finds what `from` remembers, once the new nodes have been enrolled.
 *
 * The new nodes adopt what a majority of `to` among those that stay remembers; so that many must stay, and every such
 * majority must hold a node of each majority of `from`.
 *
 * @returns why not; undefined where it is allowed
 */
export function whyNotChange(from: readonly string[], to: readonly string[]): string | undefined {
  const staying = from.filter((name) => to.includes(name)).length
  const needed = majorityOf(to.length)
  if (staying < needed)
    return `${staying} of the ${from.length} nodes stay, and the ${to.length - staying} that come are told what ${needed} of them remember: change fewer at once`
  const leaving = from.length - staying
  // So many of an old majority stay at least; a majority of the new list must not fit beside them.
  const holders = majorityOf(from.length) - leaving
  return staying - holders >= needed
    ? `what a majority of the ${from.length} knows may be known to ${Math.max(0, holders)} of the ${staying} that stay, which ${needed} of them may not include: take away fewer at once`
    : undefined
}

/** Among the names of a group's nodes: no node's name has a space. */
const MARK = /^group (\S+) of (\S+)$/

/** The list of a group's nodes, with its mark where there are several groups. */
export function groupList(
  names: readonly string[],
  group: string,
  groups: readonly string[],
): readonly string[] {
  // The only group needs no mark, and is then the same with or without a name.
  if (groups.length === 1 && groups[0] === group) return names
  return [...names, `group ${group} of ${memberList(groups).join('+')}`]
}

/** The nodes of a list, without its mark. */
export function nodesIn(list: readonly string[]): readonly string[] {
  return list.filter((name) => !MARK.test(name))
}

export type Mark = {
  readonly group: string
  /** Identities are placed among these. */
  readonly groups: readonly string[]
}

/** Which group a list is of, and among which others; undefined where its nodes are the only group. */
export function markIn(list: readonly string[]): Mark | undefined {
  for (const name of list) {
    const [, group, groups] = MARK.exec(name) ?? []
    if (group !== undefined && groups !== undefined) return { group, groups: groups.split('+') }
  }
  return undefined
}

/** Whether both are of one group among the same ones. */
export function sameMark(one: readonly string[], other: readonly string[]): boolean {
  return JSON.stringify(markIn(one)) === JSON.stringify(markIn(other))
}
