import { describe, expect, test } from 'vitest'
import type { NodeAnswer } from '../../../src/core/ports.ts'
import { type ClaimedRead, explainRead } from '../../../src/core/quorum/majority-read.ts'
import { NO_OWNER, type NodeRecord } from '../../../src/core/record/record.ts'
import { encodeOutcome } from '../../../src/core/record/stored-outcome.ts'
import { permutations, sequences } from '../../support/sequences.ts'

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
  const claimed = (
    fence: number,
    leaseUntilNodeMs: number,
    attempt = 1,
    of = fingerprint,
    by = owner,
  ): NodeRecord => ({
    state: 'claimed',
    fence,
    owner: by,
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
    /** Lapsed, and of another content. */
    V: claimed(20, nodeMs - 300, 1, 'e'.repeat(64)),
    /** A takeover that was given back: the lapsed attempt before it stands again. */
    G: claimed(15, 0, 1, fingerprint, NO_OWNER),
    R: { state: 'released', fence: 10 },
    Q: { state: 'released', fence: 15 },
    C: done(10),
    E: done(10, 30),
    D: done(20),
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
      case 'sighted': {
        const beside = said.claim === undefined ? '' : `, beside ${sayClaim(said.claim)}`
        return `sighted at ${said.record.acceptedToken}${beside}`
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
    ['aaaaa', 'absent'],
    ['aaaxx', 'absent'],
    ['LLLaa', 'claimed 10, attempt 1, 700 ms'],
    ['PPPxx', 'claimed 10, attempt 1, 0 ms'],
    // Given back on a majority, two of which knew of no earlier attempt: the token of the takeover was acknowledged.
    ['GQQPP', 'claimed 15, attempt 1, 0 ms, of several'],
    ['GQPPx', 'claimed 15, attempt 1, 0 ms, of several'],
    ['GRRPP', 'claimed 10, attempt 1, 0 ms, of several'],
    // Held by whoever renewed it, or granted by two nodes and nobody: the two that are silent know.
    ['PLxax', 'uncertain'],
    ['LPxax', 'uncertain'],
    ['LLaax', 'uncertain'],
    ['LLaaa', 'absent'],
    // Found by simulation: one node had missed the renewal that the others knew of, and answered first.
    ['PLLxx', 'claimed 10, attempt 1, 700 ms'],
    ['LPPxx', 'claimed 10, attempt 1, 700 ms'],
    // Two have missed its renewal, and two that know of it have its outcome, which nobody was told is recorded.
    ['LPPCC', 'sighted at 10, beside claimed 10, attempt 1, 700 ms'],
    ['LPPCa', 'sighted at 10, beside claimed 10, attempt 1, 0 ms'],
    // A majority knows of a renewal that counted; one alone that shows more has a clock that was set back.
    ['LLLPP', 'claimed 10, attempt 1, 700 ms'],
    ['PLPPP', 'claimed 10, attempt 1, 0 ms'],
    ['PLLPx', 'claimed 10, attempt 1, 700 ms'],
    ['PPLPx', 'claimed 10, attempt 1, 0 ms'],
    ['LLUUU', 'claimed 20, attempt 2, 300 ms'],
    ['RRRRR', 'released 10'],
    ['LLQQQ', 'released 15'],
    // Who lost to it released a larger token on nodes that missed it.
    ['LLLQQ', 'claimed 10, attempt 1, 700 ms'],
    ['PPPQa', 'claimed 10, attempt 1, 0 ms'],
    // Nobody has been granted the larger one; it runs on a clock that was set back, or is on its way.
    ['UPPPQ', 'claimed 10, attempt 1, 0 ms'],
    ['UQQxx', 'uncertain'],
    // Found by simulation: a claim that was never granted hid the one that was, for as long as nodes remembered it.
    ['VVPPP', 'claimed 10, attempt 1, 0 ms'],
    ['VPPPQ', 'claimed 10, attempt 1, 0 ms'],
    ['VVPPa', 'claimed 10, attempt 1, 0 ms, of several'],
    ['VVPPx', 'claimed 20, attempt 1, 0 ms, of several'],
    // A minority granted it, and nobody else has: nobody was told that it is held.
    ['VVaaa', 'absent'],
    ['VVaax', 'uncertain'],
    ['VVaxx', 'uncertain'],
    ['VaaRx', 'released 10'],
    // Its release reached a majority, or was never sent and these have missed the claim.
    ['LLRRR', 'released 10'],
    ['PPRRR', 'released 10'],
    ['LRRxx', 'uncertain'],
    ['CCCxx', 'completed at 10'],
    ['CEEaa', 'completed at 10'],
    ['UUDDD', 'completed at 20'],
    // Any ballot with a majority is chosen, also below a larger one of a minority.
    ['CCCDD', 'completed at 10'],
    ['DEEEx', 'completed at 10'],
    // A minority's outcome is not an answer yet.
    ['CCaaa', 'sighted at 10'],
    ['CCaax', 'sighted at 10'],
    ['CCLLL', 'sighted at 10, beside claimed 10, attempt 1, 700 ms'],
    ['CCLLx', 'sighted at 10'],
    ['CCUUU', 'sighted at 10, beside claimed 20, attempt 2, 300 ms'],
    ['CCQQQ', 'sighted at 10'],
    // Chosen at the smaller ballot, and adopted in part since: no ballot shows a majority, and it was acknowledged all the same.
    ['CCDDa', 'sighted at 20'],
    ['CCDUU', 'sighted at 20'],
    // Who has an outcome of a claim has carried that claim.
    ['DUUPP', 'sighted at 20, beside claimed 20, attempt 2, 300 ms'],
    ['aaxxx', 'unavailable 2'],
    ['CCqqq', 'unavailable 2'],
  ])('%s: %s', (letters, said) => {
    expect(says(letters)).toBe(said)
  })

  test.each([
    ['Caa--', 'undecided'],
    ['xxa--', 'undecided'],
    ['CCC--', 'completed at 10'],
    ['aaa--', 'absent'],
    ['LLQ--', 'undecided'],
    ['VPP--', 'undecided'],
    ['LLL--', 'claimed 10, attempt 1, 700 ms'],
  ])('%s, others still to answer: %s', (letters, said) => {
    expect(says(letters, false)).toBe(said)
  })

  test.each([
    ['PPPaa', true],
    ['PPVVV', true],
    ['VVPPP', true],
    ['VVPPa', true],
    ['VVPPx', false],
  ])('%s: every later claim has a larger token than the one that is shown: %s', (letters, carried) => {
    expect(read(letters)).toMatchObject({ kind: 'claimed', carried })
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
