/** What the answers of N nodes amount to, case by case: the tables are the text files in `tables/`. */
import { describe, expect, test } from 'vitest'
import type { NodeAnswer } from '../../../src/core/ports.ts'
import { explainRead, type MajorityRead } from '../../../src/core/quorum/majority-read.ts'
import { explainRefusedClaim, type Refusal } from '../../../src/core/quorum/refused-claim.ts'
import { explainRefusedCompletion } from '../../../src/core/quorum/refused-completion.ts'
import { bestCompleted, explainRejected } from '../../../src/core/quorum/tally.ts'
import { NO_OWNER, type NodeRecord } from '../../../src/core/record/record.ts'
import { decodeOutcome } from '../../../src/core/record/stored-outcome.ts'
import { encodeOutcome } from '../../support/encoded-outcome.ts'
import { casesOf, type Word, wordOf } from './case-table.ts'

const nodeMs = 1_000

/** A table, the interpretation that it tests, and the words with which each of its results begins. */
type Table = {
  readonly name: string
  readonly results: readonly string[]
  readonly said: (words: readonly string[]) => string
}

const TABLES: readonly Table[] = [
  {
    name: 'refused-claim',
    results: [
      'completed',
      'minority outcome',
      'mismatch',
      'held',
      'contended',
      'stale',
      'skewed',
      'unavailable',
      'undecided',
    ],
    said: (words) => refusalInWords(explainRefusedClaim(words.map(answerOf), isSettled(words))),
  },
  {
    name: 'majority-read',
    results: [
      'completed',
      'minority outcome',
      'claimed',
      'released',
      'absent',
      'uncertain',
      'unavailable',
      'undecided',
    ],
    said: (words) => readInWords(explainRead(words.map(readOf), isSettled(words))),
  },
  {
    name: 'refused-completion',
    results: ['recorded', 'fenced', 'undecided', 'unavailable'],
    said: (words) => explainRefusedCompletion(words.map(answerOf), OFFERED).kind,
  },
  {
    name: 'rejected-command',
    results: ['refused', 'unavailable', 'undecided'],
    said: (words) => explainRejected(words.map(answerOf), isSettled(words), ['renewed']),
  },
  {
    name: 'best-outcome',
    results: ['none', 'one', 'two', 'corrupt'],
    said: (words) => {
      const found = bestCompleted(words.map(answerOf))
      if (found === undefined) return 'none'
      const { best, holders } = found
      return `${contentOf(best.outcome)} at ${best.acceptedToken}, accepted by ${holders}`
    },
  },
]

describe.each(TABLES)('case table $name.txt', ({ name, results, said }) => {
  const cases = casesOf(name)

  test.each(cases.map(({ place, words, expected }) => [place, words.join(' '), expected] as const))(
    '%s: %s => %s',
    (_, words, expected) => {
      expect(said(words.split(' '))).toBe(expected)
    },
  )

  test.each([3, 5])('has every result for %i nodes', (nodeCount) => {
    const among = cases.filter(({ words }) => words.length === nodeCount)
    const missing = results.filter((result) => !among.some(({ expected }) => expected.startsWith(result)))
    expect(missing).toEqual([])
  })

  test('has no result that the list above does not name', () => {
    const unknown = cases.filter(({ expected }) => !results.some((result) => expected.startsWith(result)))
    expect(unknown).toEqual([])
  })
})

function isSettled(words: readonly string[]): boolean {
  return !words.includes('pending')
}

/** Ours is `f…f`. */
function fingerprintOf({ request }: Word): string {
  return request === undefined ? 'f'.repeat(64) : { x: 'e', y: 'd' }[request as 'x' | 'y'].repeat(64)
}

/** Every attempt of every request has a holder of its own. */
function ownerOf({ request = 'a', attempt }: Word): string {
  return Buffer.alloc(16, `${request}${attempt}`).toString('hex')
}

function outcomeOf(says: string, completedAtWallMs: number): Buffer {
  const intact = encodeOutcome({
    kind: 'result',
    result: says === 'corrupt' ? 'one' : says,
    completedAtWallMs,
  })
  if (says === 'corrupt') intact.writeUInt8(intact.readUInt8(intact.length - 1) ^ 1, intact.length - 1)
  return intact
}

function contentOf(outcome: Buffer): string {
  const decoded = decodeOutcome(outcome)
  return decoded.kind === 'intact' && decoded.outcome.kind === 'result'
    ? String(decoded.outcome.result)
    : 'corrupt'
}

/** What a completion offers; an outcome without other words is this one. */
const OFFERED = { token: 10, attempt: 1, outcome: outcomeOf('one', 1) }

