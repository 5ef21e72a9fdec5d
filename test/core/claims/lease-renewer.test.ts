import { describe, expect, test } from 'vitest'
import { validityFrom } from '../../../src/core/claims/lease.ts'
import { renewLease } from '../../../src/core/claims/lease-renewer.ts'
import { driftMs } from '../../../src/core/clock-drift.ts'
import type { CoreEvent } from '../../../src/core/events.ts'
import type { Lease, RenewResult } from '../../../src/core/ports.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const LEASE_MS = 30_000
const VALID_MS = LEASE_MS - driftMs(LEASE_MS)
const WARNING_MS = LEASE_MS * 0.05

/** Answers renewals as `answer` says, at once or when the test lets it. */
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

describe('a lease is kept', () => {
  test('by renewing it at every third of its validity', async () => {
    const { clock, renewedAtMs, renewer } = keep(() => 'renewed')
    await clock.advance(VALID_MS + 1)
    expect(renewedAtMs.map(Math.round)).toEqual([1, 2, 3].map((third) => Math.round((third * VALID_MS) / 3)))
    expect(renewer.lost.aborted).toBe(false)
  })

  test.each([0.25, 0.1])('or earlier: at %f of it, where the configuration says so', async (share) => {
    const { clock, renewedAtMs, renewer } = keep(() => 'renewed', 0, undefined, share)
    await clock.advance(3 * share * VALID_MS + 1)
    expect(renewedAtMs.map(Math.round)).toEqual(
      [1, 2, 3].map((times) => Math.round(times * share * VALID_MS)),
    )
    renewer.stop('completed')
  })

  test('for as long as renewals succeed', async () => {
    const { clock, renewer } = keep(() => 'renewed')
    await clock.advance(50 * LEASE_MS)
    expect(renewer.lost.aborted).toBe(false)
    expect(renewer.lease().validUntilMonoMs).toBeGreaterThan(50 * LEASE_MS)
  })

  test('a little earlier each, by up to a tenth, so that leases taken together part', async () => {
    const { clock, renewedAtMs } = keep(() => 'renewed', 0.999)
    await clock.advance(VALID_MS / 3)
    expect(renewedAtMs[0]).toBeCloseTo((VALID_MS / 3) * 0.9001, 0)
  })

  test('over two renewals in a row that fail', async () => {
    const { clock, renewedAtMs, renewer } = keep((renewal) => (renewal <= 2 ? 'unavailable' : 'renewed'))
    await clock.advance(2 * LEASE_MS)
    expect(renewer.lost.aborted).toBe(false)
    expect(renewedAtMs.length).toBeGreaterThan(3)
  })
})

describe('the holder is warned before the lease ends', () => {
  test.each([
    ['nodes refuse nothing and grant nothing', () => 'unavailable' as const],
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

  test('and what a renewal says after that makes no difference', async () => {
    const { promise, resolve } = Promise.withResolvers<RenewResult['kind']>()
    const { clock, renewer } = keep(() => promise)
    await clock.advance(VALID_MS)
    resolve('renewed')
    await clock.advance(LEASE_MS)
    expect(renewer.lost.aborted).toBe(true)
    expect(clock.pendingTimers).toBe(0)
  })

  test('without renewing in a hot loop until then', async () => {
    const { clock, renewedAtMs } = keep(() => 'unavailable')
    await clock.advance(LEASE_MS)
    expect(renewedAtMs.length).toBeLessThan(12)
  })

  test('at the next failed renewal where the wall clock was set forward, without a hot loop', async () => {
    const { clock, renewedAtMs, renewer } = keep(() => 'unavailable')
    clock.stepWall(3_600_000)
    await clock.advance(VALID_MS / 3)
    expect(renewer.lost.aborted).toBe(true)
    expect(renewedAtMs.length).toBe(1)
  })
})

test('another holder ends it at once', async () => {
  const { clock, renewer, events } = keep(() => 'lost')
  await clock.advance(VALID_MS / 3)
  expect(renewer.lost.aborted).toBe(true)
  expect(String(renewer.lost.reason)).toContain('taken by another holder')
  expect(events).toMatchObject([{ kind: 'lease_began' }, { kind: 'lease_ended', ended: 'lost' }])
  expect(clock.pendingTimers).toBe(0)
})

describe('when it is stopped', () => {
  test('no timer is left, nothing is renewed any more, and nobody is warned', async () => {
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

  test('during a renewal, what that says makes no difference', async () => {
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

describe('however long the work takes, a lease is kept no longer than the total hold', () => {
  test('then its holder is told, and it is left to lapse', async () => {
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

  test('and work that ends before leaves no timer behind', async () => {
    const { clock, renewer } = keep(() => 'renewed', 0, 2 * LEASE_MS)
    await clock.advance(LEASE_MS)
    renewer.stop('completed')
    expect(clock.pendingTimers).toBe(0)
  })
})

describe('raised to a larger token', () => {
  test('it is renewed under it at once, after a renewal that is under way, and kept under it', async () => {
    const first = Promise.withResolvers<RenewResult['kind']>()
    const { clock, renewedAtMs, renewer } = keep((renewal) => (renewal === 1 ? first.promise : 'renewed'))
    await clock.advance(VALID_MS / 3)
    const raised = renewer.raise(20)
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
  ])('%s: it is told that it is not', async (kind, lost) => {
    const { renewer } = keep(() => kind)
    expect(await renewer.raise(20)).toBe(false)
    expect(renewer.lost.aborted).toBe(lost)
    renewer.stop('released')
  })
})
