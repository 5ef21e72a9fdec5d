/**
 * What redlock 5.0.0-beta.2 does when it is used plainly, and what our use of it does instead. Where a later version
 * behaves otherwise, the first test of a pair fails, and the counter-measure may go.
 *
 * redlock reads the ambient clock, so its own tests run on replaced timers; only the last part has sockets.
 */
import Redlock, { ExecutionError } from 'redlock'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createBackground } from '../../src/core/background.ts'
import { KEPT_WHILE_ALIVE, renewLease } from '../../src/core/claims/lease-renewer.ts'
import { createLeases } from '../../src/core/claims/leases.ts'
import { createWaiters } from '../../src/core/claims/waiters.ts'
import { deduplicate } from '../../src/core/deduplicate.ts'
import { SILENT } from '../../src/core/events.ts'
import type { Leases, RecordNode } from '../../src/core/ports.ts'
import type { RecordCommand } from '../../src/core/record/record.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { createCluster, embeddedNodes } from '../support/cluster.ts'
import { POLICY } from '../support/policies.ts'
import { openRedisNode } from '../support/redis-node.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { seededRandom } from '../support/seeded-random.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const KEY = `dedup:t:e:v:${'0'.repeat(64)}`
const F = 'f'.repeat(64)

/** A Redis with one key, as redlock's own three scripts see it. */
class OneKeyRedis {
  holder: { readonly value: string; readonly untilMs: number } | undefined
  condition: 'well' | 'refusing' | 'silent' = 'well'
  /** How long an answer takes. */
  delayMs = 0
  readonly calls: string[] = []

  async evalsha(hash: string, _keyCount: number, args: readonly unknown[]): Promise<number> {
    const operation = OPERATIONS.get(hash) ?? 'unknown'
    this.calls.push(operation)
    if (this.condition === 'silent') return new Promise(() => {})
    if (this.condition === 'refusing') throw new Error('connect ECONNREFUSED')
    if (this.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, this.delayMs))
    const [, value, durationMs] = args as [string, string, number]
    if (this.holder !== undefined && this.holder.untilMs <= Date.now()) this.holder = undefined
    const own = this.holder?.value === value
    if (operation === 'acquire' ? this.holder !== undefined : !own) return 0
    this.holder = operation === 'release' ? undefined : { value, untilMs: Date.now() + durationMs }
    return 1
  }
}

const OPERATIONS = new Map(
  Object.entries(new Redlock([{} as never]).scripts).map(([name, { hash }]) => [
    hash,
    name.replace('Script', ''),
  ]),
)

type Settings = ConstructorParameters<typeof Redlock>[1]

function plain(count: number, settings: Settings = {}) {
  const nodes = Array.from({ length: count }, () => new OneKeyRedis())
  return { nodes, redlock: new Redlock(nodes as never, { retryJitter: 0, ...settings }) }
}

/** Whether and when (on the replaced clock) a promise settled, without waiting for it. */
function watch<T>(promise: Promise<T>) {
  const startedMs = Date.now()
  const seen: { value?: T; error?: Error; settledAfterMs?: number } = {}
  promise.then(
    (value) => Object.assign(seen, { value, settledAfterMs: Date.now() - startedMs }),
    (error) => Object.assign(seen, { error, settledAfterMs: Date.now() - startedMs }),
  )
  return seen
}

function ours() {
  const clock = new VirtualClock()
  const cluster = createCluster(clock, seededRandom(1))
  const asked: RecordCommand['kind'][][] = cluster.nodes.map(() => [])
  for (const [index, node] of cluster.nodes.entries()) {
    node.before = (command) => void asked[index]?.push(command.kind)
  }
  const claim = (change: Partial<Parameters<Leases['claim']>[0]> = {}) =>
    clock.during(
      cluster.leases.claim({
        key: KEY,
        fingerprint: F,
        leaseMs: 10_000,
        retentionMs: 60_000,
        budgetMs: 500,
        ...change,
      }),
    )
  return { clock, cluster, claim, asked, ...cluster }
}

