/** Real servers that hang, refuse and come back, behind the guards that `serve` puts around them. */
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { pause } from '../../src/core/retry.ts'
import { systemClock } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { runningClock } from '../support/held-clock.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

/** More than the default of `serve`: other work of the machine may delay a healthy server. */
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
  return clientOf(servers.at(index).url)
}

test('requests wait for a hung node a few times only, however many there are', async () => {
  const { servers, sidecar } = await start(5)
  servers.pause(4)
  const given = (to: string) =>
    sidecar.events.findIndex((event) => event.kind === 'breaker_changed' && event.to === to)
  for (let n = 0; given('open') < 0; n += 1) await sidecar.carryOut(`request ${n}`)
  // Calls under way when it was given up still end; after a stall their end is reported two turns later.
  await pause(systemClock, DEADLINE_MS)
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  const from = sidecar.events.length
  const startedMs = performance.now()
  for (let n = 0; n < 200; n += 1) await sidecar.carryOut(`next ${n}`)
  const waited = sidecar.events
    .slice(from)
    .filter(
      (event) =>
        event.kind === 'node_answered' &&
        event.node === sidecar.name(4) &&
        event.detail?.startsWith('timeout'),
    )
  // Of 400 calls: the probes, each after a longer pause, and in the end two a second.
  const elapsedS = (performance.now() - startedMs) / 1_000
  expect(waited.length).toBeLessThanOrEqual(6 + 2 * elapsedS)
  expect(sidecar.events).toContainEqual(
    expect.objectContaining({ kind: 'breaker_changed', node: sidecar.name(4), to: 'open' }),
  )
  servers.resume(4)
  await eventually('it is asked again', async () => {
    await sidecar.carryOut(`later ${performance.now()}`)
    const closed = (event: { kind: string }) =>
      event.kind === 'breaker_changed' && 'to' in event && event.to === 'closed'
    return sidecar.events.some(closed)
  })
})

test('a hung quorum is used again within two seconds of its return, and gets few calls meanwhile', async () => {
  const { servers, sidecar } = await start(5)
  await sidecar.carryOut('before')
  for (const index of [0, 1, 2]) servers.pause(index)
  await eventually('the quorum is given up', async () => {
    await sidecar.claim('lost', { budgetMs: 100 })
    return sidecar.kinds().includes('quorum_breaker_changed')
  })
  // A claim that is refused at once reached no node: two of them would have answered. A probe reaches them.
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
  // Two seconds are promised; a busy machine gets one more.
  expect(running.monoMs() - resumedAt).toBeLessThan(3_000)
  // Calls from the time of the hang delay no request: leases without a holder end by themselves.
  await sidecar.carryOut('after')
})

// F9, F19, F20: the error of a node never means "the key is free".
test.each<[what: string, act: (client: Redis) => Promise<unknown>]>([
  ['is out of memory', (client) => client.config('SET', 'maxmemory', '1')],
  ['is busy with a long script', (client) => busy(client)],
  ['asks for a password', (client) => lockOut(client)],
])(
  'a node that %s grants no claim; with three of five no claim is granted, and it recovers',
  async (_, act) => {
    const { servers, sidecar } = await start(5)
    await sidecar.carryOut('before')
    const clients = await Promise.all([0, 1, 2].map((index) => at(servers, index)))
    const [first, second, third] = clients as [Redis, Redis, Redis]
    await act(first)
    await sidecar.carryOut('four are left')
    await Promise.all([act(second), act(third)])
    const claims = await eventually('no node grants', async () => {
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
  endless.eval('while true do end', 0).catch(() => {}) // It is killed.
  await eventually('it says BUSY', async () =>
    (await client.ping().catch((cause) => String(cause))).includes('BUSY'),
  )
}

async function lockOut(client: Redis): Promise<void> {
  await client.config('SET', 'requirepass', 'unknown to the sidecar')
  await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
}

async function recover(client: Redis): Promise<void> {
  await client.call('SCRIPT', 'KILL').catch(() => {}) // There may be no running script.
  await eventually('it answers again', () => client.ping())
  await client.config('SET', 'requirepass', '')
  await client.config('SET', 'maxmemory', '0')
}
