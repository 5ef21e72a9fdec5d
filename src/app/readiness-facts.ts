/**
 * The facts that readiness is judged by, counted from the nodes: the votes of each quorum group, and whether clocks
 * keep claims from being granted.
 */

import type { ReadinessFacts } from '../core/health/readiness.ts'
import { takesWrites } from '../core/health/takes-writes.ts'
import type { NodeView } from '../http/admin/server.ts'

export type NodesSeen = {
  readonly phase: ReadinessFacts['phase']
  readonly nodes: readonly NodeView[]
  /** Every quorum group confirmed the configured groups. */
  readonly agreed: boolean
  /** For each group whose votes do not come back by themselves: why, and what to do. */
  readonly standstills: readonly string[]
}

export type QuorumSize = {
  /** Of one group. */
  readonly nodeCount: number
  readonly required: number
}

/** What events told. */
export type QuorumHeard = {
  /** Names of the nodes whose clocks are off by more than tolerated; undefined if that refuses no claim. */
  readonly skewed: ReadonlySet<string> | undefined
  /** Groups whose claims end without a majority, whatever their nodes are. */
  readonly unanswered: ReadonlySet<string>
}

export function readinessFacts(
  { phase, nodes, agreed, standstills }: NodesSeen,
  { skewed, unanswered }: QuorumHeard,
  { nodeCount, required }: QuorumSize,
): ReadinessFacts {
  const groups = groupsOf(nodes, skewed)
  const voting = Math.max(...groups.map((group) => group.voting))
  const writable = Math.max(...groups.map((group) => group.writable))
  const lost = groups.filter(({ name, writable: able }) => able < required || unanswered.has(name))
  const clockRefusal = refusalFor(groups, voting, skewed !== undefined, { nodeCount, required })
  return {
    phase,
    voting,
    writable,
    nodeCount,
    required,
    ...(groups.length === 1 ? {} : { groupsLost: lost.map(({ name }) => name) }),
    ...(writable >= required && lost.length === groups.length ? { unanswered: true } : {}),
    ...(agreed ? {} : { notAgreed: true }),
    standstills,
    ...(clockRefusal === undefined ? {} : { clockRefusal }),
  }
}

type Group = {
  readonly name: string
  readonly voting: number
  readonly writable: number
  readonly suspended: number
  readonly skewed: number
}

function groupsOf(nodes: readonly NodeView[], skewed: ReadonlySet<string> | undefined): readonly Group[] {
  const byName = Object.entries(Object.groupBy(nodes, ({ group = '' }) => group))
  return byName.map(([name, all = []]) => ({
    name,
    voting: all.filter(({ state }) => state === 'voting').length,
    writable: all.filter(takesWrites).length,
    suspended: all.filter(({ state }) => state === 'suspended').length,
    skewed: all.filter((node) => skewed?.has(node.name)).length,
  }))
}

/** With several groups, only if every group refuses claims. */
function refusalFor(
  groups: readonly Group[],
  voting: number,
  enforced: boolean,
  { nodeCount, required }: QuorumSize,
): string | undefined {
  const least = Math.min(...groups.map((group) => group.skewed))
  if (enforced && least >= required)
    return `claims are refused: ${least} of ${nodeCount} clocks are further off than tolerated`
  const stepped = groups.find(
    (group) => group.voting < required && group.voting + group.suspended >= required,
  )
  if (voting >= required || stepped === undefined) return undefined
  return `${stepped.suspended} nodes are not counted because their clocks were stepped`
}
