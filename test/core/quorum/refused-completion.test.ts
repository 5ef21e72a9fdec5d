import { describe, expect, test } from 'vitest'
import type { NodeAnswer } from '../../../src/core/ports.ts'
import { explainRefusedCompletion } from '../../../src/core/quorum/refused-completion.ts'
import { encodeOutcome } from '../../support/encoded-outcome.ts'
import { sequences } from '../../support/sequences.ts'

// Rules over everything that nodes can answer. Single rounds are in tables/refused-completion.txt.
const nodeMs = 1_000
const outcomeOf = (result: string, completedAtWallMs: number) =>
  encodeOutcome({ kind: 'result', result, completedAtWallMs })
const OFFERED = { token: 10, attempt: 1, outcome: outcomeOf('paid', 1) }

function completed(acceptedToken: number, change: object = {}): NodeAnswer {
  return {
    kind: 'completed',
    fence: 50,
    promised: false,
    acceptedToken,
    attempt: 1,
    fingerprint: 'f'.repeat(64),
    outcome: OFFERED.outcome,
    nodeMs,
    ...change,
  }
}

/** The answers to a completion at token 10, a letter each. */
const LETTERS: Record<string, NodeAnswer | undefined> = {
  R: { kind: 'recorded', nodeMs },
  F: { kind: 'fenced', fence: 20, nodeMs },
  /** Offered at this very token before, at another moment. */
  E: completed(10, { outcome: outcomeOf('paid', 7) }),
  /** The same, copied when the node rejoined. */
  H: completed(10, { copied: true }),
  /** Adopted by a later claimant. */
  A: completed(20, { outcome: outcomeOf('paid', 7) }),
  /** Another outcome, of a later attempt, and one at this very token. */
  O: completed(20, { attempt: 2, outcome: outcomeOf('not paid', 1) }),
  x: { kind: 'unreachable', reason: 'timeout', detail: '' },
  q: { kind: 'quarantined', nodeMs },
}

const say = (letters: string) =>
  explainRefusedCompletion(
    [...letters].map((letter) => LETTERS[letter]),
    OFFERED,
  ).kind

/** Everything that five nodes can answer, and what it amounts to. */
const ALL = sequences('RFEHAOxq', 5).map((letters) => ({ letters, said: say(letters) }))

describe('a completion that no majority accepted', () => {
  test('a completion is fenced only where another outcome stands, or all nodes answered and none has this one', () => {
    for (const { letters, said } of ALL) {
      if (said !== 'fenced') continue
      const count = (...wanted: string[]) => [...letters].filter((letter) => wanted.includes(letter)).length
      if (count('O') < 3 && count('R', 'E', 'H', 'A', 'x', 'q') > 0) expect.fail(letters)
    }
  })

  test('a completion is recorded only where a majority shows this outcome at one token', () => {
    for (const { letters, said } of ALL) {
      const count = (...wanted: string[]) => [...letters].filter((letter) => wanted.includes(letter)).length
      if ((said === 'recorded') !== (count('R', 'E') >= 3 || count('A') >= 3)) expect.fail(letters)
    }
  })
})
