import { describe, expect, test } from 'vitest'
import type { NodeAnswer } from '../../../src/core/ports.ts'
import { type ClaimedRead, explainRead } from '../../../src/core/quorum/majority-read.ts'
import type { NodeRecord } from '../../../src/core/record/record.ts'
import { encodeOutcome } from '../../support/encoded-outcome.ts'
import { permutations, sequences } from '../../support/sequences.ts'

// Rules over everything that nodes can answer. Single rounds are in tables/majority-read.txt.
const nodeMs = 1_000
const owner = 'a'.repeat(32)
const fingerprint = 'f'.repeat(64)
const outcome = encodeOutcome({ kind: 'result', result: 'one', completedAtWallMs: 0 })

/** Nodes that show no record. */
const SILENT: Record<string, NodeAnswer | undefined> = {
  x: { kind: 'unreachable', reason: 'timeout', detail: '' },
  q: { kind: 'quarantined', nodeMs },
  '-': undefined,
}

describe('reading', () => {
  const claimed = (fence: number, leaseUntilNodeMs: number, attempt = 1, of = fingerprint): NodeRecord => ({
    state: 'claimed',
    fence,
    owner,
    leaseUntilNodeMs,
    attempt,
    fingerprint: of,
    claimedAtNodeMs: 0,
  })
  const done = (acceptedToken: number, fence = acceptedToken): NodeRecord => ({
    state: 'completed',
    fence,
    owner,
    acceptedToken,
    attempt: 1,
    fingerprint,
    claimedAtNodeMs: 0,
    outcome,
  })
  const RECORDS: Record<string, NodeRecord | undefined> = {
    a: undefined,
    L: claimed(10, nodeMs + 700),
    P: claimed(10, nodeMs - 700),
    U: claimed(20, nodeMs + 300, 2),
    /** Expired, and of another content. */
    V: claimed(20, nodeMs - 300, 1, 'e'.repeat(64)),
    R: { state: 'released', fence: 10 },
    Q: { state: 'released', fence: 15 },
    C: done(10),
  }
  function read(letters: string, settled = true) {
    const answers = [...letters].map((letter): NodeAnswer | undefined =>
      letter in RECORDS ? { kind: 'record', record: RECORDS[letter], nodeMs } : SILENT[letter],
    )
    return explainRead(answers, settled)
  }
  function sayClaim({ fence, attempt, remainingMs, leftovers }: ClaimedRead): string {
    return `claimed ${fence}, attempt ${attempt}, ${remainingMs} ms${leftovers === undefined ? '' : ', of several'}`
  }
  function says(letters: string, settled = true): string {
    const said = read(letters, settled)
    switch (said.kind) {
      case 'completed':
        return `completed at ${said.record.acceptedToken}`
      case 'claimed':
        return sayClaim(said)
      case 'minority_outcome': {
        const beside = said.claim === undefined ? '' : `, beside ${sayClaim(said.claim)}`
        return `minority outcome at ${said.record.acceptedToken}${beside}`
      }
      case 'released':
        return `released ${said.fence}`
      case 'unavailable':
        return `unavailable ${said.answered}`
      case 'uncertain':
      case 'absent':
      case 'undecided':
        return said.kind
    }
  }

  test.each([
    ['PPPaa', true],
    ['PPVVV', true],
    ['VVPPP', true],
    ['VVPPa', true],
    ['VVPPx', false],
  ])('%s: every later claim has a larger token than the one shown: %s', (letters, majorityReached) => {
    expect(read(letters)).toMatchObject({ kind: 'claimed', majorityReached })
  })

  test('a chosen outcome is never overlooked, whichever majority answers first', () => {
    for (const rest of sequences('aLPURQCx', 2)) {
      for (const letters of new Set(permutations(`CCC${rest}`))) {
        expect(says(letters), letters).toBe('completed at 10')
        expect(['completed at 10', 'undecided'], letters).toContain(says(`${letters.slice(0, 3)}--`, false))
      }
    }
  })
})
