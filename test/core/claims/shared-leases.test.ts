// Which duplicates one process can answer by itself.
import { beforeEach, describe, expect, test } from 'vitest'
import { type SharedLeases, shareLeases } from '../../../src/core/claims/shared-leases.ts'
import { SILENT } from '../../../src/core/events.ts'
import type { ClaimResult, Lease, Leases } from '../../../src/core/ports.ts'
import type { StoredOutcome } from '../../../src/core/record/stored-outcome.ts'
import { pause } from '../../../src/core/retry.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const LEASE_MS = 30_000
const RETENTION_MS = 60_000
const request = {
  key: 'dedup:t:e:v:1',
  fingerprint: 'a'.repeat(64),
  leaseMs: LEASE_MS,
  retentionMs: RETENTION_MS,
  budgetMs: 100,
}
const other = { ...request, fingerprint: 'b'.repeat(64) }

let clock: VirtualClock
/** How long the answer to a completion takes. */
let recordedAfterMs: number
let claims: PromiseWithResolvers<ClaimResult>[]
let shared: SharedLeases

const lease = (): Lease => ({
  ...request,
  token: 1_000_000_000_000_000,
  owner: 'c'.repeat(32),
  attempt: 1,
  validUntilMonoMs: clock.monoMs() + LEASE_MS,
  validUntilWallMs: clock.wallMs() + LEASE_MS,
})
const response = (body: string): StoredOutcome => ({
  kind: 'response',
  status: 201,
  headers: [],
  body: Buffer.from(body),
  completedAtWallMs: clock.wallMs(),
})

const unexpected = async () => {
  throw new Error('only reservations renew with a higher token and abort claims')
}

/** Nodes that answer a claim when the test says so, and any other command at once. */
const nodes = (): Leases => ({
  claim: () => {
    const claim = Promise.withResolvers<ClaimResult>()
    claims.push(claim)
    return claim.promise
  },
  renew: async (held) => ({
    kind: 'renewed',
    lease: {
      ...held,
      validUntilMonoMs: clock.monoMs() + LEASE_MS,
      validUntilWallMs: clock.wallMs() + LEASE_MS,
    },
  }),
  renewWithHigherToken: unexpected,
  abortClaim: unexpected,
  purge: unexpected,
  complete: async () => {
    if (recordedAfterMs > 0) await pause(clock, recordedAfterMs)
    return { kind: 'recorded' }
  },
  release: async () => ({ kind: 'released' }),
  read: async () => ({ kind: 'absent' }),
})

beforeEach(() => {
  clock = new VirtualClock()
  claims = []
  recordedAfterMs = 0
  shared = shareLeases({ leases: nodes(), clock, events: SILENT, outcomeBytesMax: 10_000 })
})

async function granted(): Promise<Lease> {
  const claim = shared.claim(request)
  claims.at(-1)?.resolve({ kind: 'granted', lease: lease() })
  const result = await claim
  if (result.kind !== 'granted') throw new Error(result.kind)
  return result.lease
}

describe('duplicates while the first claim is under way', () => {
  test('of duplicates in one round one is granted, others are held, another fingerprint is a mismatch', async () => {
    const all = [shared.claim(request), shared.claim(request), shared.claim(request), shared.claim(other)]
    expect(claims).toHaveLength(1)
    claims[0]?.resolve({ kind: 'granted', lease: lease() })
    expect((await Promise.all(all)).map(({ kind }) => kind)).toEqual(['granted', 'held', 'held', 'mismatch'])
    expect(claims).toHaveLength(1)
  })

  test.each<ClaimResult>([
    { kind: 'held', retryAfterMs: 5 },
    { kind: 'mismatch' },
    { kind: 'unavailable', answered: 1, required: 3 },
    { kind: 'damaged' },
  ])('duplicates share the answer to the first: $kind', async (told) => {
    const all = [shared.claim(request), shared.claim(request)]
    claims[0]?.resolve(told)
    expect(await Promise.all(all)).toEqual([told, told])
    expect(claims).toHaveLength(1)
  })

  test('a duplicate of another fingerprint claims for itself where the first was not granted', async () => {
    const first = shared.claim(request)
    const second = shared.claim(other)
    claims[0]?.resolve({ kind: 'mismatch' })
    expect(await first).toEqual({ kind: 'mismatch' })
    await clock.advance(0)
    expect(claims).toHaveLength(2)
    claims[1]?.resolve({ kind: 'held', retryAfterMs: 7 })
    expect(await second).toEqual({ kind: 'held', retryAfterMs: 7 })
  })
})

describe('duplicates while this process holds the claim', () => {
  test('a duplicate is held for the rest of the lease, renewals included', async () => {
    const mine = await granted()
    await clock.advance(20_000)
    expect(await shared.claim(request)).toMatchObject({ kind: 'held', retryAfterMs: 10_000 })
    await shared.renew(mine)
    expect(await shared.claim(request)).toMatchObject({ kind: 'held', retryAfterMs: LEASE_MS })
  })

  test('a duplicate claims on the nodes once the lease has ended or was released', async () => {
    const mine = await granted()
    await clock.advance(LEASE_MS)
    void shared.claim(request)
    expect(claims).toHaveLength(2)
    claims[1]?.resolve({ kind: 'granted', lease: lease() })
    await clock.advance(0)
    await shared.release({ ...mine, ...lease() })
    void shared.claim(request)
    expect(claims).toHaveLength(3)
  })

  test('a waiting duplicate learns when the lease ends', async () => {
    const mine = await granted()
    let ended = false
    void shared.whenEnded(request.key)?.then(() => {
      ended = true
    })
    await shared.complete(mine, response('done'))
    await clock.advance(0)
    expect(ended).toBe(true)
    expect(shared.whenEnded(request.key)).toBeUndefined()
  })

  test('a claim under a given owner always goes to the nodes: it may be the holder', async () => {
    await granted()
    void shared.claim({ ...request, owner: 'd'.repeat(32) })
    expect(claims).toHaveLength(2)
  })
})

