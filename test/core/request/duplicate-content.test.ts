/** One content under two keys, in mode `both`: only one of them is executed, whichever nodes are away. */
import { describe, expect, test } from 'vitest'
import { createBackground } from '../../../src/core/background.ts'
import { shareLeases } from '../../../src/core/claims/shared-leases.ts'
import { createWaiters } from '../../../src/core/claims/waiters.ts'
import { deduplicate } from '../../../src/core/deduplicate.ts'
import type { Outcome } from '../../../src/core/outcome.ts'
import type { ForwardResult } from '../../../src/core/ports.ts'
import type { DedupPolicy, DedupPorts } from '../../../src/core/protected-request.ts'
import { fingerprintOfName } from '../../../src/core/request/identity.ts'
import { pause } from '../../../src/core/retry.ts'
import { createCluster, embeddedNodes } from '../../support/cluster.ts'
import { POLICY as USUAL } from '../../support/policies.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const { leaseMs: LEASE_MS, retentionMs: RETENTION_MS } = USUAL
const CONTENT = `dedup:t:e:v:content:${'c'.repeat(64)}`
const keyOf = (name: string) => `dedup:t:e:v:${name.repeat(64)}`

const POLICY: DedupPolicy = { ...USUAL, totalHoldMs: 24 * 3_600_000 }

function answeredWith(status: number): ForwardResult {
  return { kind: 'answered', response: { status, headers: [], body: Buffer.from('paid') } }
}

/** Two sidecars on five nodes, and an application that answers as the test says. */
function twoSidecars() {
  const clock = new VirtualClock()
  const random = seededRandom(11)
  const cluster = createCluster(clock, random)
  const portsOf = (): DedupPorts => {
    const leases = shareLeases({ leases: cluster.sidecar(), clock, events: cluster, outcomeBytesMax: 10_000 })
    return {
      leases,
      whenEnded: leases.whenEnded,
      localLeases: createCluster(clock, random, embeddedNodes(1, clock)).leases,
      waiters: createWaiters(10, 10),
      background: createBackground(10, () => {}),
      clock,
      random,
      events: cluster,
    }
  }
  const sidecars = [portsOf(), portsOf()]
  const carriedOut: string[] = []
  /** A request of `key`, all of the same content, through one of the sidecars. */
  const send = (
    key: string,
    sidecar: 0 | 1,
    result: ForwardResult | Promise<ForwardResult> = answeredWith(201),
  ): Promise<Outcome> =>
    deduplicate(
      {
        recordKey: keyOf(key),
        fingerprint: 'f'.repeat(64),
        contentRecord: { recordKey: CONTENT, fingerprint: fingerprintOfName(keyOf(key)) },
        policy: POLICY,
        forward: async () => {
          carriedOut.push(key)
          return result
        },
      },
      sidecars[sidecar] as DedupPorts,
    )
  return { clock, cluster, sidecars, carriedOut, send }
}

/** All ways in which at most two of five nodes are away. */
const AWAY: readonly (readonly number[])[] = [
  [],
  ...[0, 1, 2, 3, 4].flatMap((one) => [
    [one],
    ...[0, 1, 2, 3, 4].filter((other) => other > one).map((other) => [one, other]),
  ]),
]

describe('one content under two keys, one after the other', () => {
  test.each(AWAY.map((first) => ({ first })))(
    'one content under two keys, one after the other, is executed once, with nodes $first away at first and any two later',
    async ({ first }) => {
      for (const later of AWAY) {
        const { clock, cluster, carriedOut, send } = twoSidecars()
        cluster.set('deaf', ...first)
        expect(await clock.during(send('1', 0))).toMatchObject({ kind: 'created' })
        cluster.set('well', ...first)
        cluster.set('deaf', ...later)
        const refused = await clock.during(send('2', 1))
        expect(['duplicate_content', 'unavailable'], `${first} then ${later}`).toContain(refused.kind)
        cluster.set('well', ...later)
        expect(await clock.during(send('2', 1))).toEqual({ kind: 'duplicate_content' })
        expect(await clock.during(send('1', 1))).toMatchObject({ kind: 'replayed' })
        expect(carriedOut).toEqual(['1'])
      }
    },
  )
})

