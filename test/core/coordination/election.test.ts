/** When followers claim the leadership: seldom while somebody leads, and soon once nobody does. */
import { expect, onTestFinished, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import { campaign } from '../../../src/core/coordination/election.ts'
import { SILENT } from '../../../src/core/events.ts'
import type { Leases } from '../../../src/core/ports.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const KEY = 'dedup::office:sweeper'
const LEASE_MS = 15_000

function cluster() {
  const clock = new VirtualClock()
  const nodes = createEmbeddedNodes(3, clock, 10_000, SILENT)
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  const candidate = (seed: number) => {
    const random = seededRandom(seed)
    const leases = createLeases({ quorum, clock, random, events: SILENT })
    let claims = 0
    const counted: Leases = {
      ...leases,
      claim: (request) => {
        claims += 1
        return leases.claim(request)
      },
    }
    const one = campaign({
      recordKey: KEY,
      leaseMs: LEASE_MS,
      lead: ({ over }) => new Promise((resolve) => over.addEventListener('abort', () => resolve())),
      onFailure: (cause) => {
        throw cause
      },
      leases: counted,
      clock,
      random,
      events: SILENT,
    })
    onTestFinished(() => clock.during(Promise.resolve(one[Symbol.asyncDispose]())))
    return { one, claims: () => claims }
  }
  /** Nobody renews it, and nobody gives it back. */
  const leaseOfTheDead = () => {
    const leases = createLeases({ quorum, clock, random: seededRandom(9), events: SILENT })
    const terms = { leaseMs: LEASE_MS, retentionMs: 3_600_000, budgetMs: 500 }
    return clock.during(leases.claim({ key: KEY, fingerprint: 'f'.repeat(64), ...terms }))
  }
  return { clock, candidate, leaseOfTheDead }
}

async function leaderAndFollower(seed: number) {
  const { clock, candidate } = cluster()
  const leader = candidate(seed)
  await clock.advance(1_000)
  expect(leader.one.leading).toBe(true)
  const follower = candidate(seed + 100)
  await clock.advance(60_000)
  return { clock, leader, follower }
}

const SEEDS = [1, 2, 3, 4, 5]

test.each(SEEDS)('a follower claims about once in a lease while somebody leads, dice %i', async (seed) => {
  const { clock, follower } = await leaderAndFollower(seed)
  const before = follower.claims()
  await clock.advance(20 * LEASE_MS)
  expect(follower.one).toMatchObject({ leading: false, filled: true })
  expect(follower.claims() - before).toBeLessThanOrEqual(30)
})

test.each(SEEDS)('a follower leads within a lease after the leader has stopped, dice %i', async (seed) => {
  const { clock, leader, follower } = await leaderAndFollower(seed)
  await clock.during(Promise.resolve(leader.one[Symbol.asyncDispose]()))
  await clock.advance(LEASE_MS + 1_000)
  expect(follower.one.leading).toBe(true)
})

test.each(SEEDS)(
  'a follower leads within a third of a lease after a dead leader’s is over, dice %i',
  async (seed) => {
    const { clock, candidate, leaseOfTheDead } = cluster()
    await leaseOfTheDead()
    const follower = candidate(seed)
    await clock.advance(LEASE_MS + LEASE_MS / 3 + 1_000)
    expect(follower.one.leading).toBe(true)
  },
)