describe('plain redlock', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] }))
  afterEach(() => vi.useRealTimers())

  test('plain redlock dates a lease from its first attempt, so that a retry returns a lock that is over', async () => {
    const { nodes, redlock } = plain(5, { retryDelay: 300, retryCount: 5 })
    for (const node of nodes) node.holder = { value: 'another', untilMs: Date.now() + 1_000 }
    const lock = watch(redlock.acquire(['k'], 500))
    await vi.advanceTimersByTimeAsync(2_000)
    expect(lock.settledAfterMs).toBe(1_200)
    expect(lock.value?.expiration).toBeLessThan(Date.now() - 800)
  })

  test('plain redlock does not check validity: nodes that take longer than the lease yield a lock', async () => {
    const { nodes, redlock } = plain(5, { retryCount: 0 })
    for (const node of nodes) node.delayMs = 400
    const lock = watch(redlock.acquire(['k'], 300))
    await vi.advanceTimersByTimeAsync(400)
    expect(lock.value?.expiration).toBeLessThan(Date.now())
  })

  test('plain redlock draws a random value for each lock, which a claim has no use for', async () => {
    using drawn = vi.spyOn(Redlock.prototype as unknown as { _random: () => string }, '_random')
    await plain(5).redlock.acquire(['k'], 300)
    expect(drawn).toHaveBeenCalledTimes(1)
  })

  test('plain redlock does not release between its attempts, and its own key votes against it', async () => {
    const { nodes, redlock } = plain(5, { retryDelay: 100, retryCount: 3 })
    for (const node of nodes.slice(2)) node.condition = 'refusing'
    const lock = watch(redlock.acquire(['k'], 10_000))
    await vi.advanceTimersByTimeAsync(50)
    // A third node is back: with the two that are held already it would be a majority.
    ;(nodes[2] as OneKeyRedis).condition = 'well'
    await vi.advanceTimersByTimeAsync(1_000)
    expect(lock.error).toBeInstanceOf(ExecutionError)
  })

  test('plain redlock never settles where half of an even number votes for it', async () => {
    const { nodes, redlock } = plain(4, { retryCount: 0 })
    for (const node of nodes.slice(2)) node.condition = 'refusing'
    const lock = watch(redlock.acquire(['k'], 1_000))
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(lock.settledAfterMs).toBeUndefined()
  })

  test('plain redlock has no deadline for a node: it waits for three silent ones without end', async () => {
    const { nodes, redlock } = plain(5, { retryCount: 0 })
    for (const node of nodes.slice(2)) node.condition = 'silent'
    const lock = watch(redlock.acquire(['k'], 1_000))
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(lock.settledAfterMs).toBeUndefined()
  })

  test('plain redlock ignores scripts that are strings', () => {
    const script = 'return 1' as never
    const redlock = new Redlock([new OneKeyRedis()] as never, {}, { acquireScript: script })
    expect(redlock.scripts.acquireScript.value).not.toBe('return 1')
  })

  test('plain redlock reports contention and outage alike', async () => {
    const errors = ['held', 'down'].map((what) => {
      const { nodes, redlock } = plain(5, { retryCount: 0 })
      for (const node of nodes) {
        if (what === 'held') node.holder = { value: 'another', untilMs: Date.now() + 9_000 }
        else node.condition = 'refusing'
      }
      return watch(redlock.acquire(['k'], 1_000))
    })
    await vi.advanceTimersByTimeAsync(1)
    expect(errors[0]?.error?.message).toBe(errors[1]?.error?.message)
    expect(errors[0]?.error?.name).toBe(errors[1]?.error?.name)
  })

  test('plain redlock waits for a release round after a refused claim without a grant', async () => {
    const { nodes, redlock } = plain(5, { retryCount: 0 })
    for (const node of nodes) node.holder = { value: 'another', untilMs: Date.now() + 9_000 }
    for (const node of nodes) node.delayMs = 10
    const lock = watch(redlock.acquire(['k'], 1_000))
    await vi.advanceTimersByTimeAsync(100)
    expect(nodes.map(({ calls }) => calls)).toEqual(Array(5).fill(['acquire', 'release']))
    expect(lock.settledAfterMs).toBe(20)
  })

  test('plain using() extends in a hot loop, and aborts only after the lease is over', async () => {
    const { nodes, redlock } = plain(5, { retryCount: 0, automaticExtensionThreshold: 500 })
    let abortedAtMs: number | undefined
    const used = watch(
      redlock.using(['k'], 1_000, async (signal) => {
        const expiresMs = Date.now() + 1_000 - 12
        signal.addEventListener('abort', () => {
          abortedAtMs = Date.now() - expiresMs
        })
        for (const node of nodes) {
          node.delayMs = 1
          node.holder = { value: 'another', untilMs: Date.now() + 60_000 }
        }
        await new Promise((resolve) => setTimeout(resolve, 2_000))
      }),
    )
    await vi.advanceTimersByTimeAsync(10_000)
    expect(nodes[0]?.calls.filter((call) => call === 'extend').length).toBeGreaterThan(100)
    expect(abortedAtMs).toBeGreaterThanOrEqual(0)
    expect(used.error).toBeInstanceOf(ExecutionError)
  })

  test('plain using() never aborts where the nodes are silent', async () => {
    const { nodes, redlock } = plain(5, { retryCount: 0, automaticExtensionThreshold: 500 })
    let aborted = false
    void redlock.using(['k'], 1_000, async (signal) => {
      signal.addEventListener('abort', () => {
        aborted = true
      })
      for (const node of nodes) node.condition = 'silent'
      await new Promise((resolve) => setTimeout(resolve, 3_600_000))
    })
    await vi.advanceTimersByTimeAsync(3_600_001)
    expect(aborted).toBe(false)
  })

  test('plain using() stalls on the release of an expired lock, and hides the error of its caller', async () => {
    const { nodes, redlock } = plain(5, { retryCount: 10, retryDelay: 200, automaticExtensionThreshold: 1 })
    const used = watch(
      redlock.using(['k'], 1_000, async () => {
        for (const node of nodes) node.holder = undefined
        throw new Error('the fault of the caller')
      }),
    )
    await vi.advanceTimersByTimeAsync(10_000)
    expect(used.error?.message).not.toContain('the fault of the caller')
    expect(used.settledAfterMs).toBeGreaterThanOrEqual(2_000)
  })
})

