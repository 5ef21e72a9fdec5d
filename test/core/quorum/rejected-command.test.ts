import { describe, expect, test } from 'vitest'
import type { NodeAnswer } from '../../../src/core/ports.ts'
import { explainRejected } from '../../../src/core/quorum/tally.ts'
import { sequences } from '../../support/sequences.ts'

// Rules over everything that nodes can answer. Single rounds are in tables/rejected-command.txt.
const nodeMs = 1_000

describe('a renewal, completion or release that no majority accepted', () => {
  const VOTES: Record<string, NodeAnswer | undefined> = {
    R: { kind: 'renewed', nodeMs },
    L: { kind: 'lost', fence: 60, nodeMs },
    x: { kind: 'unreachable', reason: 'timeout', detail: '' },
    q: { kind: 'quarantined', nodeMs },
    '-': undefined,
  }
  const rejected = (letters: string, settled: boolean) =>
    explainRejected(
      [...letters].map((letter) => VOTES[letter]),
      settled,
      ['renewed'],
    )

  test('a command is refused exactly where no behaviour of the silent nodes can give a majority', () => {
    for (const letters of sequences('RLxq-', 5)) {
      const atBest = [...letters].filter((letter) => letter !== 'L').length
      expect(rejected(letters, true) === 'refused', letters).toBe(atBest < 3)
    }
  })
})
