/** What the terms of a route change of a claim: its rounds, the pauses between them, and how long its lease is valid. */
import { expect, test } from 'vitest'
import { claimIdentity } from '../../../src/core/claims/claim.ts'
import { SILENT } from '../../../src/core/events.ts'
import type { ClaimTerms, NodeAnswer, Quorum } from '../../../src/core/ports.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const SILENT_NODE: NodeAnswer = { kind: 'unreachable', reason: 'refused', detail: 'away' }

async function claimed(
  terms: ClaimTerms | undefined,
  { fraction = 1, granted = false, budgetMs = 1_000 } = {},
) {
  const clock = new VirtualClock()
  const atMs: number[] = []
  const quorum: Quorum = {
    nodeCount: 3,
    run: async () => {
      atMs.push(clock.monoMs())
      const answer: NodeAnswer = granted ? { kind: 'granted', attempt: 1, nodeMs: 0 } : SILENT_NODE
      return { answers: [answer, answer, answer], majorityReached: granted, settled: Promise.resolve() }
    },
  }
  let token = 0
  const tokens = {
    next: () => {
      token += 1
      return token
    },
    rewindTo: () => {},
    catchUpWith: () => {},
  }
  const request = { key: 'k', fingerprint: 'f', leaseMs: 10_000, retentionMs: 60_000, budgetMs }
  const random = { ...seededRandom(1), fraction: () => fraction }
  const claiming = claimIdentity(
    { ...request, ...(terms === undefined ? {} : { terms }) },
    {
      quorum,
      tokens: tokens as never,
      clock,
      nodesMs: () => clock.wallMs(),
      random,
      newOwner: () => random.hex(16),
      events: SILENT,
    },
  )
  await clock.advance(budgetMs)
  return { result: await claiming, pausesMs: atMs.slice(1).map((at, index) => at - atMs[index]!) }
}

const terms = (retry: Partial<ClaimTerms['retry']>, driftFactor = 0.01): ClaimTerms => ({
  retry: { count: 10_000, delayMs: 4, jitter: 1, ...retry },
  driftFactor,
})

test.each<[retries: number]>([[0], [1], [3]])(
  'retryCount %i: as many rounds after the first',
  async (count) => {
    const { result, pausesMs } = await claimed(terms({ count }))
    expect(pausesMs.length).toBe(count)
    expect(result).toMatchObject({ kind: 'unavailable', answered: 0, required: 2 })
  },
)

test('without terms, and with those of every route, the budget ends the rounds', async () => {
  const [none, defaults] = [await claimed(undefined), await claimed(terms({}))]
  expect(none).toEqual(defaults)
  expect(none.pausesMs.slice(0, 5)).toEqual([4, 8, 16, 32, 40])
  expect(none.pausesMs.reduce((sum, one) => sum + one, 0)).toBeLessThan(1_000)
})

test.each<[jitter: number, fraction: number, pausesMs: readonly number[]]>([
  [1, 0.5, [5, 10, 20, 40, 50]],
  [0.5, 0, [5, 10, 20, 40, 50]],
  [0, 0.5, [10, 20, 40, 80, 100]],
])('retryDelay 10ms, retryJitter %f, drawn %f: pauses of %j ms', async (jitter, fraction, pausesMs) => {
  const { pausesMs: paused } = await claimed(terms({ count: 5, delayMs: 10, jitter }), { fraction })
  expect(paused).toEqual(pausesMs)
})

test.each<[driftFactor: number, validMs: number]>([
  [0.01, 10_000 - 102],
  [0.05, 10_000 - 502],
  [0.5, 10_000 - 5_002],
])('driftFactor %f: a lease of 10 s is valid for %i ms', async (driftFactor, validMs) => {
  const { result } = await claimed(terms({}, driftFactor), { granted: true })
  expect(result).toMatchObject({ kind: 'granted', lease: { validUntilMonoMs: validMs, driftFactor } })
})
