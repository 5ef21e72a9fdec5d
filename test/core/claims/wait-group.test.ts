/** Waiters of one request in one process: who of them claims, how often, and what ends the wait of the others. */
import { describe, expect, test } from 'vitest'
import { claimWhenFree } from '../../../src/core/claims/claim-when-free.ts'
import { type Busy, createWaitGroups } from '../../../src/core/claims/waiters.ts'
import type { ClaimResult } from '../../../src/core/ports.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const HELD: Busy = { kind: 'held', retryAfterMs: 30_000 }
const MISMATCH: ClaimResult = { kind: 'mismatch' }
const BACKOFF = { initialMs: 25, maxMs: 250 }
const MINUTE_MS = 60_000

function process() {
  const clock = new VirtualClock()
  const random = seededRandom(11)
  const groups = createWaitGroups()
  /** Who claimed, and when. */
  const claims: { readonly by: string; readonly atMs: number }[] = []
  const nodes: { answer: () => ClaimResult | Promise<ClaimResult> } = { answer: () => HELD }
  const wait = (
    by: string,
    {
      request = 'one request',
      forMs = 10 * MINUTE_MS,
      abandoned,
    }: { request?: string; forMs?: number; abandoned?: AbortSignal } = {},
  ) =>
    claimWhenFree(
      HELD,
      {
        key: 'key',
        claim: async () => {
          claims.push({ by, atMs: clock.monoMs() })
          return nodes.answer()
        },
        untilMonoMs: clock.monoMs() + forMs,
        backoff: BACKOFF,
        abandoned,
        join: () => groups.join(request, clock.monoMs()),
      },
      { clock, random },
    )
  const claimants = () => [...new Set(claims.map(({ by }) => by))]
  return { clock, claims, nodes, wait, claimants }
}

describe('waiters of one request in one process', () => {
  test('one of a hundred waiters claims, and its answer ends the wait of all at once', async () => {
    const { clock, claims, nodes, wait, claimants } = process()
    const waiting = Array.from({ length: 100 }, (_, index) => wait(`${index}`))
    await clock.advance(5_000)
    expect(claimants()).toEqual(['0'])
    nodes.answer = () => MISMATCH
    const before = claims.length
    const [first] = await clock.during(Promise.race(waiting).then((result) => [result]))
    expect(first).toEqual(MISMATCH)
    await clock.advance(0)
    // Each by a claim of its own, in the moment of the first: their answers stand in this process' memory.
    const answered = claims.slice(before)
    expect(answered.map(({ by }) => Number(by)).sort((a, b) => a - b)).toEqual([...Array(100).keys()])
    expect(new Set(answered.map(({ atMs }) => atMs)).size).toBe(1)
    expect(await Promise.all(waiting)).toEqual(Array(100).fill(MISMATCH))
    expect(clock.pendingTimers).toBe(0)
  })

  test.each([1, 3, 33, 1_000])(
    '%i waiters claim at most 125 times in the first second, and less than 14 times in a later one',
    async (count) => {
      const { clock, claims, wait } = process()
      const waiting = Array.from({ length: count }, (_, index) => wait(`${index}`, { forMs: MINUTE_MS }))
      await clock.advance(1_000)
      expect(claims.length).toBeGreaterThan(5)
      expect(claims.length).toBeLessThanOrEqual(125)
      await clock.advance(2_000)
      const before = claims.length
      await clock.advance(10_000)
      expect((claims.length - before) / 10).toBeLessThan(14)
      await clock.advance(MINUTE_MS)
      await Promise.all(waiting)
    },
  )

  test('while many wait for short work, no pause is longer than 13 ms', async () => {
    const { clock, claims, wait } = process()
    for (let index = 0; index < 33; index += 1) void wait(`${index}`)
    await clock.advance(200)
    const pauses = claims.map(({ atMs }, at) => atMs - (claims[at - 1]?.atMs ?? 0))
    // The backoff of the others is shared: at most 250 ms among 33.
    expect(Math.max(...pauses)).toBeLessThan(13)
    expect(Math.min(...pauses)).toBeGreaterThan(7)
  })

  test('where the one that claims gives up, the next one claims', async () => {
    const { clock, claims, nodes, wait, claimants } = process()
    const gone = new AbortController()
    const first = wait('first', { abandoned: gone.signal })
    const second = wait('second')
    await clock.advance(1_000)
    expect(claimants()).toEqual(['first'])
    gone.abort()
    expect(await first).toEqual(HELD)
    const before = claims.length
    await clock.advance(1_000)
    expect(claims.length).toBeGreaterThan(before)
    expect(claims.slice(before).every(({ by }) => by === 'second')).toBe(true)
    nodes.answer = () => MISMATCH
    expect(await clock.during(second)).toEqual(MISMATCH)
  })

  test('where the claim of the first one fails, the next one claims', async () => {
    const { clock, nodes, wait } = process()
    nodes.answer = () => Promise.reject(new Error('a fault of ours'))
    const first = wait('first').catch((cause: Error) => cause.message)
    const second = wait('second')
    expect(await clock.during(first)).toBe('a fault of ours')
    nodes.answer = () => MISMATCH
    expect(await clock.during(second)).toEqual(MISMATCH)
  })

  test('a waiter claims once more when its own time is over, and is told what it then hears', async () => {
    const { clock, claims, wait } = process()
    const patient = wait('patient')
    const short = wait('short', { forMs: 500 })
    expect(await clock.during(short)).toEqual(HELD)
    expect(clock.monoMs()).toBe(500)
    expect(claims.filter(({ by }) => by === 'short')).toEqual([{ by: 'short', atMs: 500 }])
    await clock.advance(10 * MINUTE_MS)
    expect(await patient).toEqual(HELD)
  })

  test('a waiter whose last claim is answered wakes the others', async () => {
    const { clock, nodes, wait } = process()
    const patient = wait('patient')
    const short = wait('short', { forMs: 500 })
    await clock.advance(499)
    nodes.answer = () => (clock.monoMs() === 500 ? MISMATCH : HELD)
    await clock.advance(1)
    expect(await Promise.all([short, patient])).toEqual([MISMATCH, MISMATCH])
    expect(clock.monoMs()).toBe(500)
  })

  test('waiters of another request under the same key claim for themselves, and wait on', async () => {
    const { clock, claims, nodes, wait, claimants } = process()
    const one = wait('one')
    const other = wait('other', { request: 'another request' })
    await clock.advance(1_000)
    expect(claimants().sort()).toEqual(['one', 'other'])
    nodes.answer = () => (claims.at(-1)?.by === 'one' ? MISMATCH : HELD)
    expect(await clock.during(one)).toEqual(MISMATCH)
    const before = claims.length
    await clock.advance(1_000)
    expect(claims.length).toBeGreaterThan(before)
    nodes.answer = () => MISMATCH
    expect(await clock.during(other)).toEqual(MISMATCH)
  })

  test('after one was granted the key, the others begin anew with short pauses', async () => {
    const { clock, claims, nodes, wait } = process()
    for (let index = 0; index < 33; index += 1) void wait(`${index}`)
    await clock.advance(MINUTE_MS)
    let granted = false
    nodes.answer = () => {
      if (granted) return HELD
      granted = true
      return MISMATCH
    }
    await clock.advance(150)
    expect(granted).toBe(true)
    const before = claims.length
    await clock.advance(200)
    expect(claims.length - before).toBeGreaterThan(10)
  })
})
