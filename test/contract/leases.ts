/**
 * What `Leases` over five nodes must do, whatever the nodes are. Time is a parameter: nodes inside the process live on a
 * virtual clock, real servers on their own.
 */
import { describe, expect, test } from 'vitest'
import type { ClaimRequest, ClaimResult, Clock, Lease, Leases } from '../../src/core/ports.ts'
import { encodeOutcome, type StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import { formatToken, millisecondOf, tokenAt } from '../../src/core/record/token.ts'
import type { Cluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'

export type LeasesUnderTest = {
  readonly cluster: Cluster
  readonly clock: Clock
  /** Lets this much time pass on all clocks. */
  pass(ms: number): Promise<void>
  /** Lets time pass until `promise` has settled. */
  during<T>(promise: Promise<T>): Promise<T>
}

const F = 'f'.repeat(64)
const G = '9'.repeat(64)
const A = 'a'.repeat(32)
const LEASE_MS = 10_000
/** For what is to lapse: long enough for a round on a loaded machine. */
const SHORT_LEASE_MS = 400
/** For what is to be granted in the end, where a round was held up for longer than a short lease. */
const BUDGET_MS = 10_000

let keyCount = 0

function outcome(body: string, completedAtWallMs = 1_767_225_600_000): StoredOutcome {
  return { kind: 'response', status: 201, headers: [], body: Buffer.from(body), completedAtWallMs }
}

export function leasesContract(name: string, open: () => Promise<LeasesUnderTest>): void {
  let opened: Promise<LeasesUnderTest> | undefined

  async function start() {
    opened ??= open()
    const { cluster, clock, pass, during } = await opened
    cluster.set('well', 0, 1, 2, 3, 4)
    for (const node of cluster.nodes) node.before = () => {}
    cluster.events.length = 0
    keyCount += 1
    const key = `dedup:leases:${process.pid}:${keyCount}`
    const { leases, nodes } = cluster
    const claim = (change: Partial<ClaimRequest> = {}, by: Leases = leases): Promise<ClaimResult> =>
      during(
        by.claim({
          key,
          fingerprint: F,
          leaseMs: LEASE_MS,
          retentionMs: 60_000,
          budgetMs: BUDGET_MS,
          ...change,
        }),
      )
    const granted = async (change: Partial<ClaimRequest> = {}, by?: Leases): Promise<Lease> => {
      const result = await claim(change, by)
      if (result.kind !== 'granted') throw new Error(`not granted: ${JSON.stringify(result)}`)
      return result.lease
    }
    /** A claim whose lease ended without an outcome. */
    const lapsed = async (): Promise<Lease> => {
      const lease = await granted({ leaseMs: SHORT_LEASE_MS })
      await pass(SHORT_LEASE_MS + 5)
      return lease
    }
    const records = () => Promise.all(nodes.map((node) => node.record(key)))
    const states = async () => (await records()).map((record) => record?.state ?? 'absent')
    const kinds = () => cluster.events.map(({ kind }) => kind)
    /** Puts an outcome on one node, as somebody who died before the others heard of it. */
    const accept = (index: number, token: number, bytes: Buffer) =>
      nodes[index]?.apply({
        kind: 'complete',
        key,
        token,
        owner: A,
        fingerprint: F,
        attempt: 1,
        outcome: bytes,
        keyTtlMs: 60_000,
      })
    const pastToken = () => tokenAt(clock.wallMs() - 60_000)
    return {
      ...(await opened),
      key,
      leases,
      nodes,
      claim,
      granted,
      lapsed,
      records,
      states,
      kinds,
      accept,
      pastToken,
    }
  }

  describe(`${name}: a claim`, () => {
    test('is granted once; others are told how long it is held', async () => {
      const { claim, granted } = await start()
      const lease = await granted()
      expect(lease).toMatchObject({ attempt: 1, leaseMs: LEASE_MS })
      const other = await claim()
      expect(other).toMatchObject({ kind: 'held' })
      expect(other.kind === 'held' && other.retryAfterMs > 0 && other.retryAfterMs <= LEASE_MS).toBe(true)
    })

    test('of many at once, from two sidecars, is granted to exactly one', async () => {
      const { claim, cluster, leases, during } = await start()
      const sidecars = [leases, cluster.sidecar()]
      const results = await during(
        Promise.all(Array.from({ length: 20 }, (_, index) => claim({}, sidecars[index % 2]))),
      )
      expect(results.map(({ kind }) => kind).sort()).toEqual(['granted', ...Array(19).fill('held')])
    })

    test('of another content is a mismatch while it lives and when it lapsed, and free after a release', async () => {
      const { claim, lapsed, granted, leases } = await start()
      await lapsed()
      expect(await claim({ fingerprint: G })).toEqual({ kind: 'mismatch' })
      const second = await granted()
      expect(await claim({ fingerprint: G })).toEqual({ kind: 'mismatch' })
      // The takeover gives the lapsed claim back: the key is not free yet.
      await leases.release(second)
      expect(await claim({ fingerprint: G })).toEqual({ kind: 'mismatch' })
      const fresh = await start()
      await fresh.leases.release(await fresh.granted())
      expect(await fresh.claim({ fingerprint: G })).toMatchObject({ kind: 'granted' })
    })

    test('of the same owner again is granted again, as the same attempt', async () => {
      const { granted } = await start()
      const first = await granted({ owner: A })
      const again = await granted({ owner: A })
      expect(again.attempt).toBe(1)
      expect(again.token).toBeGreaterThan(first.token)
    })

    test('after a lapsed one is a takeover, counted', async () => {
      const { lapsed, granted, pass, kinds } = await start()
      await lapsed()
      expect((await granted({ leaseMs: SHORT_LEASE_MS })).attempt).toBe(2)
      await pass(SHORT_LEASE_MS + 5)
      expect((await granted()).attempt).toBe(3)
      expect(kinds().filter((kind) => kind === 'takeover')).toHaveLength(2)
    })

    test('never hands out a lease that is over before it is granted', async () => {
      const { claim, states, kinds, cluster } = await start()
      expect(await claim({ leaseMs: 2, budgetMs: 20 })).toMatchObject({ kind: 'unavailable' })
      // Read behind what was asked before: by now every node has answered the claim, and it is told what came of it.
      expect(await states()).toEqual(Array(5).fill('released'))
      // Read when the lease was over, the votes of a busy machine's nodes are none, and there was nothing to expire.
      const granted = cluster.events.some(
        (event) => event.kind === 'round_settled' && event.command === 'claim' && event.carried,
      )
      expect(kinds().includes('claim_expired')).toBe(granted)
    })
  })

  describe(`${name}: tokens`, () => {
    test('increase strictly from claim to claim, whichever sidecar asks and however it ended', async () => {
      const { granted, leases, cluster, pass } = await start()
      const sidecars = [leases, cluster.sidecar()]
      const tokens: number[] = []
      for (let round = 0; round < 8; round += 1) {
        const by = sidecars[round % 2] as Leases
        const lease = await granted({ leaseMs: SHORT_LEASE_MS }, by)
        tokens.push(lease.token)
        if (round % 4 === 3) await pass(SHORT_LEASE_MS + 5)
        else await by.release(lease)
      }
      expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b))
    })

    test('that are too low are tried again above what was promised', async () => {
      const { granted, nodes, key, clock, kinds } = await start()
      const promised = tokenAt(clock.wallMs() + 900)
      for (const node of nodes) {
        await node.apply({ kind: 'release', key, token: promised, owner: A, keyTtlMs: 60_000 })
      }
      expect((await granted()).token).toBeGreaterThan(promised)
      expect(kinds()).not.toContain('claim_expired')
    })

    test.each([
      ['an hour ahead', 3_600_000],
      ['an hour behind', -3_600_000],
    ])('of a sidecar whose clock is %s are granted all the same', async (_, aheadMs) => {
      const { granted, cluster, clock, leases, claim } = await start()
      const wrong: Clock = {
        monoMs: () => clock.monoMs(),
        wallMs: () => clock.wallMs() + aheadMs,
        timer: (delayMs, fire) => clock.timer(delayMs, fire),
      }
      const sidecar = cluster.sidecar(wrong)
      const first = await granted()
      await leases.release(first)
      const second = await granted({}, sidecar)
      expect(second.token).toBeGreaterThan(first.token)
      expect(Math.abs(millisecondOf(second.token) - clock.wallMs())).toBeLessThan(10_000)
      await sidecar.release(second)
      // And it has poisoned nothing for the others.
      expect(await claim()).toMatchObject({ kind: 'granted' })
    })
  })

  describe(`${name}: a holder`, () => {
    test('renews: the lease is valid for longer', async () => {
      const { granted, leases, pass } = await start()
      const lease = await granted()
      await pass(20)
      const renewed = await leases.renew(lease)
      expect(renewed.kind).toBe('renewed')
      if (renewed.kind === 'renewed')
        expect(renewed.lease.validUntilMonoMs).toBeGreaterThanOrEqual(lease.validUntilMonoMs + 20)
    })

    test('renews a lapsed lease that nobody took', async () => {
      const { lapsed, leases } = await start()
      expect(await leases.renew(await lapsed())).toMatchObject({ kind: 'renewed' })
    })

    test('has lost its lease when somebody took over', async () => {
      const { lapsed, granted, leases } = await start()
      const late = await lapsed()
      await granted()
      expect(await leases.renew(late)).toEqual({ kind: 'lost' })
      expect(await leases.release(late)).toEqual({ kind: 'not_owner' })
    })

    test('repairs nodes that missed its claim by renewing', async () => {
      const { granted, leases, cluster, states } = await start()
      cluster.set('deaf', 3, 4)
      const lease = await granted()
      cluster.set('well', 3, 4)
      await leases.renew(lease)
      await eventually('all nodes to show the claim', async () => !(await states()).includes('absent'))
    })

    test('releases: the next claim is the first attempt', async () => {
      const { granted, leases } = await start()
      expect(await leases.release(await granted())).toEqual({ kind: 'released' })
      expect((await granted()).attempt).toBe(1)
    })

    test('that took over and releases gives the lapsed claim back', async () => {
      const { lapsed, granted, leases } = await start()
      const first = await lapsed()
      const second = await granted()
      expect(await leases.release(second)).toEqual({ kind: 'released' })
      expect(await leases.read(first.key)).toMatchObject({ kind: 'claimed', attempt: 1, remainingMs: 0 })
      expect((await granted()).attempt).toBe(2)
    })

    test('is nobody else: another owner neither renews nor completes nor releases', async () => {
      const { granted, leases, claim } = await start()
      const thief = { ...(await granted()), owner: 'e'.repeat(32) }
      expect(await leases.renew(thief)).toEqual({ kind: 'lost' })
      expect(await leases.complete(thief, outcome('stolen'))).toEqual({ kind: 'fenced' })
      expect(await leases.release(thief)).toEqual({ kind: 'not_owner' })
      expect(await claim()).toMatchObject({ kind: 'held' })
    })
  })

  describe(`${name}: an outcome`, () => {
    test('is recorded, and every later claim is a duplicate', async () => {
      const { granted, leases, claim } = await start()
      const lease = await granted()
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
      for (const by of [undefined, 'again']) {
        expect(await claim(), by).toEqual({
          kind: 'duplicate',
          outcome: outcome('paid'),
          token: lease.token,
          attempt: 1,
        })
      }
      expect(await claim({ fingerprint: G })).toEqual({ kind: 'mismatch' })
    })

    test('is recorded after the lease lapsed, where nobody took over', async () => {
      const { lapsed, leases } = await start()
      expect(await leases.complete(await lapsed(), outcome('late'))).toEqual({ kind: 'recorded' })
    })

    test('of a holder that was taken over is refused, with the outcome that stands where there is one', async () => {
      const { lapsed, granted, leases } = await start()
      const late = await lapsed()
      const next = await granted()
      expect(await leases.complete(late, outcome('late'))).toEqual({ kind: 'fenced' })
      await leases.complete(next, outcome('next'))
      expect(await leases.complete(late, outcome('late'))).toEqual({
        kind: 'fenced',
        winner: { outcome: outcome('next'), token: next.token },
      })
    })

    test('asked for again, at another moment, is recorded already; another one is refused', async () => {
      const { granted, leases, claim } = await start()
      const lease = await granted()
      await leases.complete(lease, outcome('paid', 1))
      expect(await leases.complete(lease, outcome('paid', 2))).toEqual({ kind: 'recorded' })
      expect(await leases.complete(lease, outcome('not paid', 3))).toMatchObject({ kind: 'fenced' })
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('paid', 1) })
    })

    test('that another claimant found on one node and adopted is recorded: its holder is told so', async () => {
      const { granted, leases, accept, claim, cluster } = await start()
      // Two nodes missed the claim, and promise themselves to the next one.
      cluster.set('deaf', 3, 4)
      const lease = await granted({ owner: A })
      cluster.set('well', 3, 4)
      await accept(0, lease.token, encodeOutcome(outcome('paid')))
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('paid') })
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
    })

    test('that another claimant found, and has written to one node so far, is not recorded yet, and not refused', async () => {
      const { lapsed, leases, accept, nodes, key } = await start()
      const lease = await lapsed()
      const bytes = encodeOutcome(outcome('paid'))
      const token = lease.token + 1
      await accept(0, token, bytes)
      const promise = { token, owner: A, leaseMs: LEASE_MS, fingerprint: F, keyTtlMs: 60_000 }
      for (const node of nodes.slice(1)) await node.apply({ kind: 'claim', key, ...promise })
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'unavailable' })
      for (const index of [1, 2]) await accept(index, token, bytes)
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
    })

    test('that a minority has from the same holder, at another moment, does not hide who came after', async () => {
      const { granted, accept, leases, cluster, pass } = await start()
      const late = await granted({ owner: A, leaseMs: SHORT_LEASE_MS })
      for (const index of [0, 1]) await accept(index, late.token, encodeOutcome(outcome('paid', 1)))
      await pass(SHORT_LEASE_MS + 5)
      cluster.set('deaf', 0, 1)
      await granted()
      cluster.set('well', 0, 1)
      expect(await leases.complete(late, outcome('paid', 2))).toEqual({ kind: 'fenced' })
    })

    test('that a single node holds is adopted: written to a majority, and only then shown', async () => {
      const { claim, accept, pastToken, records, kinds, cluster } = await start()
      const token = pastToken()
      // So that the one node is among the three that answer.
      cluster.set('deaf', 3, 4)
      await accept(2, token, encodeOutcome(outcome('sighted')))
      const result = await claim()
      expect(result).toMatchObject({ kind: 'duplicate', outcome: outcome('sighted') })
      expect(kinds()).toContain('outcome_adopted')
      await eventually('every node that is there to hold it under the adopter’s token', async () =>
        (await records())
          .slice(0, 3)
          .every(
            (record) =>
              record?.state === 'completed' && formatToken(record.acceptedToken) > formatToken(token),
          ),
      )
    })

    test('that a single node holds is not overlooked by a takeover, though a majority grants it', async () => {
      const { lapsed, accept, claim } = await start()
      const { token } = await lapsed()
      await accept(4, token + 1, encodeOutcome(outcome('half recorded')))
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('half recorded') })
    })

    test('in two versions is repaired to the one with the larger token', async () => {
      const { claim, accept, pastToken, records, cluster } = await start()
      const token = pastToken()
      cluster.set('deaf', 3, 4)
      await accept(0, token, encodeOutcome(outcome('smaller')))
      await accept(1, token + 5, encodeOutcome(outcome('larger')))
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('larger') })
      expect(cluster.events).toContainEqual(
        expect.objectContaining({ kind: 'conflict_repaired', tokens: [token, token + 5] }),
      )
      await eventually('one outcome on all nodes that are there', async () =>
        (await records())
          .slice(0, 3)
          .every(
            (record) =>
              record?.state === 'completed' && record.outcome.equals(encodeOutcome(outcome('larger'))),
          ),
      )
    })

    test('is read from intact copies where one is damaged', async () => {
      const { granted, leases, accept, claim, key } = await start()
      const lease = await granted()
      const bytes = encodeOutcome(outcome('paid'))
      for (const index of [1, 2, 3, 4]) await accept(index, lease.token + 1, bytes)
      await accept(0, lease.token + 1, Buffer.concat([bytes, Buffer.from('?')]))
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('paid') })
      expect(await leases.read(key)).toMatchObject({ kind: 'completed', outcome: outcome('paid') })
    })

    test('that a minority holds is looked for on slow nodes, too, where the first copy is damaged', async () => {
      const { accept, claim, pastToken, nodes, clock } = await start()
      const token = pastToken()
      await accept(0, token, Buffer.from('damaged'))
      await accept(4, token, encodeOutcome(outcome('sighted')))
      for (const slow of nodes.slice(3)) {
        slow.before = () => new Promise<void>((resolve) => void clock.timer(20, resolve))
      }
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('sighted') })
    })

    test('that a minority holds, damaged, is neither replayed, nor executed again, nor spread', async () => {
      const { accept, claim, states, pastToken, kinds, cluster } = await start()
      cluster.set('deaf', 3, 4)
      await accept(1, pastToken(), Buffer.from('damaged'))
      expect(await claim()).toEqual({ kind: 'damaged' })
      expect(kinds()).toContain('outcome_damaged')
      expect((await states()).filter((state) => state === 'completed')).toHaveLength(1)
    })

    test('reaches nodes that missed it with the next duplicate', async () => {
      const { granted, leases, claim, cluster, states } = await start()
      cluster.set('deaf', 3, 4)
      await leases.complete(await granted(), outcome('paid', Date.now() + 3_600_000))
      cluster.set('well', 3, 4)
      expect(await claim()).toMatchObject({ kind: 'duplicate' })
      await eventually('all nodes to hold it', async () =>
        (await states()).every((state) => state === 'completed'),
      )
    })
  })

  describe(`${name}: reading`, () => {
    test('says what stands, in every state', async () => {
      const { key, leases, granted, pass } = await start()
      expect(await leases.read(key)).toEqual({ kind: 'absent' })
      const first = await granted()
      expect(await leases.read(key)).toMatchObject({
        kind: 'claimed',
        token: first.token,
        owner: first.owner,
        attempt: 1,
        fingerprint: F,
      })
      await leases.release(first)
      expect(await leases.read(key)).toEqual({ kind: 'released', token: first.token })
      const second = await granted({ leaseMs: SHORT_LEASE_MS })
      await pass(SHORT_LEASE_MS + 5)
      expect(await leases.read(key)).toMatchObject({ kind: 'claimed', remainingMs: 0 })
      await leases.complete(second, outcome('paid'))
      expect(await leases.read(key)).toEqual({
        kind: 'completed',
        token: second.token,
        attempt: 1,
        fingerprint: F,
        outcome: outcome('paid'),
      })
    })

    test('shows the outcome of a minority as the claim that it still is', async () => {
      const { key, leases, accept, pastToken, cluster } = await start()
      const token = pastToken()
      cluster.set('deaf', 3, 4)
      await accept(0, token, encodeOutcome(outcome('sighted')))
      expect(await leases.read(key)).toMatchObject({ kind: 'claimed', token, remainingMs: 0 })
    })
  })

  describe(`${name}: with nodes gone`, () => {
    test.each([
      ['deaf', [0, 1]],
      ['mute', [0, 4]],
      ['quarantined', [2, 3]],
    ] as const)('two of five (%s %j): all is as ever', async (condition, gone) => {
      const { cluster, granted, leases, claim, key } = await start()
      cluster.set(condition, ...gone)
      const lease = await granted()
      expect(await leases.renew(lease)).toMatchObject({ kind: 'renewed' })
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
      expect(await claim()).toMatchObject({ kind: 'duplicate' })
      expect(await leases.read(key)).toMatchObject({ kind: 'completed' })
    })

    test.each(['deaf', 'mute', 'quarantined'] as const)(
      'three of five (%s): nobody may know, which is not the same as held',
      async (condition) => {
        const { cluster, granted, claim, leases, key } = await start()
        const lease = await granted()
        cluster.set(condition, 0, 1, 2)
        const unavailable = { kind: 'unavailable', answered: 2, required: 3 }
        expect(await claim({ budgetMs: 100 })).toEqual(unavailable)
        expect(await leases.renew(lease)).toEqual({ kind: 'unavailable' })
        expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'unavailable' })
        expect(await leases.read(key)).toEqual(unavailable)
      },
    )

    test('a claim whose answers were lost is given back everywhere', async () => {
      const { cluster, claim, states } = await start()
      cluster.set('mute', 0, 1, 2)
      expect(await claim({ budgetMs: 100 })).toMatchObject({ kind: 'unavailable' })
      cluster.set('well', 0, 1, 2)
      await eventually('no node to keep the claim', async () => !(await states()).includes('claimed'))
      expect(await claim()).toMatchObject({ kind: 'granted' })
    })
  })
}