test('a claim that expires is forgotten, and a renewed one is not', async () => {
  const claimed = async (key: string): Promise<Lease> => {
    const claim = shared.claim({ ...request, key })
    claims.at(-1)?.resolve({ kind: 'granted', lease: { ...lease(), key } })
    const result = await claim
    if (result.kind !== 'granted') throw new Error(result.kind)
    return result.lease
  }
  const kept = await claimed('kept')
  const keys: string[] = []
  for (let round = 0; round < 5; round += 1) {
    for (let number = 0; number < 1_000; number += 1) {
      keys.push(`${round}-${number}`)
      await claimed(`${round}-${number}`)
    }
    await clock.advance(LEASE_MS - 1)
    await shared.renew(kept)
    await clock.advance(1)
  }
  expect(keys.filter((key) => shared.whenEnded(key) !== undefined).length).toBeLessThan(2_000)
  expect(await shared.claim({ ...request, key: 'kept' })).toMatchObject({
    kind: 'held',
    retryAfterMs: LEASE_MS - 1,
  })
})

describe('duplicates of a recorded outcome', () => {
  test('a duplicate gets a recorded outcome without a round, until its retention is over', async () => {
    const mine = await granted()
    await shared.complete(mine, response('done'))
    expect(await shared.claim(request)).toMatchObject({
      kind: 'duplicate',
      outcome: { body: Buffer.from('done') },
    })
    expect(await shared.claim(other)).toEqual({ kind: 'mismatch' })
    expect(claims).toHaveLength(1)
    await clock.advance(RETENTION_MS)
    void shared.claim(request)
    expect(claims).toHaveLength(2)
  })

  test.each([
    ['by the clock of another machine it was recorded in an hour', 3_600_000],
    ['or an hour ago', -3_600_000],
  ])(
    'an outcome that came from the nodes is kept until the end that it says itself: %s',
    async (_, aheadMs) => {
      const first = shared.claim(request)
      const outcome = { ...response('done'), completedAtWallMs: clock.wallMs() + aheadMs }
      await clock.advance(10_000)
      claims[0]?.resolve({ kind: 'duplicate', outcome, token: 1, attempt: 1, lastsMs: 5_000 })
      expect((await first).kind).toBe('duplicate')
      await clock.advance(4_999)
      expect((await shared.claim(request)).kind).toBe('duplicate')
      await clock.advance(1)
      void shared.claim(request)
      expect(claims).toHaveLength(2)
    },
  )

  test.each([
    ['recorded here', async () => void (await shared.complete(await granted(), response('done')))],
    [
      'from the nodes',
      async () => {
        const first = shared.claim(request)
        const found = { outcome: response('done'), token: 1, attempt: 1, lastsMs: RETENTION_MS }
        claims.at(-1)?.resolve({ kind: 'duplicate', ...found })
        await first
      },
    ],
  ])(
    'an outcome %s is forgotten with its retention by a machine that was suspended meanwhile',
    async (_, learn) => {
      await learn()
      // The monotonic clock missed the suspension.
      clock.stepWall(RETENTION_MS - 1)
      expect((await shared.claim(request)).kind).toBe('duplicate')
      clock.stepWall(1)
      void shared.claim(other)
      expect(claims).toHaveLength(2)
    },
  )

  test('an outcome is forgotten with its retention where the wall clock was set back meanwhile', async () => {
    await shared.complete(await granted(), response('done'))
    clock.stepWall(-RETENTION_MS)
    await clock.advance(RETENTION_MS)
    void shared.claim(request)
    expect(claims).toHaveLength(2)
  })

  test('an outcome whose recording was answered late is forgotten as early as the nodes may forget it', async () => {
    const mine = await granted()
    recordedAfterMs = 1_500
    const completed = shared.complete(mine, response('done'))
    await clock.advance(1_500)
    expect((await completed).kind).toBe('recorded')
    await clock.advance(RETENTION_MS - 1_500)
    void shared.claim(request)
    expect(claims).toHaveLength(2)
  })

  test('an outcome takes no more memory than is counted: a part of a node reply does not keep the whole', async () => {
    const received = Buffer.alloc(1_000_000, 'x')
    const outcome = { ...response(''), body: received.subarray(500, 700) }
    await shared.complete(lease(), outcome)
    const replayed = await shared.claim(request)
    if (replayed.kind !== 'duplicate' || replayed.outcome.kind !== 'response') throw new Error(replayed.kind)
    const { body } = replayed.outcome
    expect(body.toString()).toBe('x'.repeat(200))
    expect(body.buffer.byteLength).toBe(200)
  })

  test('outcomes are dropped, the longest unused first, when memory is short', async () => {
    const complete = (key: string, bytes: number) =>
      shared.complete({ ...lease(), key }, response('x'.repeat(bytes)))
    const asks = async (key: string) => {
      const before = claims.length
      void shared.claim({ ...request, key })
      return claims.length > before
    }
    await complete('first', 4_000)
    await complete('second', 4_000)
    expect(await asks('first')).toBe(false)
    await complete('third', 4_000)
    expect(await asks('first')).toBe(false)
    expect(await asks('second')).toBe(true)
    await complete('larger than all memory', 20_000)
    expect(await asks('larger than all memory')).toBe(true)
    expect(await asks('third')).toBe(false)
  })
})
