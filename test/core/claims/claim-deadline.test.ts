/** The wait for a claim ends with its budget; what is granted afterwards is withdrawn. */
import { expect, test } from 'vitest'
import { createBackground } from '../../../src/core/background.ts'
import { withClaimDeadline } from '../../../src/core/claims/claim-deadline.ts'
import type { ClaimRequest, ClaimResult, Lease, Leases } from '../../../src/core/ports.ts'
import { createCluster } from '../../support/cluster.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const REQUEST: ClaimRequest = {
  key: 'k',
  fingerprint: 'f',
  leaseMs: 30_000,
  retentionMs: 60_000,
  budgetMs: 100,
}
const GRANTED: ClaimResult = { kind: 'granted', lease: { key: 'k', token: 1 } as Lease }

function started(heard: readonly (readonly [answered: number, well: number])[] = []) {
  const clock = new VirtualClock()
  const withdrawn: Lease[] = []
  const failures: unknown[] = []
  const { promise, resolve, reject } = Promise.withResolvers<ClaimResult>()
  const leases = {
    claim: ({ onHeard }: ClaimRequest) => {
      for (const [answered, well] of heard) onHeard?.(answered, well)
      return promise
    },
    abortClaim: async (lease: Lease) => {
      withdrawn.push(lease)
      return { kind: 'released' }
    },
  } as unknown as Leases
  const lateClaims = createBackground(Number.POSITIVE_INFINITY, (cause) => void failures.push(cause))
  const inTime = withClaimDeadline(leases, { clock, required: 3, lateClaims })
  let result: ClaimResult | undefined
  const claimed = inTime.claim(REQUEST).then((one) => {
    result = one
  })
  return { clock, withdrawn, failures, lateClaims, resolve, reject, claimed, result: () => result }
}

test('a claim that is decided in time is the caller’s, and leaves no timer', async () => {
  const { clock, resolve, claimed, result, withdrawn } = started()
  resolve(GRANTED)
  await claimed
  expect(result()).toEqual(GRANTED)
  await clock.advance(1_000)
  expect(withdrawn).toEqual([])
  expect(clock.pendingTimers).toBe(0)
})

test.each<[what: string, heard: Parameters<typeof started>[0], expected: ClaimResult]>([
  ['no node answered', [], { kind: 'unavailable', answered: 0, required: 3 }],
  [
    'two of five nodes answered',
    [
      [1, 0],
      [2, 0],
    ],
    { kind: 'unavailable', answered: 2, required: 3 },
  ],
  ['the answers of most did not count', [[1, 4]], { kind: 'unavailable', answered: 1, required: 3, well: 4 }],
  [
    'a majority answered, and no claimant won',
    [[3, 0]],
    { kind: 'contended', retryAfterMs: 1_000, answered: 3 },
  ],
])('when the budget ends and %s, the refusal says so', async (_what, heard, expected) => {
  const { clock, result } = started(heard)
  await clock.advance(99)
  expect(result()).toBeUndefined()
  await clock.advance(1)
  expect(result()).toEqual(expected)
})

test('a claim that waits for a hung node when its budget ends counts the nodes that answered', async () => {
  const clock = new VirtualClock()
  const { nodes, leases } = createCluster(clock, seededRandom(1))
  const key = `dedup:t:e:v:${'0'.repeat(64)}`
  // Three nodes refuse, and no majority shows anything: the round is decided when the last node is heard.
  for (const [index, content] of ['d', 'e', 'f'].entries()) {
    const token = clock.wallMs() * 1_024
    const stands = { key, fingerprint: content.repeat(64), token, owner: 'o'.repeat(32) }
    await nodes[index]?.apply({ kind: 'claim', ...stands, leaseMs: 10_000, keyTtlMs: 60_000 })
  }
  nodes[4]!.before = () => new Promise(() => {})
  const lateClaims = createBackground(Number.POSITIVE_INFINITY, () => {})
  const inTime = withClaimDeadline(leases, { clock, required: 3, lateClaims })
  const claim = clock.during(inTime.claim({ ...REQUEST, key, fingerprint: 'f'.repeat(64) }))
  expect(await claim).toMatchObject({ kind: 'contended', answered: 4 })
})

test('what is granted after the refusal is withdrawn, and nothing else is', async () => {
  const late = started()
  await late.clock.advance(100)
  late.resolve(GRANTED)
  await late.claimed
  await late.clock.advance(0)
  expect(late.withdrawn).toEqual([{ key: 'k', token: 1 }])

  const held = started()
  await held.clock.advance(100)
  held.resolve({ kind: 'held', retryAfterMs: 1 })
  await held.clock.advance(0)
  expect(held.withdrawn).toEqual([])
})

test('a process that stops waits for a claim whose caller is gone, until it is withdrawn', async () => {
  const { clock, resolve, lateClaims, withdrawn } = started()
  expect(lateClaims.running).toBe(0)
  await clock.advance(100)
  expect(lateClaims.running).toBe(1)
  resolve(GRANTED)
  await lateClaims.drained()
  expect(withdrawn).toEqual([{ key: 'k', token: 1 }])
})

test('a claim that fails after the refusal is reported, because no caller hears of it', async () => {
  const { clock, reject, failures } = started()
  await clock.advance(100)
  reject(new Error('broken'))
  await clock.advance(0)
  expect(failures).toEqual([new Error('broken')])
})
