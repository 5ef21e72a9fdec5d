/**
 * What `Leases` over five nodes must do, whatever the nodes are. Time is a parameter: nodes inside the process live on
 * a virtual clock, real servers on their own.
 */
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import type { ClaimRequest, ClaimResult, Lease, Leases } from '../../src/core/ports.ts'
import type { StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import { formatToken, millisecondOf, tokenAt } from '../../src/core/record/token.ts'
import { pause } from '../../src/core/retry.ts'
import type { Cluster } from '../support/cluster.ts'
import { encodeOutcome } from '../support/encoded-outcome.ts'
import { eventually } from '../support/eventually.ts'
import { seededRandom } from '../support/seeded-random.ts'

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
/** For leases that must expire: long enough for a round on a loaded machine. */
const SHORT_LEASE_MS = 400
/** For claims that must be granted in the end, where a round may take longer than a short lease. */
const BUDGET_MS = 10_000

/** How many nodes had answered: how many do by then depends on the nodes. */
const answered: unknown = expect.any(Number)

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
    for (const node of cluster.nodes) {
      node.before = () => {}
      node.after = () => {}
    }
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
    /**
     * Until a short lease is over on every node. On a suspended node it begins when the node resumes, after the
     * majority's: a claimant that came meanwhile would be refused there, and what that node takes would be unknown.
     */
    const expire = async (): Promise<void> => {
      await pass(SHORT_LEASE_MS + 5)
      await eventually('the lease to be over on every node', async () => {
        const running = await Promise.all(nodes.map((node) => node.hasRunningLease(key)))
        return !running.includes(true)
      })
    }
    /** A claim whose lease ended without an outcome. */
    const expired = async (): Promise<Lease> => {
      const lease = await granted({ leaseMs: SHORT_LEASE_MS })
      await expire()
      return lease
    }
    const records = () => Promise.all(nodes.map((node) => node.record(key)))
    const states = async () => (await records()).map((record) => record?.state ?? 'absent')
    const kinds = () => cluster.events.map(({ kind }) => kind)
    /** Puts an outcome on one node, like a holder that died before the others heard of it. */
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
      expire,
      expired,
      records,
      states,
      kinds,
      accept,
      pastToken,
    }
  }

  describe(`${name}: claims`, () => {
    test('a claim is granted once; others are told how long it is held', async () => {
      const { claim, granted } = await start()
      const lease = await granted()
      expect(lease).toMatchObject({ attempt: 1, leaseMs: LEASE_MS })
      const other = await claim()
      expect(other).toMatchObject({ kind: 'held' })
      expect(other.kind === 'held' && other.retryAfterMs > 0 && other.retryAfterMs <= LEASE_MS).toBe(true)
    })

    test('of many claims at once, from two sidecars, exactly one is granted', async () => {
      const { claim, cluster, leases, during } = await start()
      const sidecars = [leases, cluster.sidecar()]
      const results = await during(
        Promise.all(Array.from({ length: 20 }, (_, index) => claim({}, sidecars[index % 2]))),
      )
      expect(results.map(({ kind }) => kind).sort()).toEqual(['granted', ...Array(19).fill('held')])
    })

    test('of claims for three contents at once, from three sidecars, one is granted in every race', async () => {
      const { claim, cluster, clock, key, leases } = await start()
      const sidecars = [leases, cluster.sidecar(), cluster.sidecar()]
      const random = seededRandom(20_261_122)
      for (const node of cluster.nodes) node.before = () => pause(clock, random.fraction() * 10)
      for (let race = 0; race < 20; race += 1) {
        const raced = await Promise.all(
          sidecars.map((by, at) => claim({ key: `${key}:${race}`, fingerprint: `${at}`.repeat(64) }, by)),
        )
        const kinds = raced.map(({ kind }) => kind)
        expect(kinds.filter((kind) => kind === 'granted')).toHaveLength(1)
        expect(kinds.filter((kind) => kind === 'mismatch')).toHaveLength(2)
      }
    })

    test('a claim for another content is a mismatch, after an expiry too, and is granted after a release', async () => {
      const { claim, expired, granted, leases } = await start()
      await expired()
      expect(await claim({ fingerprint: G })).toEqual({ kind: 'mismatch', answered })
      const second = await granted()
      expect(await claim({ fingerprint: G })).toEqual({ kind: 'mismatch', answered })
      // The takeover gives the expired claim back: the key is not free yet.
      await leases.release(second)
      expect(await claim({ fingerprint: G })).toEqual({ kind: 'mismatch', answered })
      const fresh = await start()
      await fresh.leases.release(await fresh.granted())
      expect(await fresh.claim({ fingerprint: G })).toMatchObject({ kind: 'granted' })
    })

    test('a repeated claim of the same owner is granted again, as the same attempt', async () => {
      const { granted } = await start()
      const first = await granted({ owner: A })
      const again = await granted({ owner: A })
      expect(again.attempt).toBe(1)
      expect(again.token).toBeGreaterThan(first.token)
    })

    test('a claim over an expired one is a takeover, and counted', async () => {
      const { expired, granted, expire, kinds } = await start()
      await expired()
      expect((await granted({ leaseMs: SHORT_LEASE_MS })).attempt).toBe(2)
      await expire()
      expect((await granted()).attempt).toBe(3)
      expect(kinds().filter((kind) => kind === 'takeover')).toHaveLength(2)
    })

    test('a lease that ends before its claim is granted is never handed out', async () => {
      const { claim, states, kinds, cluster } = await start()
      expect(await claim({ leaseMs: 2, budgetMs: 20 })).toMatchObject({ kind: 'unavailable' })
      // The read queues behind the earlier commands, so by now every node has answered the claim.
      expect(await states()).toEqual(Array(5).fill('released'))
      // On a busy machine the votes may be read after the lease ended: then no claim was granted that could expire.
      const granted = cluster.events.some(
        (event) => event.kind === 'round_settled' && event.command === 'claim' && event.majorityReached,
      )
      expect(kinds().includes('claim_expired')).toBe(granted)
    })
  })

  describe(`${name}: tokens`, () => {
    test('tokens increase strictly from claim to claim, whichever sidecar claims, however the last ended', async () => {
      const { granted, leases, cluster, expire } = await start()
      const sidecars = [leases, cluster.sidecar()]
      const tokens: number[] = []
      for (let round = 0; round < 8; round += 1) {
        const by = sidecars[round % 2] as Leases
        const lease = await granted({ leaseMs: SHORT_LEASE_MS }, by)
        tokens.push(lease.token)
        if (round % 4 === 3) await expire()
        else await by.release(lease)
      }
      expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b))
    })

    test('a token that is too low is replaced by one above the promised fence', async () => {
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
      // And it has not poisoned the key for the others.
      expect(await claim()).toMatchObject({ kind: 'granted' })
    })
  })

  describe(`${name}: the holder`, () => {
    test('a renewal prolongs the lease', async () => {
      const { granted, leases, pass } = await start()
      const lease = await granted()
      await pass(20)
      const renewed = await leases.renew(lease)
      expect(renewed.kind).toBe('renewed')
      if (renewed.kind === 'renewed')
        expect(renewed.lease.validUntilMonoMs).toBeGreaterThanOrEqual(lease.validUntilMonoMs + 20)
    })

    test('an expired lease can be renewed while no other claimant has taken it', async () => {
      const { expired, leases } = await start()
      expect(await leases.renew(await expired())).toMatchObject({ kind: 'renewed' })
    })

    test('the holder has lost its lease after a takeover', async () => {
      const { expired, granted, leases } = await start()
      const late = await expired()
      await granted()
      expect(await leases.renew(late)).toEqual({ kind: 'lost' })
      expect(await leases.release(late)).toEqual({ kind: 'not_owner' })
    })

    test('a renewal repairs nodes that missed the claim', async () => {
      const { granted, leases, cluster, states } = await start()
      cluster.set('deaf', 3, 4)
      const lease = await granted()
      cluster.set('well', 3, 4)
      await leases.renew(lease)
      await eventually('all nodes to show the claim', async () => !(await states()).includes('absent'))
    })

    test('after a release the next claim is the first attempt', async () => {
      const { granted, leases } = await start()
      expect(await leases.release(await granted())).toEqual({ kind: 'released' })
      expect((await granted()).attempt).toBe(1)
    })

    test('a release after a takeover restores the expired claim', async () => {
      const { expired, granted, leases } = await start()
      const first = await expired()
      const second = await granted()
      expect(await leases.release(second)).toEqual({ kind: 'released' })
      expect(await leases.read(first.key)).toMatchObject({ kind: 'claimed', attempt: 1, remainingMs: 0 })
      expect((await granted()).attempt).toBe(2)
    })

    test('another owner can neither renew nor complete nor release', async () => {
      const { granted, leases, claim } = await start()
      const thief = { ...(await granted()), owner: 'e'.repeat(32) }
      expect(await leases.renew(thief)).toEqual({ kind: 'lost' })
      expect(await leases.complete(thief, outcome('stolen'))).toEqual({ kind: 'fenced', answered })
      expect(await leases.release(thief)).toEqual({ kind: 'not_owner' })
      expect(await claim()).toMatchObject({ kind: 'held' })
    })
  })

  describe(`${name}: outcomes`, () => {
    test('an outcome is recorded, and every later claim is a duplicate', async () => {
      const { granted, leases, claim } = await start()
      const lease = await granted()
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
      for (const by of [undefined, 'again']) {
        expect(await claim(), by).toEqual({
          kind: 'duplicate',
          outcome: outcome('paid'),
          token: lease.token,
          attempt: 1,
          lastsMs: expect.any(Number),
          answered,
        })
      }
      expect(await claim({ fingerprint: G })).toEqual({ kind: 'mismatch', answered })
    })

    test('an outcome is recorded after the lease expired, while no other claimant took over', async () => {
      const { expired, leases } = await start()
      expect(await leases.complete(await expired(), outcome('late'))).toEqual({ kind: 'recorded' })
    })

    test('an outcome after a takeover is refused, with the recorded outcome where there is one', async () => {
      const { expired, granted, leases } = await start()
      const late = await expired()
      const next = await granted()
      expect(await leases.complete(late, outcome('late'))).toEqual({ kind: 'fenced', answered })
      await leases.complete(next, outcome('next'))
      expect(await leases.complete(late, outcome('late'))).toEqual({
        kind: 'fenced',
        winner: { outcome: outcome('next'), token: next.token },
        answered,
      })
    })

    test('the same outcome sent again at another time is already recorded; another is refused', async () => {
      const { granted, leases, claim } = await start()
      const lease = await granted()
      await leases.complete(lease, outcome('paid', 1))
      expect(await leases.complete(lease, outcome('paid', 2))).toEqual({ kind: 'recorded' })
      expect(await leases.complete(lease, outcome('not paid', 3))).toMatchObject({ kind: 'fenced' })
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('paid', 1) })
    })

    test('an outcome that another claimant found on one node and adopted is reported as recorded', async () => {
      const { granted, leases, accept, claim, cluster } = await start()
      // Two nodes missed the claim, and promise to the next claimant.
      cluster.set('deaf', 3, 4)
      const lease = await granted({ owner: A })
      cluster.set('well', 3, 4)
      await accept(0, lease.token, encodeOutcome(outcome('paid')))
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('paid') })
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
    })

    test('an outcome that another claimant is adopting is undecided, and recorded once a majority has it', async () => {
      const { expired, leases, accept, nodes, key } = await start()
      const lease = await expired()
      const bytes = encodeOutcome(outcome('paid'))
      const token = lease.token + 1
      await accept(0, token, bytes)
      const promise = { token, owner: A, leaseMs: LEASE_MS, fingerprint: F, keyTtlMs: 60_000 }
      for (const node of nodes.slice(1)) await node.apply({ kind: 'claim', key, ...promise })
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'undecided', answered })
      for (const index of [1, 2]) await accept(index, token, bytes)
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
    })

    test('an earlier copy of the outcome on a minority does not hide a later holder', async () => {
      const { granted, accept, leases, cluster, expire } = await start()
      const late = await granted({ owner: A, leaseMs: SHORT_LEASE_MS })
      for (const index of [0, 1]) await accept(index, late.token, encodeOutcome(outcome('paid', 1)))
      await expire()
      cluster.set('deaf', 0, 1)
      await granted()
      cluster.set('well', 0, 1)
      // The two copies may still be adopted: it was refused, yet it may take effect.
      expect(await leases.complete(late, outcome('paid', 2))).toEqual({ kind: 'undecided', answered })
    })

    test.each([
      ['gave it back', true],
      ['still holds it', false],
    ])(
      'a late outcome that a node took is undecided while the later holder %s, and the next claim finds it',
      async (_, givesBack) => {
        const { expired, granted, claim, leases, cluster, expire } = await start()
        const late = await expired()
        cluster.set('deaf', 3, 4)
        const next = await granted({ leaseMs: SHORT_LEASE_MS })
        expect(next.attempt).toBe(2)
        if (givesBack) await leases.release(next)
        cluster.set('well', 3, 4)
        expect(await leases.complete(late, outcome('late', 1))).toEqual({ kind: 'undecided', answered })
        if (!givesBack) await expire()
        expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('late', 1) })
        expect(await leases.complete(late, outcome('late', 2))).toEqual({ kind: 'recorded' })
        // Whichever claimant adopted it, it is reported under the token of its execution.
        expect(await leases.read(late.key)).toMatchObject({ kind: 'completed', token: late.token })
        expect(await claim()).toMatchObject({ kind: 'duplicate', token: late.token })
      },
    )

    test('an equal outcome of another execution is another outcome', async () => {
      const { expired, granted, leases } = await start()
      const late = await expired()
      const next = await granted()
      await leases.complete(next, outcome('paid', 1))
      const told = await leases.complete({ ...late, attempt: next.attempt }, outcome('paid', 1))
      expect(told).toMatchObject({ kind: 'fenced', winner: { token: next.token } })
    })

    test('a late outcome is fenced only when every node says that it did not take it', async () => {
      const { expired, granted, leases, cluster, states } = await start()
      const late = await expired()
      await granted()
      cluster.set('deaf', 4)
      expect(await leases.complete(late, outcome('late'))).toEqual({ kind: 'undecided', answered })
      cluster.set('well', 4)
      expect(await leases.complete(late, outcome('late'))).toEqual({ kind: 'fenced', answered })
      expect(await states()).not.toContain('completed')
    })

    test('an outcome that too few nodes took, adopted by another claimant, is recorded when sent again', async () => {
      const { granted, claim, leases, cluster, expire } = await start()
      const lease = await granted({ leaseMs: SHORT_LEASE_MS })
      cluster.set('deaf', 2, 3, 4)
      expect(await leases.complete(lease, outcome('paid', 1))).toEqual({ kind: 'unavailable', answered })
      cluster.set('well', 2, 3, 4)
      await expire()
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('paid', 1) })
      expect(await leases.complete(lease, outcome('paid', 2))).toEqual({ kind: 'recorded' })
      expect(await leases.complete(lease, outcome('not paid', 3))).toMatchObject({
        kind: 'fenced',
        winner: { outcome: outcome('paid', 1) },
      })
    })

    test('an outcome on a single node is adopted: written to a majority, and only then shown', async () => {
      const { claim, accept, pastToken, records, kinds, cluster } = await start()
      const token = pastToken()
      // So that the one node is among the three that answer.
      cluster.set('deaf', 3, 4)
      await accept(2, token, encodeOutcome(outcome('of a minority')))
      const result = await claim()
      expect(result).toMatchObject({ kind: 'duplicate', outcome: outcome('of a minority') })
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

    test('a takeover that a majority grants does not overlook an outcome on a single node', async () => {
      const { expired, accept, claim } = await start()
      const { token } = await expired()
      await accept(4, token + 1, encodeOutcome(outcome('half recorded')))
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('half recorded') })
    })

    test('of two versions of an outcome the one with the larger token wins the repair', async () => {
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

    test('a duplicate reads intact copies when one is damaged', async () => {
      const { granted, leases, accept, claim, key } = await start()
      const lease = await granted()
      const bytes = encodeOutcome(outcome('paid'))
      for (const index of [1, 2, 3, 4]) await accept(index, lease.token + 1, bytes)
      await accept(0, lease.token + 1, Buffer.concat([bytes, Buffer.from('?')]))
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('paid') })
      expect(await leases.read(key)).toMatchObject({ kind: 'completed', outcome: outcome('paid') })
    })

    test('when the first copy is damaged, slow nodes are searched for the outcome of a minority, too', async () => {
      const { accept, claim, pastToken, nodes, clock, cluster } = await start()
      const token = pastToken()
      cluster.set('deaf', 3)
      await accept(0, token, Buffer.from('damaged'))
      await accept(4, token, encodeOutcome(outcome('of a minority')))
      for (const slow of nodes.slice(3)) {
        slow.before = () => new Promise<void>((resolve) => void clock.timer(20, resolve))
      }
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('of a minority') })
    })

    test('a damaged outcome of a minority is neither replayed, nor executed again, nor spread', async () => {
      const { accept, claim, states, pastToken, kinds, cluster } = await start()
      cluster.set('deaf', 3, 4)
      await accept(1, pastToken(), Buffer.from('damaged'))
      expect(await claim()).toEqual({ kind: 'damaged', answered })
      expect(kinds()).toContain('outcome_damaged')
      expect((await states()).filter((state) => state === 'completed')).toHaveLength(1)
    })

    test('the next duplicate brings the outcome to nodes that missed it', async () => {
      const { granted, leases, claim, cluster, states } = await start()
      cluster.set('deaf', 3, 4)
      await leases.complete(await granted(), outcome('paid', Date.now() + 3_600_000))
      cluster.set('well', 3, 4)
      expect(await claim()).toMatchObject({ kind: 'duplicate' })
      await eventually('all nodes to hold it', async () =>
        (await states()).every((state) => state === 'completed'),
      )
    })

    test('a chosen outcome that reached only some of the nodes that missed it is not recorded anew', async () => {
      const { granted, leases, claim, cluster, records, nodes, kinds, key } = await start()
      cluster.set('deaf', 3, 4)
      const lease = await granted()
      await leases.complete(lease, outcome('paid', Date.now() + 3_600_000))
      cluster.set('well', 3, 4)
      nodes[4]!.before = ({ kind }) => (kind === 'complete' ? cluster.set('deaf', 4) : undefined)
      expect(await claim()).toMatchObject({ kind: 'duplicate', token: lease.token })
      const accepted = async () =>
        (await records()).map((record) => (record?.state === 'completed' ? record.acceptedToken : undefined))
      await eventually('the fourth node to hold it', async () => (await accepted())[3] !== undefined)
      const { token } = lease
      expect(await accepted()).toEqual([token, token, token, token, undefined])
      // One node that accepted it is away: the other two and the one that has a copy are a majority.
      nodes[4]!.before = () => {}
      cluster.set('well', 4)
      cluster.set('deaf', 0)
      expect(await leases.read(key)).toMatchObject({ kind: 'completed', token })
      expect(await claim()).toMatchObject({ kind: 'duplicate', token })
      expect(await accepted()).toEqual([token, token, token, token, undefined])
      expect(kinds()).not.toContain('outcome_adopted')
      expect(kinds()).not.toContain('conflict_repaired')
    })

    test('one outcome at two tokens, after an adoption broke off, is no conflict', async () => {
      const { claim, accept, pastToken, kinds, cluster } = await start()
      const token = pastToken()
      // Of five answers a claim may be decided by the three that know nothing of it.
      cluster.set('deaf', 3, 4)
      await accept(0, token, encodeOutcome(outcome('paid')))
      await accept(1, token + 5, encodeOutcome(outcome('paid')))
      expect(await claim()).toMatchObject({ kind: 'duplicate', outcome: outcome('paid') })
      expect(kinds()).not.toContain('conflict_repaired')
    })
  })

  describe(`${name}: reading`, () => {
    test('a read reports every state', async () => {
      const { key, leases, granted, expire } = await start()
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
      await expire()
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

    test('a read spreads the outcome of a minority to a majority, at its own token, and then reports it', async () => {
      const { key, leases, accept, pastToken, cluster, records } = await start()
      const token = pastToken()
      cluster.set('deaf', 3, 4)
      await accept(0, token, encodeOutcome(outcome('of a minority')))
      expect(await leases.read(key)).toMatchObject({
        kind: 'completed',
        token,
        outcome: outcome('of a minority'),
      })
      const accepted = (await records()).map((record) =>
        record?.state === 'completed' ? record.acceptedToken : undefined,
      )
      expect(accepted).toEqual([token, token, token, undefined, undefined])
    })

    test('a read reports an outcome recorded on three nodes, though one of them is away now', async () => {
      const { key, leases, granted, cluster } = await start()
      const lease = await granted()
      cluster.set('deaf', 3, 4)
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
      cluster.set('well', 3, 4)
      cluster.set('deaf', 0)
      expect(await leases.read(key)).toMatchObject({ kind: 'completed', token: lease.token })
      // The read spread it: another node may go, and the outcome is still known.
      cluster.set('deaf', 1)
      expect(await leases.read(key)).toMatchObject({ kind: 'completed', token: lease.token })
    })

    test('a read does not know an outcome that two nodes show, one may have, and two refuse', async () => {
      const { key, leases, expired, granted, cluster, accept } = await start()
      const late = await expired()
      cluster.set('deaf', 0, 1)
      await granted()
      cluster.set('well', 0, 1)
      for (const index of [0, 1]) await accept(index, late.token + 1, encodeOutcome(outcome('late')))
      cluster.set('deaf', 2)
      expect(await leases.read(key)).toMatchObject({
        kind: 'unavailable',
        answered: 4,
        required: 3,
        minorityOutcome: { token: late.token + 1, attempt: 1, fingerprint: F },
      })
      // Once the third says that it lacks it, no claimant can have been told that it is recorded. It is heard last:
      // three nodes that lack it are a majority, and a read that hears them first says nothing of the others.
      cluster.set('well', 2)
      const earlier = [0, 1].map(() => Promise.withResolvers<void>())
      for (const [index, { resolve }] of earlier.entries()) cluster.nodes[index]!.after = () => resolve()
      cluster.nodes[2]!.before = async () => void (await Promise.all(earlier.map(({ promise }) => promise)))
      expect(await leases.read(key)).toMatchObject({ kind: 'claimed', attempt: 2, minorityOutcome: true })
    })

    test('a read leaves a lease that runs alone, where a node shows an outcome at a larger token', async () => {
      const { key, leases, granted, cluster, accept } = await start()
      cluster.set('deaf', 0, 1)
      const lease = await granted()
      cluster.set('well', 0, 1)
      // As nodes do that were promised to this outcome, and forgot that with the record at the end of its retention.
      await accept(0, lease.token + 1, encodeOutcome(outcome('of before')))
      const heard = Promise.withResolvers<void>()
      cluster.nodes[0]!.after = () => heard.resolve()
      for (const index of [3, 4]) cluster.nodes[index]!.before = () => heard.promise
      expect(await leases.read(key)).toMatchObject({
        kind: 'claimed',
        token: lease.token,
        minorityOutcome: true,
      })
      expect(await leases.renew(lease)).toMatchObject({ kind: 'renewed' })
      // Where the silent nodes may hold either, it says neither.
      cluster.set('mute', 1, 2)
      expect(await leases.read(key)).toMatchObject({ kind: 'unavailable', minorityOutcome: { attempt: 1 } })
      cluster.set('well', 1, 2)
      expect(await leases.renew(lease)).toMatchObject({ kind: 'renewed' })
    })

    test('a held key is not read as free where nodes that missed the claim show larger released tokens', async () => {
      const { key, leases, granted, claim, cluster, states } = await start()
      cluster.set('deaf', 3, 4)
      const lease = await granted()
      cluster.set('well', 3, 4)
      expect(await claim()).toMatchObject({ kind: 'held' })
      await eventually('the others to have released', async () => !(await states()).includes('absent'))
      cluster.set('deaf', 0, 1)
      expect(await leases.read(key)).toEqual({ kind: 'unavailable', answered: 3, required: 3 })
      cluster.set('well', 0, 1)
      expect(await leases.read(key)).toMatchObject({ kind: 'claimed', token: lease.token })
      expect(await leases.renew(lease)).toMatchObject({ kind: 'renewed' })
    })

    test('a read does not call a key held that was released while two nodes were away', async () => {
      const { key, leases, granted, cluster } = await start()
      const lease = await granted()
      cluster.set('deaf', 3, 4)
      await leases.release(lease)
      cluster.set('well', 3, 4)
      expect(await leases.read(key)).toEqual({ kind: 'released', token: lease.token })
      cluster.set('deaf', 0, 1)
      expect(await leases.read(key)).toMatchObject({ kind: 'unavailable', answered: 3 })
    })
  })

  describe(`${name}: with nodes gone`, () => {
    test.each([
      ['deaf', [0, 1]],
      ['mute', [0, 4]],
      ['quarantined', [2, 3]],
    ] as const)('two of five gone (%s %j): every command works', async (condition, gone) => {
      const { cluster, granted, leases, claim, key } = await start()
      cluster.set(condition, ...gone)
      const lease = await granted()
      expect(await leases.renew(lease)).toMatchObject({ kind: 'renewed' })
      expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'recorded' })
      expect(await claim()).toMatchObject({ kind: 'duplicate' })
      expect(await leases.read(key)).toMatchObject({ kind: 'completed' })
    })

    test.each(['deaf', 'mute', 'quarantined'] as const)(
      'three of five gone (%s): unavailable, which is not the same as held',
      async (condition) => {
        const { cluster, granted, claim, leases, key } = await start()
        const lease = await granted()
        cluster.set(condition, 0, 1, 2)
        const unavailable = { kind: 'unavailable', answered: 2, required: 3 }
        expect(await claim({ budgetMs: 100 })).toEqual(unavailable)
        expect(await leases.renew(lease)).toEqual({ kind: 'unavailable' })
        expect(cluster.events.filter(({ kind }) => kind === 'lease_renewed')).toMatchObject([
          { failed: { token: lease.token, attempt: 1, answered: 2, replies: { renewed: 2 } } },
        ])
        expect(await leases.complete(lease, outcome('paid'))).toEqual({ kind: 'unavailable', answered })
        expect(await leases.read(key)).toEqual(unavailable)
      },
    )

    test('a claim whose replies were lost is released on every node', async () => {
      const { cluster, claim, states } = await start()
      cluster.set('mute', 0, 1, 2)
      expect(await claim({ budgetMs: 100 })).toMatchObject({ kind: 'unavailable' })
      cluster.set('well', 0, 1, 2)
      await eventually('no node to keep the claim', async () => !(await states()).includes('claimed'))
      expect(await claim()).toMatchObject({ kind: 'granted' })
    })
  })
}
