/** A node of ours in the form in which everything outside shows it, as of the last poll of it. */

import { type NodeFault, troubleOf } from '../node-faults.ts'
import type { NodeStatus } from '../node-status.ts'
import { majorityOf } from '../units.ts'
import { whyLastWritesLack } from './continuity.ts'
import type { NodeFacts } from './fitness.ts'
import type { Member, NodeState } from './member.ts'
import type { NodeDriver } from './node-driver.ts'
import { shareOfMemory } from './node-stats.ts'
import { hasJoined, isQuarantined, joinedAtNodeMs, looksNew } from './rejoin-rules.ts'

/** In the order of the setting. */
export function statusesOf(nodes: NodeDriver): readonly NodeStatus[] {
  const { quarantineMs } = nodes.cluster()
  return nodes.members.map((member) =>
    statusOf(member, nodes.continuity.explained(member), quarantineMs, nodes.options.group),
  )
}

function statusOf(
  { node: { name }, address }: Member,
  state: NodeState,
  quarantineMs: number,
  group: string | undefined,
): NodeStatus {
  const of = group === undefined || group === '' ? { name, address } : { name, address, group }
  switch (state.kind) {
    case 'down':
    case 'unfit': {
      const { kind, fault, reason, remedy } = state
      return { ...of, state: kind, fault, reason, remedy }
    }
    case 'quarantined': {
      const { facts, reason } = state
      const fault: NodeFault = facts.quarantine?.origin === 'new' ? 'new' : 'forgot'
      const { remedy } = troubleOf(fault)
      return {
        ...of,
        state: state.kind,
        fault,
        reason,
        remedy,
        sinceWallMs: timeIn(facts.quarantine?.sinceNodeMs),
        ...known(facts),
        ...waiting(facts, quarantineMs),
      }
    }
    case 'voting': {
      const { facts, fault, reason, remedy } = state
      return {
        ...of,
        state: state.kind,
        sinceWallMs: timeIn(joinedAtNodeMs(facts.incarnation ?? '')),
        ...known(facts),
        ...(fault === undefined ? {} : { fault, reason, remedy }),
      }
    }
  }
}

/** Anyone who can write to the node may have written what is no time. */
function timeIn(ms: number | undefined): number | undefined {
  return ms !== undefined && Math.abs(ms) <= 8.64e15 ? ms : undefined
}

function known({ startedNodeMs, memory, runId, program, version }: NodeFacts) {
  const memoryShare = shareOfMemory(memory)
  return {
    startedWallMs: startedNodeMs,
    ...(memoryShare === undefined ? {} : { memoryShare }),
    run: runId,
    server: `${program} ${version}`,
  }
}

function waiting(facts: NodeFacts, quarantineMs: number): Pick<NodeStatus, 'quarantine'> {
  if (hasJoined(facts) || !isQuarantined(facts)) return {}
  const { sinceNodeMs, origin, progress } = facts.quarantine
  const forMs = facts.nodeMs - sinceNodeMs
  return {
    quarantine: {
      forMs,
      // A new one waits for the other nodes, and no time brings it a vote.
      ...(origin === 'new' ? {} : { remainingMs: Math.max(0, quarantineMs - forMs) }),
      recordsCopied: progress.copied,
      sourcesDone: progress.done.length,
    },
  }
}

// More nodes forgot than a quorum survives, and an operator decides to go on with what is left. The rest follows from rejoining.

export type LossDeclared =
  | { readonly kind: 'declared'; readonly clusterId: string; readonly nodes: readonly string[] }
  /** Enough nodes vote, or none waits: the others rejoin by themselves. */
  | { readonly kind: 'no_loss'; readonly voting: number; readonly required: number }
  /** Fewer than a majority answer: those that don't may remember everything. */
  | { readonly kind: 'too_few'; readonly answering: number; readonly required: number }
  /** `isCertain`: no vote comes by itself any more. */
  | { readonly kind: 'not_confirmed'; readonly expected: string; readonly isCertain: boolean }

/** What an operator types where no node remembers the name of its cluster. */
export const NAMELESS = 'nothing-is-known'

/**
 * @param confirmation the id of the cluster as `fencepost nodes status` shows it, or {@link NAMELESS}
 * @param by the operator, for the audit log that stays on the nodes
 */
