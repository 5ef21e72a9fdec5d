/** A node of ours in the form in which everything outside shows it, as of the last look at it. */

import { type NodeFault, troubleOf } from '../node-faults.ts'
import type { NodeStatus } from '../node-status.ts'
import { isEnrolled, isQuarantined } from './enrolment-rules.ts'
import type { NodeFacts } from './fitness.ts'
import type { Member, NodeState } from './member.ts'
import type { NodeDriver } from './node-driver.ts'
import { shareOfMemory } from './node-memory.ts'

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
        ...known(facts),
        ...waiting(facts, quarantineMs),
      }
    }
    case 'voting': {
      const { facts, fault, reason, remedy } = state
      return {
        ...of,
        state: state.kind,
        ...known(facts),
        ...(fault === undefined ? {} : { fault, reason, remedy }),
      }
    }
  }
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
  if (isEnrolled(facts) || !isQuarantined(facts)) return {}
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
