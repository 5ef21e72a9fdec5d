/** Real servers that hang, refuse and come back, behind the guards that `serve` puts around them. */
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { pause } from '../../src/core/retry.ts'
import { systemClock } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { runningClock } from '../support/held-clock.ts'
import { joinCluster, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

/** More than `serve` has by default: a healthy server may be held up by what else runs on the machine. */
const DEADLINE_MS = 500

async function start(
  count: number,
  deadlineMs = DEADLINE_MS,
): Promise<{ servers: RedisServers; sidecar: Sidecar }> {
  const servers = await startRedisServers(count)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const sidecar = await joinCluster(servers.urls, { deadlineMs }, true)
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await sidecar.votes(count)
  return { servers, sidecar }
}

async function at(servers: RedisServers, index: number): Promise<Redis> {
  const client = new Redis(servers.at(index).url)
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

test('one hung node is waited for a few times and no more, however many requests there are', async () => {
  const { servers, sidecar } = await start(5)
  servers.pause(4)
  const given = (to: string) =>
    sidecar.events.findIndex((event) => event.kind === 'breaker_changed' && event.to === to)
  for (let n = 0; given('open') < 0; n += 1) await sidecar.carryOut(`request ${n}`)
  // What was under way when it was given up is waited for still; after a stall the end of that is told two turns later.
  await pause(systemClock, DEADLINE_MS)
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  const from = sidecar.events.length
  const startedMs = performance.now()
  for (let n = 0; n < 200; n += 1) await sidecar.carryOut(`next ${n}`)
  const waited = sidecar.events
    .slice(from)
    .filter(
      (event) =>
        event.kind === 'node_answered' && event.node === 'redis-4' && event.detail?.startsWith('timeout'),
    )
  // Of 400 calls: the probes, each after a longer pause, and in the end two a second.
  const elapsedS = (performance.now() - startedMs) / 1_000
  expect(waited.length).toBeLessThanOrEqual(6 + 2 * elapsedS)
  expect(sidecar.events).toContainEqual(
    expect.objectContaining({ kind: 'breaker_changed', node: 'redis-4', to: 'open' }),
  )
  servers.resume(4)
  await eventually('it is asked again', async () => {
    await sidecar.carryOut(`later ${performance.now()}`)
    const closed = (event: { kind: string }) =>
      event.kind === 'breaker_changed' && 'to' in event && event.to === 'closed'
    return sidecar.events.some(closed)
  })
})

test('a quorum that hung is used again within two seconds of its return, and was asked little meanwhile', async () => {
  const { servers, sidecar } = await start(5)
  await sidecar.carryOut('before')
  for (const index of [0, 1, 2]) servers.pause(index)
  await eventually('the quorum is given up', async () => {
    await sidecar.claim('lost', { budgetMs: 100 })
    return sidecar.kinds().includes('quorum_breaker_changed')
  })
  // Whoever is refused at once was not asked for at any node: two of them would have answered. A probe asks them.
  await eventually('claims are refused at once', async () => {
    const refused = await sidecar.claim('refused at once', { budgetMs: 100 })
    expect(refused).toMatchObject({ kind: 'unavailable' })
    return refused.kind === 'unavailable' && refused.answered === 0
  })

  for (const index of [0, 1, 2]) servers.resume(index)
  using running = runningClock()
  const resumedAt = running.monoMs()
  await eventually('duplicates are answered', async () => {
    const { kind } = await sidecar.claim('before', { budgetMs: 100 })
    return kind === 'duplicate'
  })
  // Two seconds are promised; a machine that does other things beside this gets one more.
  expect(running.monoMs() - resumedAt).toBeLessThan(3_000)
  // What was sent to the nodes while they stood still holds nothing up: the leases of nobody end by themselves.
  await sidecar.carryOut('after')
})

// F9, F19, F20: what a node says instead of an answer is never "the key is free".
test.each<[what: string, act: (client: Redis) => Promise<unknown>]>([
  ['is out of memory', (client) => client.config('SET', 'maxmemory', '1')],
  ['is busy with a long script', (client) => busy(client)],
  ['asks for a password', (client) => lockOut(client)],
])(
  'a node that %s votes for nothing; with three of five nothing is granted, and it recovers',
  async (_, act) => {
    const { servers, sidecar } = await start(5)
    await sidecar.carryOut('before')
    const clients = await Promise.all([0, 1, 2].map((index) => at(servers, index)))
    const [first, second, third] = clients as [Redis, Redis, Redis]
    await act(first)
    await sidecar.carryOut('four are left')
    await Promise.all([act(second), act(third)])
    const claims = await eventually('nobody grants', async () => {
      const claimed = await sidecar.claim(`refused ${performance.now()}`, { budgetMs: 200 })
      return claimed.kind === 'unavailable' && claimed
    })
    expect(claims.kind).toBe('unavailable')
    await Promise.all(clients.map((client) => recover(client)))
    const duplicate = await eventually('the record is there again', async () => {
      const claimed = await sidecar.claim('before', { budgetMs: 500 })
      return claimed.kind === 'duplicate' && claimed
    })
    expect(duplicate).toMatchObject({ outcome: outcomeOf('before') })
  },
)

async function busy(client: Redis): Promise<void> {
  await client.config('SET', 'lua-time-limit', '10')
  const endless = new Redis(client.options.port ?? 0, '127.0.0.1')
  onTestFinished(() => endless.disconnect())
  endless.eval('while true do end', 0).catch(() => {}) // It is killed: that is the end of it.
  await eventually('it says BUSY', async () =>
    (await client.ping().catch((cause) => String(cause))).includes('BUSY'),
  )
}

async function lockOut(client: Redis): Promise<void> {
  await client.config('SET', 'requirepass', 'unknown to the sidecar')
  await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
}

async function recover(client: Redis): Promise<void> {
  await client.call('SCRIPT', 'KILL').catch(() => {}) // Where no script runs there is none to kill.
  await eventually('it answers again', () => client.ping())
  await client.config('SET', 'requirepass', '')
  await client.config('SET', 'maxmemory', '0')
}
