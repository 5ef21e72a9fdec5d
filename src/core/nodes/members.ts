/**
 * Which nodes a cluster consists of: all sidecars must name the same ones, and how that may change.
 *
 * Two majorities meet because they are taken from one list. Of {1,2,3} and {1,2,3,4,5} one may count 1 and 2 and the other
 * 3, 4 and 5: two sidecars that were configured like that would both hold the same claim. So the list stands on the nodes,
 * and whoever has another one does not start.
 */

import { majorityOf } from '../units.ts'

/** In the one order in which lists are written and compared. */
export function memberList(names: readonly string[]): readonly string[] {
  return [...names].sort()
}

export function sameMembers(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && memberList(one).every((name, at) => name === memberList(other)[at])
}

/** For whoever is to choose which of the two lists is wrong. */
export function membersDiffer(known: readonly string[], own: readonly string[]): string {
  return (
    `the nodes of its cluster are ${memberList(known).join(', ')}, and this configuration has ${memberList(own).join(', ')}: ` +
    'majorities of two lists need not meet. Give every sidecar the same FENCEPOST_REDIS_NODES (or the same FENCEPOST_REDIS_NODE_NAMES, ' +
    'where addresses differ and the servers do not), or change the list with `fencepost nodes change-members`'
  )
}

/**
 * Whether what `from` remembers is found again by every majority of `to`, once the nodes that came have been enrolled.
 *
 * Those that came are told what a majority of `to` among those that stay remembers; so that many must stay, and every such
 * majority must hold a node of each majority of `from`.
 *
 * @returns why not; undefined where it may be
 */
export function whyNotChange(from: readonly string[], to: readonly string[]): string | undefined {
  const staying = from.filter((name) => to.includes(name)).length
  const needed = majorityOf(to.length)
  if (staying < needed)
    return `${staying} of the ${from.length} nodes stay, and the ${to.length - staying} that come are told what ${needed} of them remember: change fewer at once`
  const leaving = from.length - staying
  // Of a majority of the old list so many stay at least; a majority of the new one must not fit beside them.
  const holders = majorityOf(from.length) - leaving
  return staying - holders >= needed
    ? `what a majority of the ${from.length} knows may be known to ${Math.max(0, holders)} of the ${staying} that stay, which ${needed} of them may not include: take away fewer at once`
    : undefined
}