test('one content under two keys at once is never executed for both, with slow nodes and two of them away', async () => {
  let refused = 0
  for (let seed = 1; seed <= 300; seed += 1) {
    const { clock, cluster, carriedOut, send } = twoSidecars()
    const dice = seededRandom(seed)
    for (const node of cluster.nodes) node.before = () => pause(clock, dice.fraction() * 10)
    const somewhere = () => Math.floor(dice.fraction() * 5)
    cluster.set('deaf', somewhere(), somewhere())
    const both = Promise.all((['1', '2'] as const).map((key, at) => send(key, at as 0 | 1)))
    await clock.advance(dice.fraction() * 30)
    cluster.set('well', 0, 1, 2, 3, 4)
    cluster.set('deaf', somewhere(), somewhere())
    const outcomes = await clock.during(both)
    // Both were answered: send each once more while two nodes may be away.
    cluster.set('well', 0, 1, 2, 3, 4)
    cluster.set('deaf', somewhere(), somewhere())
    for (const [at, key] of ['1', '2'].entries()) outcomes.push(await clock.during(send(key, at as 0 | 1)))
    expect(new Set(carriedOut).size, `seed ${seed}: ${carriedOut}`).toBeLessThanOrEqual(1)
    refused += outcomes.filter(({ kind }) => kind === 'duplicate_content').length
  }
  expect(refused).toBeGreaterThan(100)
})

