/** A sidecar that has just started, and a node whose clock jumped a moment before, while a lease was running. */

import { expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import { SILENT } from '../../../src/core/events.ts'
import { apartFromMost } from '../../../src/core/nodes/clock-samples.ts'
import { watchNodeClocks } from '../../../src/core/nodes/node-clocks.ts'
import type { ClaimRequest, ClaimResult, NodeAnswer, RecordNode } from '../../../src/core/ports.ts'
import { EmbeddedNode } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const LONGEST_LEASE_MS = 60_000

/** Five nodes, each with a clock of its own, for sidecars that start when they like. */
function cluster() {
  const clock = new VirtualClock()
  const aheadMs = [0, 0, 0, 0, 0]
  const roundTripMs = [0, 0, 0, 0, 0]
  const nodes = aheadMs.map(
    (_, index) => new EmbeddedNode(`node-${index}`, () => clock.wallMs() + (aheadMs[index] ?? 0), 10_000),
  )
  const longest = { leaseMs: LONGEST_LEASE_MS }
  let sidecars = 0
  const start = (reaches: readonly number[] = [0, 1, 2, 3, 4]) => {
    const all = nodes.map(
      (node, index): RecordNode => ({
        name: node.name,
        execute: async (command): Promise<NodeAnswer> =>
          reaches.includes(index)
            ? node.apply(command)
            : { kind: 'unreachable', reason: 'refused', detail: 'away' },
      }),
    )
    const watched = watchNodeClocks({
      nodes: all,
      clock,
      events: SILENT,
      suspendMs: () => longest.leaseMs,
      maxSkewMs: 5_000,
      enforce: false,
      toleratedStepMs: 1_000,
    })
    const poll = () => {
      for (const index of reaches) {
        const receivedMonoMs = clock.monoMs()
        const sentMonoMs = receivedMonoMs - (roundTripMs[index] ?? 0)
        const nodeMs = Math.floor(clock.wallMs()) + (aheadMs[index] ?? 0)
        watched.saw(index, { nodeMs, sentMonoMs, receivedMonoMs }, clock.wallMs())
      }
    }
    poll()
    sidecars += 1
    const random = seededRandom(sidecars)
    const quorum = createRedlockQuorum({ nodes: watched.nodes, clock, events: SILENT })
    const leases = createLeases({ quorum, clock, random, events: SILENT })
    const claim = async (more: Partial<ClaimRequest> = {}): Promise<ClaimResult> => {
      const claimed = leases.claim({
        key: 'k',
        fingerprint: 'f'.repeat(64),
        leaseMs: 10_000,
        retentionMs: 60_000,
        budgetMs: 100,
        ...more,
      })
      await clock.advance(200)
      return claimed
    }
    return { claim, poll }
  }
  /** Polls once a second, as a sidecar does. */
  const pass = async (ms: number, ...watching: readonly { poll(): void }[]) => {
    for (let left = ms; left > 0; left -= 1_000) {
      await clock.advance(Math.min(left, 1_000))
      for (const one of watching) one.poll()
    }
  }
  return { clock, aheadMs, roundTripMs, longest, start, pass }
}

test.each([900, 300, 150])(
  'a lease is not granted again before it is over where a node jumped %i ms ahead before the other sidecar started',
  async (jumpMs) => {
    const { clock, aheadMs, start, pass } = cluster()
    const holder = await start([0, 1, 2]).claim()
    if (holder.kind !== 'granted') throw new Error(holder.kind)
    aheadMs[2] = jumpMs
    const other = start()
    await pass(holder.lease.validUntilMonoMs - clock.monoMs() - 20, other)
    const early = await other.claim()
    // A grant is right only once the first holder may do no more.
    expect(early.kind === 'granted' && clock.monoMs() - 200 < holder.lease.validUntilMonoMs).toBe(false)
    await pass(2_000, other)
    expect(await other.claim()).toMatchObject({ kind: 'granted' })
  },
)

test('an expired claim is taken over by a clock that was watched for the longest lease of any sidecar, as it is known then', async () => {
  const { aheadMs, longest, start, pass } = cluster()
  longest.leaseMs = 2_000
  aheadMs.splice(0, 5, 0, 200, 400, 600, 800)
  expect(await start().claim()).toMatchObject({ kind: 'granted' })
  const watching = start()
  await pass(10_900, watching)
  longest.leaseMs = LONGEST_LEASE_MS
  expect(await watching.claim()).toMatchObject({ kind: 'unavailable' })
  await pass(LONGEST_LEASE_MS - 10_900, watching)
  expect(await watching.claim()).toMatchObject({ kind: 'granted', lease: { attempt: 2 } })
})

test('where clocks agree as closely as NTP keeps them, a sidecar takes an expired claim over at once', async () => {
  const { aheadMs, start, pass } = cluster()
  aheadMs.splice(0, 5, 3, -4, 5, 0, -2)
  expect(await start().claim()).toMatchObject({ kind: 'granted' })
  await pass(10_500)
  expect(await start().claim()).toMatchObject({ kind: 'granted', lease: { attempt: 2 } })
})

test('where clocks disagree a free key is granted at once, an expired one after the longest lease', async () => {
  const { aheadMs, start, pass } = cluster()
  aheadMs.splice(0, 5, 0, 200, 400, 600, 800)
  expect(await start().claim()).toMatchObject({ kind: 'granted' })
  await pass(10_900)
  const fresh = start()
  expect(await fresh.claim({ key: 'free' })).toMatchObject({ kind: 'granted' })
  expect(await fresh.claim()).toMatchObject({ kind: 'unavailable' })
  await pass(LONGEST_LEASE_MS, fresh)
  expect(await fresh.claim()).toMatchObject({ kind: 'granted', lease: { attempt: 2 } })
})

test('a clock that was not sampled for a while is judged as at first sight: drift may hide a jump', async () => {
  const { aheadMs, start, pass } = cluster()
  const watching = start()
  await pass(LONGEST_LEASE_MS + 1_000, watching)
  // Cut off from it, and another sidecar claims there meanwhile.
  await pass(20_000)
  const holder = await start([0, 1, 2]).claim()
  if (holder.kind !== 'granted') throw new Error(holder.kind)
  aheadMs[2] = 150
  // The holder may go on for 28 ms more.
  await pass(9_670)
  watching.poll()
  expect((await watching.claim()).kind).not.toBe('granted')
})

test('the uncertainty of a round trip counts as a difference', () => {
  const exact = { aheadMs: 0, uncertaintyMs: 0 }
  const vague = { aheadMs: 1, uncertaintyMs: 40 }
  expect(apartFromMost(exact, [exact, vague, vague], 2)).toBe(41)
  expect(apartFromMost(exact, [exact, { aheadMs: 5, uncertaintyMs: 1 }, vague], 2)).toBe(6)
  expect(apartFromMost(exact, [exact], 2)).toBe(Number.POSITIVE_INFINITY)
})
