/**
 * Nodes that are believed no outcome past its end: bytes that were written back, a backup, a clock that was set back. A node that shows
 * one has given no answer, which is neither for nor against; where a majority does, nothing is executed and nothing is answered,
 * because then it may be our idea of the time that is wrong: the middle one of the nodes' clocks and our own. No single clock moves
 * it, and who writes an end and who compares with it go by the same.
 */

import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import type { NodeAnswer, RecordNode } from '../ports.ts'
import { endOf } from '../record/stored-outcome.ts'

export type BelievedNodes = {
  readonly nodes: readonly RecordNode[]
  /** The nodes' time. */
  readonly nowMs: () => number
}

/** Where a clock was set back, each of a node's records may be one. */
const REPORT_EVERY_MS = 1_000

export function believedNodes(
  nodes: readonly RecordNode[],
  { clock, events }: { readonly clock: Clock; readonly events: Events },
): BelievedNodes {
  /** How far each node's clock is ahead of our monotonic one. */
  const aheadMs = new Map<RecordNode, number>()
  const reportedMonoMs = new Map<RecordNode, number>()

  function nowMs(): number {
    const monoMs = clock.monoMs()
    const clocks = [...aheadMs.values(), clock.wallMs() - monoMs].sort((a, b) => a - b)
    return monoMs + (clocks[Math.floor(clocks.length / 2)] ?? 0)
  }

  function believed(node: RecordNode, recordKey: string, answer: NodeAnswer): NodeAnswer {
    if (answer.kind === 'unreachable') return answer
    aheadMs.set(node, answer.nodeMs - clock.monoMs())
    const end = endShown(answer)
    const overSinceMs = end === undefined ? 0 : nowMs() - end.atMs - end.toleratedMs
    if (overSinceMs <= 0) return answer
    const reason = `it shows an outcome that was over ${Math.ceil(overSinceMs / 1_000)} s ago`
    if (clock.monoMs() - (reportedMonoMs.get(node) ?? Number.NEGATIVE_INFINITY) >= REPORT_EVERY_MS) {
      reportedMonoMs.set(node, clock.monoMs())
      events.publish({ kind: 'outcome_damaged', recordKey, reason, node: node.name })
    }
    return { kind: 'unreachable', reason: 'error', answered: true, detail: reason }
  }

  return {
    nowMs,
    nodes: nodes.map((node) => ({
      name: node.name,
      execute: async (command) => believed(node, command.key, await node.execute(command)),
    })),
  }
}

function endShown(answer: NodeAnswer) {
  if (answer.kind === 'completed') return endOf(answer.outcome)
  return answer.kind === 'record' && answer.record?.state === 'completed'
    ? endOf(answer.record.outcome)
    : undefined
}