describe('the mark of a content', () => {
  /** A request that the application has begun and not answered. */
  async function begun(on: ReturnType<typeof twoSidecars>, key: string, sidecar: 0 | 1) {
    const { promise, resolve } = Promise.withResolvers<ForwardResult>()
    const calls = on.carriedOut.length
    const outcome = on.send(key, sidecar, promise)
    await on.clock.advance(0)
    expect(on.carriedOut.length).toBe(calls + 1)
    return { outcome, answer: resolve }
  }

  test('the mark of a content stands as long as the outcome, however long the work took', async () => {
    const on = twoSidecars()
    const { clock, send } = on
    const { outcome, answer } = await begun(on, '1', 0)
    await clock.advance(3 * RETENTION_MS)
    expect(await clock.during(send('2', 1))).toEqual({ kind: 'duplicate_content' })
    answer(answeredWith(201))
    expect(await clock.during(outcome)).toMatchObject({ kind: 'created' })
    await clock.advance(RETENTION_MS - 1_000)
    expect(await clock.during(send('1', 1))).toMatchObject({ kind: 'replayed' })
    expect(await clock.during(send('2', 1))).toEqual({ kind: 'duplicate_content' })
    // Not much longer: a lease and a retention after its last renewal.
    await clock.advance(1_000 + LEASE_MS)
    expect(await clock.during(send('2', 1))).toMatchObject({ kind: 'created' })
  })

  test('the mark of a content stands as long as the outcome, though its nodes were away during the work', async () => {
    const on = twoSidecars()
    const { clock, cluster, send } = on
    // Only the mark is not renewed: it may stand on nodes of another group.
    for (const node of cluster.nodes)
      node.before = (command) => {
        node.condition = command.kind === 'renew' && command.key === CONTENT && away ? 'deaf' : 'well'
      }
    let away = true
    const { outcome, answer } = await begun(on, '1', 0)
    await clock.advance(RETENTION_MS / 2)
    away = false
    answer(answeredWith(201))
    expect(await clock.during(outcome)).toMatchObject({ kind: 'created' })
    await clock.advance(RETENTION_MS - 1_000)
    expect(await clock.during(send('2', 1))).toEqual({ kind: 'duplicate_content' })
  })

  test.each([
    ['is answered with an error that is not kept', answeredWith(503), 'released'],
    ['never reached the application', { kind: 'never_sent', detail: 'refused' } as const, 'never_sent'],
  ])(
    'the mark of a request that %s is gone with it: another key may bring the content',
    async (_, result, kind) => {
      const { clock, carriedOut, send } = twoSidecars()
      expect(await clock.during(send('1', 0, result))).toMatchObject({ kind })
      expect(await clock.during(send('2', 1))).toMatchObject({ kind: 'created' })
      expect(await clock.during(send('1', 0))).toEqual({ kind: 'duplicate_content' })
      expect(carriedOut).toEqual(['1', '2'])
    },
  )

  test('the mark of a released request is removed as soon as its nodes answer again', async () => {
    const { clock, cluster, send } = twoSidecars()
    let away = true
    for (const node of cluster.nodes)
      node.before = (command) => {
        node.condition = command.kind === 'release' && command.key === CONTENT && away ? 'deaf' : 'well'
      }
    expect(await clock.during(send('1', 0, answeredWith(503)))).toMatchObject({ kind: 'released' })
    expect(await clock.during(send('2', 1))).toEqual({ kind: 'duplicate_content' })
    away = false
    await clock.advance(LEASE_MS / 2)
    expect(await clock.during(send('2', 1))).toMatchObject({ kind: 'created' })
  })

  test('a mark whose removal was lost with its process is removed by the next attempt that is released', async () => {
    const { clock, cluster, send, sidecars } = twoSidecars()
    for (const node of cluster.nodes)
      node.before = (command) => {
        node.condition = command.kind === 'release' && command.key === CONTENT ? 'deaf' : 'well'
      }
    // The process ends with it: no background work goes on.
    const [first] = sidecars
    Object.assign(first as object, { background: createBackground(0, () => {}) })
    expect(await clock.during(send('1', 0, answeredWith(503)))).toMatchObject({ kind: 'released' })
    for (const node of cluster.nodes) node.before = () => {}
    cluster.set('well', 0, 1, 2, 3, 4)
    // The mark of the first attempt is live for a lease: its holder is not known to be gone.
    expect(await clock.during(send('1', 1))).toMatchObject({ kind: 'in_progress' })
    await clock.advance(LEASE_MS)
    expect(await clock.during(send('1', 1, answeredWith(503)))).toMatchObject({ kind: 'released' })
    expect(await clock.during(send('2', 1))).toMatchObject({ kind: 'created' })
  })

  test('the mark of a later attempt is not removed by a late release of an earlier one', async () => {
    const on = twoSidecars()
    const { clock, cluster, carriedOut, send } = on
    // No lease is renewed. The mark is claimed a moment after the record, so its lease ends a moment later.
    for (const node of cluster.nodes)
      node.before = async (command) => {
        node.condition = command.kind === 'renew' ? 'deaf' : 'well'
        if (command.kind === 'claim' && command.key === CONTENT && carriedOut.length === 0)
          await pause(clock, 40)
      }
    const { promise, resolve: answer } = Promise.withResolvers<ForwardResult>()
    const outcome = send('1', 0, promise)
    await clock.advance(LEASE_MS + 10)
    const taken = Promise.withResolvers<ForwardResult>()
    const second = { outcome: send('1', 1, taken.promise), answer: taken.resolve }
    await clock.advance(50)
    expect(carriedOut).toEqual(['1', '1'])
    answer(answeredWith(503))
    await clock.during(outcome)
    expect(await clock.during(send('2', 0))).toEqual({ kind: 'duplicate_content' })
    second.answer(answeredWith(201))
    expect(await clock.during(second.outcome)).toMatchObject({ kind: 'created', execution: { attempt: 2 } })
    expect(await clock.during(send('2', 0))).toEqual({ kind: 'duplicate_content' })
    expect(carriedOut).toEqual(['1', '1'])
  })

  test('the mark of an attempt without a known outcome stays, also when the attempt after it is released', async () => {
    const { clock, send } = twoSidecars()
    const lost: ForwardResult = { kind: 'no_answer', cause: 'reset', detail: '' }
    expect(await clock.during(send('1', 0, lost))).toMatchObject({ kind: 'indeterminate' })
    await clock.advance(LEASE_MS + 1)
    expect(await clock.during(send('1', 1, answeredWith(503)))).toMatchObject({ kind: 'released' })
    expect(await clock.during(send('2', 0))).toEqual({ kind: 'duplicate_content' })
    expect(await clock.during(send('1', 0))).toMatchObject({ kind: 'created', execution: { attempt: 2 } })
  })
})