function leftMsOf({ left }: Word): number {
  return left === 'expired' || left === 'given-back' ? 0 : Number(left)
}

/** Words of a node that shows no record and does no work. */
function withoutAnswer(kind: string): NodeAnswer | undefined | 'an answer' {
  switch (kind) {
    case 'silent':
      return { kind: 'unreachable', reason: 'timeout', detail: '' }
    case 'full':
      return { kind: 'unreachable', reason: 'error', full: true, detail: '' }
    case 'quarantined':
      return { kind: 'quarantined', nodeMs }
    case 'pending':
      return undefined
    default:
      return 'an answer'
  }
}

function answerOf(text: string): NodeAnswer | undefined {
  const word = wordOf(text)
  const fingerprint = fingerprintOf(word)
  const remainingMs = leftMsOf(word)
  const { kind, at, attempt } = word
  switch (kind) {
    case 'granted':
      return { kind, attempt, nodeMs }
    case 'held':
      return { kind, fence: at, remainingMs, fingerprint, attempt, nodeMs }
    case 'other':
      return { kind: 'mismatch', fence: at, remainingMs, fingerprint, nodeMs }
    case 'stale':
    case 'lost':
    case 'fenced':
      return { kind, fence: at, nodeMs }
    case 'skewed':
      return { kind, nodeMs: at }
    case 'renewed':
    case 'recorded':
      return { kind, nodeMs }
    case 'completed':
    case 'copied':
      return {
        kind: 'completed',
        fence: word.promised ?? 50,
        promised: word.promised === undefined,
        acceptedToken: at,
        attempt,
        fingerprint,
        outcome: outcomeOf(word.says, word.moment),
        ...(kind === 'copied' ? { copied: true as const } : {}),
        nodeMs,
      }
  }
  return known(text, withoutAnswer(kind))
}

function readOf(text: string): NodeAnswer | undefined {
  const word = wordOf(text)
  const { kind, at, attempt } = word
  const shown = (record: NodeRecord | undefined): NodeAnswer => ({ kind: 'record', record, nodeMs })
  const claimed = {
    owner: word.left === 'given-back' ? NO_OWNER : ownerOf(word),
    attempt,
    fingerprint: fingerprintOf(word),
    claimedAtNodeMs: 0,
  }
  switch (kind) {
    case 'free':
      return shown(undefined)
    case 'claim':
      return shown({ state: 'claimed', fence: at, leaseUntilNodeMs: nodeMs + leftMsOf(word), ...claimed })
    case 'released':
      return shown({ state: 'released', fence: at })
    case 'completed':
      return shown({
        state: 'completed',
        fence: word.promised ?? at,
        acceptedToken: at,
        outcome: outcomeOf(word.says, word.moment),
        ...claimed,
      })
  }
  return known(text, withoutAnswer(kind))
}

function known(text: string, answer: NodeAnswer | undefined | 'an answer'): NodeAnswer | undefined {
  if (answer === 'an answer') throw new Error(`no word of this table: ${text}`)
  return answer
}

function refusalInWords(refusal: Refusal): string {
  switch (refusal.kind) {
    case 'completed':
      return `completed at ${refusal.chosen.acceptedToken}`
    case 'minority_outcome':
      return `minority outcome at ${refusal.best.acceptedToken}, ${refusal.mayWriteBack ? 'adopt it' : 'not ours to adopt'}`
    case 'held':
      return `held ${refusal.retryAfterMs} ms`
    case 'stale':
      return `stale above ${refusal.above}`
    case 'contended':
      return `contended above ${refusal.above}`
    case 'skewed':
      return `skewed at ${refusal.nodeMs}`
    case 'unavailable':
      return `unavailable, ${refusal.answered} answered${refusal.full === 0 ? '' : `, ${refusal.full} full`}`
    case 'mismatch':
    case 'undecided':
      return refusal.kind
  }
}

function readInWords(read: MajorityRead): string {
  switch (read.kind) {
    case 'completed':
      return `completed at ${read.record.acceptedToken}`
    case 'claimed': {
      const { fence, attempt, remainingMs, leftovers } = read
      return `claimed ${fence}, attempt ${attempt}, ${remainingMs} ms left${leftovers === undefined ? '' : ', of several'}`
    }
    case 'minority_outcome': {
      const beside = read.claim === undefined ? '' : `, beside ${readInWords(read.claim)}`
      return `minority outcome at ${read.record.acceptedToken}${beside}`
    }
    case 'released':
      return `released ${read.fence}`
    case 'unavailable':
      return `unavailable, ${read.answered} answered`
    case 'uncertain':
    case 'absent':
    case 'undecided':
      return read.kind
  }
}
