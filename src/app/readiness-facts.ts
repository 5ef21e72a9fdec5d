/**
 * The facts that readiness is judged by, counted from the nodes: the votes of each quorum group, and whether clocks
 * keep claims from being granted.
 */

import type { ReadinessFacts } from '../core/health/readiness.ts'
import { type NodeStatus, takesWrites } from '../core/node-status.ts'

export type NodesSeen = {
  readonly phase: ReadinessFacts['phase']
  readonly nodes: readonly NodeStatus[]
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

/**
 * @param clockEnforce clocks that are off by more than tolerated refuse claims
 * @param unanswered groups whose claims end without a majority, whatever their nodes are
 */
export function readinessFacts(
  { phase, nodes, agreed, standstills }: NodesSeen,
  { clockEnforce, unanswered }: { readonly clockEnforce: boolean; readonly unanswered: ReadonlySet<string> },
  { nodeCount, required }: QuorumSize,
): ReadinessFacts {
  const groups = groupsOf(nodes)
  const voting = Math.max(...groups.map((group) => group.voting))
  const writable = Math.max(...groups.map((group) => group.writable))
  const lost = groups.filter(({ name, writable: able }) => able < required || unanswered.has(name))
  const clockRefusal = refusalFor(groups, voting, clockEnforce, { nodeCount, required })
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

function groupsOf(nodes: readonly NodeStatus[]): readonly Group[] {
  const byName = Object.entries(Object.groupBy(nodes, ({ group = '' }) => group))
  return byName.map(([name, all = []]) => ({
    name,
    voting: all.filter(({ state }) => state === 'voting').length,
    writable: all.filter(takesWrites).length,
    suspended: all.filter(({ state }) => state === 'suspended').length,
    skewed: all.filter(({ clock }) => clock?.skewed === true).length,
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
  return `${stepped.suspended} nodes are not counted for their clocks`
}
