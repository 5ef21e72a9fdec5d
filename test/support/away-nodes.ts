/** Embedded nodes that go away and come back with their records. */

import type { Clock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/events.ts'
import { createEmbeddedNodes, type StoppableNode } from '../../src/embedded/node.ts'

export type AwayNodes = {
  readonly nodes: readonly StoppableNode[]
  /** Those that are away from now on; all others are there. */
  away(...indexes: number[]): void
}

export function createAwayNodes(clock: Clock, count = 5): AwayNodes {
  let gone: ReadonlySet<number> = new Set()
  const nodes = createEmbeddedNodes(count, clock, 10_000, SILENT).map(
    (node, index): StoppableNode => ({
      name: node.name,
      get stopped() {
        return node.stopped
      },
      stop: () => node.stop(),
      execute: (command) =>
        gone.has(index)
          ? Promise.resolve({ kind: 'unreachable', reason: 'refused', detail: 'away' })
          : node.execute(command),
    }),
  )
  return {
    nodes,
    away: (...indexes) => {
      gone = new Set(indexes)
    },
  }
}
