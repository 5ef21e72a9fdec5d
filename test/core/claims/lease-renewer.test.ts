import { describe, expect, test } from 'vitest'
import { validityFrom } from '../../../src/core/claims/lease.ts'
import { renewLease } from '../../../src/core/claims/lease-renewer.ts'
import { driftMs } from '../../../src/core/clock.ts'
import type { CoreEvent } from '../../../src/core/events.ts'
import type { Lease, RenewResult } from '../../../src/core/ports.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const LEASE_MS = 30_000
const VALID_MS = LEASE_MS - driftMs(LEASE_MS)
const WARNING_MS = LEASE_MS * 0.05

/** Answers renewals as `answer` says, at once or when the test releases them. */
function keep(
  answer: (renewal: number) => RenewResult['kind'] | Promise<RenewResult['kind']>,
  random = 0,
  totalHoldMs = Number.POSITIVE_INFINITY,
  renewFraction = 1 / 3,
) {
  const clock = new VirtualClock()
  const events: CoreEvent[] = []
  const renewedAtMs: number[] = []
  const lease: Lease = {
    key: 'dedup:t:e:v:k',
    token: 10,
    owner: 'a'.repeat(32),
    fingerprint: 'f'.repeat(64),
    attempt: 1,
    leaseMs: LEASE_MS,
    retentionMs: 60_000,
    ...validityFrom({ monoMs: clock.monoMs(), wallMs: clock.wallMs() }, LEASE_MS),
  }
  const renewer = renewLease(
    lease,
    {
      leases: {
        renew: async (held) => {
          renewedAtMs.push(clock.monoMs())
          const startedAt = { monoMs: clock.monoMs(), wallMs: clock.wallMs() }
          const kind = await answer(renewedAtMs.length)
          return kind === 'renewed'
            ? { kind, lease: { ...held, ...validityFrom(startedAt, LEASE_MS) } }
            : { kind }
        },
      },
      clock,
      random: { ...seededRandom(1), fraction: () => random },
      events: { publish: (event) => void events.push(event) },
    },
    { renewFraction, totalHoldMs },
  )
  return { clock, events, renewedAtMs, renewer }
}

const never = () => new Promise<never>(() => {})

describe('keeping a lease', () => {
  test('a lease is renewed at every third of its validity', async () => {
    const { clock, renewedAtMs, renewer } = keep(() => 'renewed')
    await clock.advance(VALID_MS + 1)
    expect(renewedAtMs.map(Math.round)).toEqual([1, 2, 3].map((third) => Math.round((third * VALID_MS) / 3)))
    expect(renewer.lost.aborted).toBe(false)
  })

  test.each([0.25, 0.1])(
    'the configuration may renew a lease earlier: at %f of its validity',
    async (share) => {
      const { clock, renewedAtMs, renewer } = keep(() => 'renewed', 0, undefined, share)
      await clock.advance(3 * share * VALID_MS + 1)
      expect(renewedAtMs.map(Math.round)).toEqual(
        [1, 2, 3].map((times) => Math.round(times * share * VALID_MS)),
      )
      renewer.stop('completed')
    },
  )

  test('a lease is kept for as long as renewals succeed', async () => {
    const { clock, renewer } = keep(() => 'renewed')
    await clock.advance(50 * LEASE_MS)
    expect(renewer.lost.aborted).toBe(false)
    expect(renewer.lease().validUntilMonoMs).toBeGreaterThan(50 * LEASE_MS)
  })

  test('each renewal comes up to a tenth early, so that leases taken together drift apart', async () => {
    const { clock, renewedAtMs } = keep(() => 'renewed', 0.999)
    await clock.advance(VALID_MS / 3)
    expect(renewedAtMs[0]).toBeCloseTo((VALID_MS / 3) * 0.9001, 0)
  })

  test('a lease outlives two failed renewals in a row', async () => {
    const { clock, renewedAtMs, renewer } = keep((renewal) => (renewal <= 2 ? 'unavailable' : 'renewed'))
    await clock.advance(2 * LEASE_MS)
    expect(renewer.lost.aborted).toBe(false)
    expect(renewedAtMs.length).toBeGreaterThan(3)
  })
})

