import { describe, expect, test } from 'vitest'
import type { NodeAnswer } from '../../../src/core/ports.ts'
import { explainRejected, type Rejection } from '../../../src/core/quorum/rejected-command.ts'
import { sequences } from '../../support/sequences.ts'

const nodeMs = 1_000

describe('a renewal, completion or release that was not carried', () => {
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

  test.each<[string, boolean, Rejection]>([
    ['LLLLL', true, 'refused'],
    ['LLLRR', true, 'refused'],
    ['LLL--', false, 'refused'],
    ['LLRRx', true, 'unavailable'],
    ['LLxxx', true, 'unavailable'],
    ['RRxxx', true, 'unavailable'],
    ['RRLqq', true, 'unavailable'],
    ['LLx--', false, 'undecided'],
  ])('%s, settled %s: %s', (letters, settled, said) => {
    expect(rejected(letters, settled)).toBe(said)
  })

  test('refused exactly where no behaviour of the silent nodes could give a majority', () => {
    for (const letters of sequences('RLxq-', 5)) {
      const atBest = [...letters].filter((letter) => letter !== 'L').length
      expect(rejected(letters, true) === 'refused', letters).toBe(atBest < 3)
    }
  })
})