describe('our quorum', () => {
  test('our quorum dates a lease from the round that granted it', async () => {
    const { claim, clock } = ours()
    await claim({ leaseMs: 300 })
    const result = await claim({ leaseMs: 500, budgetMs: 2_000, fingerprint: F })
    expect(result.kind).toBe('held')
    await clock.advance(300)
    const later = await claim({ leaseMs: 500, budgetMs: 2_000 })
    expect(later.kind === 'granted' && later.lease.validUntilMonoMs - clock.monoMs()).toBe(500 - 7)
  })

  test('our quorum hands out no lease that took longer to get than it lasts, and releases it everywhere', async () => {
    const { claim, clock, nodes, events } = ours()
    for (const node of nodes) {
      node.before = (command) =>
        command.kind === 'claim' ? new Promise<void>((resolve) => void clock.timer(400, resolve)) : undefined
    }
    expect(await claim({ leaseMs: 300, budgetMs: 300 })).toMatchObject({ kind: 'unavailable' })
    expect(events.some(({ kind }) => kind === 'claim_expired')).toBe(true)
    for (const node of nodes) expect(await node.record(KEY)).toMatchObject({ state: 'released' })
  })

  test('our quorum has redlock draw no value: the owner of the claim is the value of its lock', async () => {
    using drawn = vi.spyOn(Redlock.prototype as unknown as { _random: () => string }, '_random')
    expect(await ours().claim()).toMatchObject({ kind: 'granted' })
    expect(drawn).not.toHaveBeenCalled()
  })

  test('our quorum releases between rounds, and its own earlier grants never vote against it', async () => {
    const { claim, clock, set, asked } = ours()
    set('deaf', 2, 3, 4)
    clock.timer(1, () => set('well', 2))
    expect(await claim({ budgetMs: 1_000 })).toMatchObject({ kind: 'granted', lease: { attempt: 1 } })
    expect(asked[0]).toContain('release')
  })

  test.each([0, 2, 4, 6, 8, 10, 11])('our quorum refuses %i nodes', (count) => {
    const clock = new VirtualClock()
    const nodes = embeddedNodes(count, clock)
    expect(() => createRedlockQuorum({ nodes, clock, events: SILENT })).toThrow('an odd number from 3 to 9')
  })

  test.each([1, 3, 5, 7, 9])('our quorum takes %i nodes', (count) => {
    const clock = new VirtualClock()
    const nodes = embeddedNodes(count, clock)
    expect(createRedlockQuorum({ nodes, clock, events: SILENT }).nodeCount).toBe(count)
  })

  test('our quorum counts distinct nodes: one that is listed twice is refused', () => {
    const clock = new VirtualClock()
    const [one, two] = embeddedNodes(2, clock) as [RecordNode, RecordNode]
    expect(() => createRedlockQuorum({ nodes: [one, two, one], clock, events: SILENT })).toThrow(
      'given twice',
    )
  })

  test('our quorum settles a round though a node breaks the contract and rejects', async () => {
    const { claim, nodes } = ours()
    for (const node of nodes.slice(0, 3)) {
      node.before = () => {
        throw new Error('a fault of the adapter')
      }
    }
    expect(await claim()).toMatchObject({ kind: 'unavailable', answered: 2 })
  })

  test('our quorum sends the commands of the record protocol and none of redlock’s scripts', async () => {
    const { claim, leases, asked } = ours()
    const result = await claim()
    if (result.kind !== 'granted') throw new Error('not granted')
    await leases.renew(result.lease)
    await leases.release(result.lease)
    expect(asked).toEqual(Array(5).fill(['claim', 'renew', 'release']))
  })

  test('our quorum distinguishes contention from outage', async () => {
    const { claim, set } = ours()
    await claim()
    expect(await claim()).toMatchObject({ kind: 'held' })
    set('deaf', 0, 1, 2)
    expect(await claim()).toMatchObject({ kind: 'unavailable' })
  })

  test('our quorum sends no release after a claim that no node granted', async () => {
    const { claim, asked } = ours()
    await claim()
    await claim()
    expect(asked).toEqual(Array(5).fill(['claim', 'claim']))
  })

  test.each(['deaf', 'silent'] as const)(
    'our holder is warned before the lease is over where nodes are %s, without a hot loop',
    async (condition) => {
      const { claim, clock, cluster, asked } = ours()
      const result = await claim()
      if (result.kind !== 'granted') throw new Error('not granted')
      const renewer = renewLease(
        result.lease,
        {
          leases: cluster.leases,
          clock,
          random: seededRandom(1),
          events: cluster,
        },
        KEPT_WHILE_ALIVE,
      )
      if (condition === 'deaf') cluster.set('deaf', 0, 1, 2, 3, 4)
      else for (const node of cluster.nodes) node.before = () => new Promise<void>(() => {})
      let abortedAtMs = Number.POSITIVE_INFINITY
      renewer.lost.addEventListener('abort', () => {
        abortedAtMs = clock.monoMs()
      })
      await clock.advance(20_000)
      expect(abortedAtMs).toBeLessThan(result.lease.validUntilMonoMs)
      expect(asked[0]?.length).toBeLessThan(15)
    },
  )

  test('our release of a lost lease answers at once, and shows the error of its caller', async () => {
    const { clock, cluster } = ours()
    const ports = {
      leases: cluster.leases,
      localLeases: cluster.leases,
      waiters: createWaiters(1, 1),
      background: createBackground(1, () => {}),
      whenEnded: () => undefined,
      clock,
      random: seededRandom(1),
      events: cluster,
    }
    const request = deduplicate(
      {
        recordKey: KEY,
        fingerprint: F,
        policy: { ...POLICY, leaseMs: 1_000, retentionMs: 60_000, settleBudgetMs: 100 },
        forward: async () => {
          throw new Error('the fault of the caller')
        },
      },
      ports,
    )
    await expect(request).rejects.toThrow('the fault of the caller')
    await clock.advance(1_001)
    const taken = await cluster.leases.claim({
      key: KEY,
      fingerprint: F,
      leaseMs: 1_000,
      retentionMs: 60_000,
      budgetMs: 100,
    })
    if (taken.kind !== 'granted') throw new Error('not granted')
    const late = { ...taken.lease, token: taken.lease.token - 1, owner: 'e'.repeat(32) }
    const before = clock.monoMs()
    expect(await cluster.leases.release(late)).toEqual({ kind: 'not_owner' })
    expect(clock.monoMs()).toBe(before)
  })

  test('our quorum has a deadline for every node: with two of three servers stopped a claim is answered', async () => {
    await using servers = await startRedisServers(3)
    await using opened = new AsyncDisposableStack()
    const nodes = await Promise.all(
      servers.urls.map(async (url) => opened.use(await openRedisNode({ url }, { deadlineMs: 1_000 })).node),
    )
    const ports = { clock: systemClock, events: SILENT }
    const leases = createLeases({
      quorum: createRedlockQuorum({ nodes, ...ports }),
      random: systemRandom,
      ...ports,
    })
    servers.pause(1)
    servers.pause(2)
    const claim = { key: KEY, fingerprint: F, leaseMs: 10_000, retentionMs: 60_000, budgetMs: 100 }
    expect(await leases.claim(claim)).toEqual({ kind: 'unavailable', answered: 1, required: 2 })
  })
})