describe('the holder is warned before the lease ends', () => {
  test.each([
    ['nodes neither refuse nor grant', () => 'unavailable' as const],
    ['nodes never answer', never],
  ])('where %s', async (_, answer) => {
    const { clock, renewer, events } = keep(answer)
    await clock.advance(VALID_MS - WARNING_MS - 1)
    expect(renewer.lost.aborted).toBe(false)
    await clock.advance(1)
    expect(renewer.lost.aborted).toBe(true)
    expect(events).toMatchObject([
      { kind: 'lease_began' },
      { kind: 'lease_ended', ended: 'expired', remainingMs: WARNING_MS },
    ])
  })

  test('a renewal that answers after the warning changes nothing', async () => {
    const { promise, resolve } = Promise.withResolvers<RenewResult['kind']>()
    const { clock, renewer } = keep(() => promise)
    await clock.advance(VALID_MS)
    resolve('renewed')
    await clock.advance(LEASE_MS)
    expect(renewer.lost.aborted).toBe(true)
    expect(clock.pendingTimers).toBe(0)
  })

  test('failing renewals do not loop hot before the warning', async () => {
    const { clock, renewedAtMs } = keep(() => 'unavailable')
    await clock.advance(LEASE_MS)
    expect(renewedAtMs.length).toBeLessThan(12)
  })

  test.each<[jitter: number, shareOfCeiling: number]>([
    [0, 0.5],
    [0.999_999, 1],
  ])(
    'renewals that fail are tried again after half a second, a second, two and four of thirty, with up to half of it jittered: %f',
    async (jitter, share) => {
      const { clock, renewedAtMs } = keep(() => 'unavailable', jitter)
      await clock.advance(LEASE_MS)
      const waits = renewedAtMs.slice(1).map((at, index) => (at - renewedAtMs[index]!) / 1_000)
      const expected = [0.5, 1, 2, 4].map((ceiling) => ceiling * share)
      for (const [index, wait] of expected.entries()) expect(waits[index]).toBeCloseTo(wait, 3)
      // Then the end of the lease is nearer than the next wait, and a third of what is left counts.
      for (const [index, wait] of [...waits.entries()].slice(expected.length))
        expect(wait).toBeLessThanOrEqual((VALID_MS - renewedAtMs[index]!) / 3_000 + 0.001)
      expect(waits.length).toBeGreaterThanOrEqual(5)
    },
  )

  test('after a renewal that succeeds the usual rhythm returns', async () => {
    const { clock, renewedAtMs, renewer } = keep((renewal) => (renewal === 1 ? 'unavailable' : 'renewed'))
    await clock.advance(VALID_MS)
    const [first = 0, second = 0, third = 0] = renewedAtMs
    expect(second - first).toBeCloseTo(250, 0)
    expect(third - second).toBeCloseTo(VALID_MS / 3, 0)
    renewer.stop('completed')
  })

  test('after a forward step of the wall clock the next failed renewal warns, without a hot loop', async () => {
    const { clock, renewedAtMs, renewer } = keep(() => 'unavailable')
    clock.stepWall(3_600_000)
    await clock.advance(VALID_MS / 3)
    expect(renewer.lost.aborted).toBe(true)
    expect(renewedAtMs.length).toBe(1)
  })
})

test('another holder ends a lease at once', async () => {
  const { clock, renewer, events } = keep(() => 'lost')
  await clock.advance(VALID_MS / 3)
  expect(renewer.lost.aborted).toBe(true)
  expect(String(renewer.lost.reason)).toContain('taken by another holder')
  expect(events).toMatchObject([{ kind: 'lease_began' }, { kind: 'lease_ended', ended: 'lost' }])
  expect(clock.pendingTimers).toBe(0)
})

describe('a stopped renewer', () => {
  test('a stopped renewer leaves no timer, renews no lease and warns no holder', async () => {
    const { clock, renewedAtMs, renewer, events } = keep(() => 'renewed')
    await clock.advance(VALID_MS / 2)
    renewer.stop('completed')
    renewer.stop('abandoned')
    expect(clock.pendingTimers).toBe(0)
    await clock.advance(10 * LEASE_MS)
    expect(renewedAtMs.length).toBe(1)
    expect(renewer.lost.aborted).toBe(false)
    expect(events).toMatchObject([
      { kind: 'lease_began' },
      { kind: 'lease_ended', ended: 'completed', heldMs: VALID_MS / 2 },
    ])
  })

  test('a renewer that is stopped during a renewal ignores its answer', async () => {
    const { promise, resolve } = Promise.withResolvers<RenewResult['kind']>()
    const { clock, renewer } = keep(() => promise)
    await clock.advance(VALID_MS / 3)
    renewer.stop('released')
    resolve('lost')
    await clock.advance(LEASE_MS)
    expect(renewer.lost.aborted).toBe(false)
    expect(clock.pendingTimers).toBe(0)
  })
})

describe('the total hold', () => {
  test('at the total hold the holder is warned, and the lease is left to expire', async () => {
    const { clock, events, renewedAtMs, renewer } = keep(() => 'renewed', 0, 2 * LEASE_MS)
    await clock.advance(2 * LEASE_MS - 1)
    expect(renewer.lost.aborted).toBe(false)
    await clock.advance(1)
    expect(renewer.lost.aborted).toBe(true)
    const renewals = renewedAtMs.length
    await clock.advance(10 * LEASE_MS)
    expect(renewedAtMs.length).toBe(renewals)
    expect(clock.pendingTimers).toBe(0)
    expect(events.at(-1)).toMatchObject({ kind: 'lease_ended', ended: 'expired' })
  })

  test('work that ends before the total hold leaves no timer', async () => {
    const { clock, renewer } = keep(() => 'renewed', 0, 2 * LEASE_MS)
    await clock.advance(LEASE_MS)
    renewer.stop('completed')
    expect(clock.pendingTimers).toBe(0)
  })
})

describe('raising a lease to a larger token', () => {
  test('a raised lease is renewed under the larger token right after a running renewal, and stays so', async () => {
    const first = Promise.withResolvers<RenewResult['kind']>()
    const { clock, renewedAtMs, renewer } = keep((renewal) => (renewal === 1 ? first.promise : 'renewed'))
    await clock.advance(VALID_MS / 3)
    const raised = renewer.renewWithHigherToken(20)
    await clock.advance(0)
    expect([renewedAtMs.length, renewer.lease().token]).toEqual([1, 10])
    first.resolve('renewed')
    expect(await raised).toBe(true)
    expect([renewedAtMs.length, renewer.lease().token]).toEqual([2, 20])
    await clock.advance(VALID_MS)
    expect([renewedAtMs.length > 3, renewer.lease().token, renewer.lost.aborted]).toEqual([true, 20, false])
    renewer.stop('completed')
    expect(clock.pendingTimers).toBe(0)
  })

  test.each<[RenewResult['kind'], lost: boolean]>([
    ['unavailable', false],
    ['lost', true],
  ])('where the renewal is %s, raising fails', async (kind, lost) => {
    const { renewer } = keep(() => kind)
    expect(await renewer.renewWithHigherToken(20)).toBe(false)
    expect(renewer.lost.aborted).toBe(lost)
    renewer.stop('released')
  })
})
