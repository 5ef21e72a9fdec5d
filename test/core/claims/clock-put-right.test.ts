/** A sidecar whose clock was ahead by more than nodes tolerate, and was put right since. */
import { expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { SILENT } from '../../../src/core/events.ts'
import type { ClaimResult, Lease, Leases, NodeAnswer, RecordNode } from '../../../src/core/ports.ts'
import type { StoredOutcome } from '../../../src/core/record/stored-outcome.ts'
import { millisecondOf } from '../../../src/core/record/token.ts'
import { EmbeddedNode } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const LEASE_MS = 1_000
const RETENTION_MS = 6_000
const TOKEN_AHEAD_MS = 10_000

/** Five nodes with one clock, of which some are away, and sidecars with clocks of their own. */
function cluster() {
  const clock = new VirtualClock()
  const away = new Set<number>()
  let refusedTokens = 0
  const nodes = [0, 1, 2, 3, 4].map((index): RecordNode => {
    const node = new EmbeddedNode(`node-${index}`, () => clock.wallMs(), TOKEN_AHEAD_MS)
    return {
      name: node.name,
      execute: async (command): Promise<NodeAnswer> => {
        if (away.has(index)) return { kind: 'unreachable', reason: 'refused', detail: 'away' }
        const answer = node.apply(command)
        if (answer.kind === 'skewed') refusedTokens += 1
        return answer
      },
    }
  })
  let sidecars = 0
  /** @param lostMs what both of its clocks have lost by being slowed down */
  const sidecar = (aheadMs = () => 0, lostMs = () => 0): Leases => {
    sidecars += 1
    const own: Clock = {
      monoMs: () => clock.monoMs() - lostMs(),
      wallMs: () => clock.wallMs() + aheadMs() - lostMs(),
      timer: (delayMs, fire) => clock.timer(delayMs, fire),
    }
    const quorum = createRedlockQuorum({ nodes, clock: own, events: SILENT })
    return createLeases({ quorum, clock: own, random: seededRandom(sidecars), events: SILENT })
  }
  const claim = (leases: Leases, key: string): Promise<ClaimResult> =>
    clock.during(
      leases.claim({
        key,
        fingerprint: 'f'.repeat(64),
        leaseMs: LEASE_MS,
        retentionMs: RETENTION_MS,
        budgetMs: 100,
      }),
    )
  const granted = async (leases: Leases, key: string): Promise<Lease> => {
    const result = await claim(leases, key)
    if (result.kind !== 'granted') throw new Error(result.kind)
    return result.lease
  }
  return { clock, away, sidecar, claim, granted, refusedTokens: () => refusedTokens }
}

const outcome = (text: string): StoredOutcome => ({
  kind: 'response',
  status: 201,
  headers: [],
  body: Buffer.from(text),
  completedAtWallMs: 0,
})

test('a late outcome of an earlier execution does not win over one that was recorded since', async () => {
  const { clock, away, sidecar, claim, granted } = cluster()
  let aheadMs = 60_000
  const [early, corrected, third] = [sidecar(), sidecar(() => aheadMs), sidecar()]
  // The nodes refuse its tokens, and it rewinds them. Then its clock is set right.
  await granted(corrected, 'another')
  aheadMs = 0
  await clock.advance(1_000)

  const first = await granted(early, 'key')
  await clock.advance(5_000)
  // Only one node hears of the outcome, and it keeps it for a retention.
  for (const index of [0, 1, 2, 3]) away.add(index)
  await clock.during(early.complete(first, outcome('first')))
  away.clear()
  // By now the others have forgotten the claim, and the request is executed anew.
  await clock.advance(2_500)
  away.add(4)
  const second = await granted(corrected, 'key')
  expect(second.token).toBeGreaterThan(first.token)
  expect(await clock.during(corrected.complete(second, outcome('second')))).toEqual({ kind: 'recorded' })

  away.clear()
  const recorded = { kind: 'duplicate', outcome: outcome('second') }
  expect(await claim(third, 'key')).toMatchObject(recorded)
  for (const index of [2, 3]) away.add(index)
  expect(await claim(third, 'key')).toMatchObject(recorded)
})

test('tokens lag for one claim at most where a clock was slowed down until it was right', async () => {
  const { clock, sidecar, granted } = cluster()
  let lostMs = 0
  const corrected = sidecar(
    () => 60_000,
    () => lostMs,
  )
  await granted(corrected, 'first')
  await clock.advance(600_000)
  lostMs = 60_000
  await granted(corrected, 'second')
  const { token } = await granted(corrected, 'third')
  expect(Math.abs(millisecondOf(token) - clock.wallMs())).toBeLessThan(10)
})

test('while a clock stays ahead the nodes refuse one proposal, and none after it', async () => {
  const { clock, sidecar, granted, refusedTokens } = cluster()
  const ahead = sidecar(() => 60_000)
  await granted(ahead, 'first')
  expect(refusedTokens()).toBe(5)
  for (let n = 0; n < 100; n += 1) {
    await clock.advance(1_000)
    const { token } = await granted(ahead, `key-${n}`)
    expect(Math.abs(millisecondOf(token) - clock.wallMs())).toBeLessThan(10)
  }
  expect(refusedTokens()).toBe(5)
})
