/**
 * Rounds whose votes are counted by hand, to show what redlock costs in `src/redlock/rounds.ts`: only for measuring.
 *
 * The least that a round can be: no deadline but the nodes' own, no events, no skipped nodes.
 */

import type { NodeAnswer, Quorum, RecordNode, Round } from '../../src/core/ports.ts'
import type { RecordCommand } from '../../src/core/record/record.ts'
import { majorityOf } from '../../src/core/units.ts'

const VOTE_FOR = {
  claim: 'granted',
  renew: 'renewed',
  complete: 'recorded',
  release: 'released',
  read: 'record',
} as const

export function createHandCountedQuorum(nodes: readonly RecordNode[]): Quorum {
  const needed = majorityOf(nodes.length)

  function run(command: RecordCommand): Promise<Round> {
    return new Promise((resolve) => {
      const answers: (NodeAnswer | undefined)[] = new Array(nodes.length).fill(undefined)
      const settled = Promise.withResolvers<void>()
      let votes = 0
      let missing = nodes.length
      for (const [index, node] of nodes.entries()) {
        void node.execute(command).then((answer) => {
          answers[index] = answer
          missing -= 1
          if (answer.kind === VOTE_FOR[command.kind]) votes += 1
          const against = nodes.length - missing - votes
          if (votes === needed || against === needed)
            resolve({ majorityReached: votes >= needed, answers, settled: settled.promise })
          if (missing === 0) settled.resolve()
        })
      }
    })
  }

  return { nodeCount: nodes.length, run }
}
