/** Real servers out of memory: duplicates are answered, new requests are refused in time, and free memory heals it. */
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { joinCluster, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

const NODES = 5
const LIMIT_BYTES = 12 * 1024 * 1024
const SHARE = 0.7

/** A refusal for lack of memory comes at once; the rest is for a busy machine. */
const IN_TIME_MS = 1_000

type Cluster = {
  readonly servers: RedisServers
  readonly sidecar: Sidecar
  readonly operators: readonly Redis[]
}

async function start(more: Parameters<typeof joinCluster>[1] = {}): Promise<Cluster> {
  const servers = await startRedisServers(NODES, { maxMemory: String(LIMIT_BYTES) })
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const sidecar = await joinCluster(servers.urls, more, true)
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await sidecar.votes(NODES)
  const operators = servers.urls.map((url) => new Redis(url))
  onTestFinished(() => {
    for (const operator of operators) operator.disconnect()
  })
  return { servers, sidecar, operators }
}

async function usedShare(operator: Redis): Promise<number> {
  const memory = await operator.info('memory')
  const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(memory)?.[1])
  return (field('used_memory') - field('mem_not_counted_for_evict')) / field('maxmemory')
}

/** Fills a node with foreign data, up to a share of its memory; 1: until it refuses every write. */
async function fill(operator: Redis, share: number): Promise<void> {
  for (let n = 0; share === 1 || (await usedShare(operator)) < share; n += 1) {
    const answer = await operator
      .set(`filler:${n}`, 'x'.repeat(64 * 1024))
      .catch((cause: Error) => cause.message)
    if (answer === 'OK') continue
    expect(answer).toContain('OOM')
    // The memory that the replies to an inspection use and free must not be room for a claim.
    await operator.config('SET', 'maxmemory', String(LIMIT_BYTES - 256 * 1024))
    return
  }
}

async function free(operator: Redis): Promise<void> {
  const keys = await operator.keys('filler:*')
  await operator.del(...keys)
}

/** As last seen: while a node is filled, what it frees between two polls may be room once more. */
function fullNodes(sidecar: Sidecar): readonly string[] {
  const seen = new Map<string, boolean>()
  for (const event of sidecar.events) if (event.kind === 'node_memory') seen.set(event.node, event.full)
  return [...seen].flatMap(([node, full]) => (full ? [node] : []))
}

async function refusedInTime(sidecar: Sidecar, name: string) {
  const startedMs = performance.now()
  const claimed = await sidecar.claim(name, { budgetMs: 500 })
  expect(performance.now() - startedMs).toBeLessThan(IN_TIME_MS)
  return claimed
}

test('new claims stop while there is room, in which granted ones are completed', async () => {
  const { sidecar, operators } = await start({ claimsMemoryShare: SHARE })
  await sidecar.carryOut('before')
  const granted = await Promise.all(['one', 'two', 'three'].map((name) => sidecar.claim(name)))
  await Promise.all(operators.map((operator) => fill(operator, SHARE + 0.05)))
  await eventually('every node is found full', () => fullNodes(sidecar).length === NODES)

  const refused = await refusedInTime(sidecar, 'new')
  expect(refused).toEqual({ kind: 'unavailable', answered: 0, required: 3, well: NODES, full: NODES })
  expect(sidecar.events).toContainEqual(
    expect.objectContaining({
      kind: 'node_answered',
      answer: 'unreachable',
      detail: expect.stringMatching(
        /^refused: it takes no new claims: \d+ of 12582912 bytes of maxmemory are used \(7\d(\.\d)? %\), and new claims stop at 70 %$/,
      ),
    }),
  )
  // A refusal leaves no key behind: else refusals would fill the room of completions.
  expect(await Promise.all(operators.map((operator) => operator.keys('dedup:shop:*')))).toEqual(
    operators.map(() => expect.toSatisfy((keys: string[]) => keys.length === 4)),
  )

  expect(await sidecar.claim('before')).toMatchObject({ kind: 'duplicate', outcome: outcomeOf('before') })
  expect(await sidecar.claim('one', { budgetMs: 200 })).toMatchObject({ kind: 'held' })
  for (const [index, claimed] of granted.entries()) {
    if (claimed.kind !== 'granted') throw new Error(`not granted: ${claimed.kind}`)
    const renewed = await sidecar.leases.renew(claimed.lease)
    expect(renewed).toMatchObject({ kind: 'renewed' })
    const outcome = outcomeOf(`${index}`.repeat(10_000))
    expect(await sidecar.leases.complete(claimed.lease, outcome)).toEqual({ kind: 'recorded' })
  }

  await Promise.all(operators.map(free))
  await eventually('new claims are taken again', async () => (await sidecar.claim('new')).kind === 'granted')
})

test.each([1, 3, 5])(
  'with %i of 5 nodes at maxmemory duplicates are answered, and everything works again when there is room',
  async (count) => {
    const { sidecar, operators } = await start()
    const done = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => {
        await sidecar.carryOut(`done ${n}`)
        return `done ${n}`
      }),
    )
    const underWay = await sidecar.claim('under way', { leaseMs: 60_000 })
    await Promise.all(operators.slice(0, count).map((operator) => fill(operator, 1)))

    // New claims beside duplicates: the first must not open a breaker for the second.
    for (const [n, name] of done.entries()) {
      const fresh = await refusedInTime(sidecar, `new ${n}`)
      if (count === 1) expect(fresh).toMatchObject({ kind: 'granted' })
      else expect(fresh).toMatchObject({ kind: 'unavailable', answered: NODES - count, full: count })
      expect(await sidecar.claim(name, { budgetMs: 500 })).toMatchObject({
        kind: 'duplicate',
        outcome: outcomeOf(name),
      })
    }
    if (underWay.kind !== 'granted') throw new Error(`not granted: ${underWay.kind}`)
    const renewed = await sidecar.leases.renew(underWay.lease)
    expect(renewed).toMatchObject({ kind: 'renewed' })
    const long = outcomeOf('long '.repeat(1_000))
    const refused = count === 1 ? { kind: 'recorded' } : { kind: 'unavailable', answered: NODES - count }
    expect(await sidecar.leases.complete(underWay.lease, long)).toEqual(refused)
    expect(sidecar.kinds()).not.toContain('quorum_breaker_changed')
    expect(sidecar.kinds()).not.toContain('breaker_changed')

    await Promise.all(operators.slice(0, count).map(free))
    await eventually('every outcome is recorded again', async () => {
      const { kind } = await sidecar.leases.complete(underWay.lease, long)
      return kind === 'recorded'
    })
    // Once the nodes were inspected again.
    const after = () => sidecar.claim('after', { budgetMs: 500 })
    await eventually('new requests are granted again', async () => (await after()).kind === 'granted')
    for (const name of done) expect(await sidecar.claim(name)).toMatchObject({ kind: 'duplicate' })
  },
)