export async function declareLoss(
  nodes: NodeDriver,
  confirmation: string | undefined,
  by: string,
): Promise<LossDeclared> {
  const { members, options } = nodes
  const required = majorityOf(members.length)
  const voting = members.filter(({ state }) => state.kind === 'voting').length
  const waiting = members.flatMap((member) =>
    member.state.kind === 'quarantined' ? [{ member, facts: member.state.facts }] : [],
  )
  const answering = voting + waiting.length
  if (answering < required) return { kind: 'too_few', answering, required }
  if (voting >= required || waiting.length === 0) return { kind: 'no_loss', voting, required }
  const { id } = nodes.cluster()
  const expected = id === '' ? NAMELESS : id
  if (confirmation !== expected)
    return { kind: 'not_confirmed', expected, isCertain: standstillOf(nodes) !== undefined }

  // One name for all of them, or each would join a cluster of its own.
  const clusterId = id === '' ? options.random.hex(8) : id
  const answers = await Promise.allSettled(
    waiting.map(({ member, facts }) => nodes.rejoiningNode(member, facts).declare(by, clusterId)),
  )
  const declared = waiting.flatMap(({ member }, at) => {
    const answer = answers[at]
    return answer?.status === 'fulfilled' && answer.value ? [member.node.name] : []
  })
  // A node that went away meanwhile needs the same command again, once it is back. One that votes by now needs none.
  if (answers.every(({ status }) => status === 'rejected'))
    return { kind: 'too_few', answering: voting, required }
  return { kind: 'declared', clusterId, nodes: declared }
}

/**
 * Why no vote comes by itself, and what to do, for a viewer of the nodes; undefined where one may come.
 */
export function standstillOf(nodes: NodeDriver): string | undefined {
  return unfoundedOf(nodes) ?? lossOf(nodes)
}

/** A new cluster whose nodes do not all answer: no time that passes founds it. */
function unfoundedOf({ members }: NodeDriver): string | undefined {
  const answering = members.flatMap(({ state }) =>
    state.kind === 'down' || state.kind === 'unfit' ? [] : [state],
  )
  const silent = members.filter(({ state }) => state.kind === 'down' || state.kind === 'unfit')
  const wasFounded = silent.some(({ state }) => state.kind === 'unfit' && state.hadJoined)
  const isNew =
    !wasFounded && answering.every((state) => state.kind === 'quarantined' && looksNew(state.facts))
  if (answering.length === 0 || silent.length === 0 || !isNew) return undefined
  const names = silent.map(({ node, state }) => `${node.name} (${state.kind})`).join(', ')
  return `No node that answers has ever joined. A new cluster is founded only once all ${members.length} nodes answer and are fit, however long that takes: it waits for ${names}`
}

/**
 * What forgot too much.
 *
 * It is too early to say so before the quarantine of each node that forgot is over, or while one comes back by its own
 * data: no operator should declare a loss that heals.
 */
function lossOf(nodes: NodeDriver): string | undefined {
  const { members, options } = nodes
  const { id, quarantineMs } = nodes.cluster()
  const required = majorityOf(members.length)
  const voting = members.filter(({ state }) => state.kind === 'voting').length
  const forgot = members.flatMap(({ state }) =>
    state.kind === 'quarantined' && state.facts.quarantine?.origin === 'forgot'
      ? [{ ...state.facts.quarantine, forMs: state.facts.nodeMs - state.facts.quarantine.sinceNodeMs }]
      : [],
  )
  if (voting >= required || forgot.length === 0) return undefined
  if (members.some((member) => nodes.continuity.isComingBack(member))) return undefined
  if (forgot.some(({ declaredBy, forMs }) => declaredBy !== undefined || forMs < quarantineMs))
    return undefined
  const silent = members.filter(({ state }) => state.kind === 'down' || state.kind === 'unfit')
  const summary = `${forgot.length} of ${members.length} nodes forgot what they had promised, and too few are left that remember: nothing goes on by itself`
  const back = silent.map(({ node }) => node.name).join(', ')
  const first = back === '' ? summary : `${summary}. Bring back ${back}, with their data: they may remember`
  if (voting + silent.length >= required) return first
  const group = options.group === undefined || options.group === '' ? '' : ` --group ${options.group}`
  const unsynced = nodes.continuity.withoutLastWrites()
  const dataOf =
    unsynced.length === 0
      ? `Where data of before still exist, start the nodes with them. Where they don't, requests of before`
      : `${whyLastWritesLack(unsynced)}. Where other nodes have data of before, start them with these. Requests that were recorded in those last writes`
  return `${first}. ${dataOf} may be carried out a second time; to go on all the same: fencepost nodes declare-loss${group} --confirm ${id === '' ? NAMELESS : id}`
}
