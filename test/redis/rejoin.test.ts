import { createServer } from 'node:net'
import type { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { sentenceOf } from '../../src/core/node-faults.ts'
import { declareLoss } from '../../src/core/nodes/shown-nodes.ts'
import { INCARNATION_KEY, QUARANTINE_KEY } from '../../src/redis/keys.ts'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, keyOf, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, type RedisServersOptions, startRedisServers } from '../support/redis-servers.ts'
import { scriptCalls } from '../support/script-calls.ts'

async function start(count: number, options: RedisServersOptions = {}) {
  const servers = await startRedisServers(count, options)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  return servers
}

async function join(...[urls, more]: Parameters<typeof joinCluster>): Promise<Sidecar> {
  const sidecar = await joinCluster(urls, more)
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  return sidecar
}

/** A client of the test. */
async function at(servers: RedisServers, index: number): Promise<Redis> {
  return clientOf(servers.at(index).url, { maxRetriesPerRequest: 1 })
}

async function restartEmpty(servers: RedisServers, index: number): Promise<void> {
  await servers.kill(index)
  await servers.start(index, { emptied: true })
}

/** Restarts a node empty, and waits until it rejoins. */
async function rejoined(servers: RedisServers, index: number, sidecar: Sidecar): Promise<void> {
  const before = sidecar.events.length
  await restartEmpty(servers, index)
  await eventually(`node ${index} rejoins`, () => sidecar.gotVote(index, before))
}

/** Evicts all records, and no key without a lifetime. */
async function evict(client: Redis): Promise<void> {
  await client.config('SET', 'maxmemory-policy', 'volatile-random')
  await client.config('SET', 'maxmemory', '2mb')
  const fill = client.pipeline()
  for (let n = 0; n < 3_000; n += 1) fill.set(`filler:${n}`, 'x'.repeat(1_000))
  await fill.exec()
}

async function keepAll(client: Redis): Promise<void> {
  await client.config('SET', 'maxmemory', '0')
  await client.config('SET', 'maxmemory-policy', 'noeviction')
}

const duplicate = (name: string) => ({ kind: 'duplicate', outcome: outcomeOf(name) })

test('a brand-new cluster is founded at once, by the first of three sidecars', async () => {
  const servers = await start(5)
  const sidecars = await Promise.all([0, 1, 2].map(() => join(servers.urls)))
  for (const sidecar of sidecars) await sidecar.votes(5)
  const founders = sidecars.filter((sidecar) => sidecar.kinds().includes('cluster_founded'))
  expect(founders.length).toBe(1)
  const ids = sidecars.map(({ nodes }) => nodes.cluster().id)
  expect(new Set(ids).size).toBe(1)
})

test('a node that restarts empty gets its vote back only with the records of the others', async () => {
  const servers = await start(5)
  const sidecar = await join(servers.urls)
  await sidecar.votes(5)
  const names = Array.from({ length: 300 }, (_, index) => `request ${index}`)
  for (const name of names) await sidecar.carryOut(name)

  const before = sidecar.events.length
  await restartEmpty(servers, 2)
  const client = await at(servers, 2)
  const incarnations = await eventually(
    'the node rejoins',
    async () => {
      const incarnation = await client.get(INCARNATION_KEY)
      // It never votes before it knows what it may have forgotten.
      if (sidecar.states()[2] === 'voting') expect(incarnation).not.toBeNull()
      return incarnation
    },
    { withinMs: 15_000 },
  )
  expect(incarnations).toMatch(/^1:[0-9a-f]{40}:[0-9a-z]+:\d{13}:0$/)
  await sidecar.votes(5)
  for (const name of names) expect(await client.exists(keyOf(name))).toBe(1)
  expect(await client.pttl(keyOf('request 7'))).toBeGreaterThan(30_000)
  expect(sidecar.gotVote(2, before)).toBe(true)

  // Straight after, two others fail: the remaining ones and the node that forgot have the outcome.
  await restartEmpty(servers, 0)
  await restartEmpty(servers, 1)
  for (const name of names.slice(0, 20)) expect(await sidecar.claim(name)).toMatchObject(duplicate(name))
})

test('records are copied many at a time, and each outcome is loaded once', async () => {
  const servers = await start(5)
  const sidecar = await join(servers.urls)
  await sidecar.votes(5)
  const names = Array.from({ length: 600 }, (_, index) => `one of many ${index}`)
  await Promise.all(names.map((name) => sidecar.carryOut(name)))
  const clients = await Promise.all([0, 1, 2, 3].map((index) => at(servers, index)))
  for (const client of clients) await client.config('RESETSTAT')
  await rejoined(servers, 4, sidecar)
  await sidecar.votes(5)
  const own = await at(servers, 4)
  const HEADER_BYTES = 166
  for (const name of names) {
    const outcome = await clients[0]?.getrange(keyOf(name), HEADER_BYTES, -1)
    expect(outcome).not.toBe('')
    expect(await own.getrange(keyOf(name), HEADER_BYTES, -1)).toBe(outcome)
  }
  // Some hundred keys a page: for each a read and an adoption here, a read and a load on the sources.
  expect(await scriptCalls(own)).toBeLessThan(60)
  for (const client of clients) expect(await scriptCalls(client)).toBeLessThan(60)
})

test('under load, a node that restarts empty is never counted before it rejoins', async () => {
  const servers = await start(5)
  const sidecar = await join(servers.urls)
  await sidecar.votes(5)
  let over = false
  let done = 0
  const worker = async (name: string) => {
    for (let n = 0; !over; n += 1) {
      await sidecar.carryOut(`${name} ${n}`)
      done += 1
    }
  }
  const load = Promise.all(['ann', 'bob', 'eve'].map(worker))
  await eventually('there is load', () => done > 100)
  await servers.kill(2)
  const killed = sidecar.events.length
  await servers.start(2, { emptied: true })
  const rejoinedAt = () =>
    sidecar.events.findIndex(
      (event, at) => at > killed && event.kind === 'node_state' && event.to === 'voting',
    )
  await eventually('it rejoins', () => rejoinedAt() > 0, { withinMs: 15_000 })
  await eventually('it is counted again', () => answers(sidecar, rejoinedAt()).has('granted'))
  over = true
  await load
  expect([...answers(sidecar, killed, rejoinedAt())].sort()).toEqual(['quarantined', 'unreachable'])
})

/** The answers of the node at index 2, between two events. */
function answers({ events, name }: Sidecar, from: number, until?: number): Set<string> {
  const between = events.slice(from, until)
  return new Set(
    between.flatMap((event) =>
      event.kind === 'node_answered' && event.node === name(2) ? [event.answer] : [],
    ),
  )
}

test('a node in quarantine gets commands, and its answers do not count', async () => {
  const servers = await start(3)
  const sidecar = await join(servers.urls, { quarantineMs: 60_000 })
  await sidecar.votes(3)
  await restartEmpty(servers, 0)
  await eventually('it is noticed', () => sidecar.states()[0] === 'quarantined')
  await sidecar.carryOut('written everywhere')
  const client = await at(servers, 0)
  await eventually('the quarantined node has it, too', () => client.exists(keyOf('written everywhere')))
  // With another node gone there are two answers, of which one counts.
  await servers.kill(1)
  expect(await sidecar.claim('needs two', { budgetMs: 200 })).toMatchObject({
    kind: 'unavailable',
    answered: 1,
    required: 2,
  })
})

test('FLUSHALL on two of five: duplicates are still answered from the record', async () => {
  const servers = await start(5)
  const sidecar = await join(servers.urls)
  await sidecar.votes(5)
  await sidecar.carryOut('remembered')
  for (const index of [1, 3]) await (await at(servers, index)).flushall()
  expect(await sidecar.claim('remembered')).toMatchObject(duplicate('remembered'))
  await sidecar.votes(5)
  expect(await sidecar.claim('remembered')).toMatchObject(duplicate('remembered'))
})

test.each([3, 5])(
  'FLUSHALL on %i of five: no claim is granted any more, and an event reports it',
  async (wiped) => {
    const servers = await start(5)
    const sidecar = await join(servers.urls)
    await sidecar.votes(5)
    await sidecar.carryOut('forgotten')
    for (let index = 0; index < wiped; index += 1) await (await at(servers, index)).flushall()
    expect(await sidecar.claim('forgotten', { budgetMs: 200 })).toMatchObject({ kind: 'unavailable' })
    await eventually('it is blocked', () => sidecar.kinds().includes('rejoin_blocked'))
    expect(await sidecar.claim('forgotten', { budgetMs: 200 })).toMatchObject({ kind: 'unavailable' })
    // Nor does a sidecar that starts now take them for new.
    const late = await join(servers.urls)
    await eventually('it is blocked there, too', () => late.kinds().includes('rejoin_blocked'))
    expect(await late.claim('forgotten', { budgetMs: 200 })).toMatchObject({ kind: 'unavailable' })
  },
)

test('SIGKILL with a file synced every second: the node rejoins, and remembers', async () => {
  const servers = await start(3, { appendOnly: true, config: ['appendfsync everysec'] })
  const sidecar = await join(servers.urls)
  await sidecar.votes(3)
  await sidecar.carryOut('on disk')
  await servers.kill(0)
  await servers.start(0)
  await eventually('the new process is noticed', () => sidecar.states()[0] === 'quarantined')
  await sidecar.votes(3)
  await servers.kill(1)
  expect(await sidecar.claim('on disk')).toMatchObject(duplicate('on disk'))
})

test('restarts of all nodes one after another lose no record, and a read still sees it completed', async () => {
  const servers = await start(3)
  const sidecar = await join(servers.urls)
  await sidecar.votes(3)
  await sidecar.carryOut('handed on')
  await sidecar.claim('handed on')
  for (const index of [0, 1, 2]) {
    await rejoined(servers, index, sidecar)
    await sidecar.votes(3)
  }
  expect(await sidecar.leases.read(keyOf('handed on'))).toMatchObject({ kind: 'completed' })
  expect(await sidecar.claim('handed on')).toMatchObject(duplicate('handed on'))
})

/** Long enough for a test that stalls for a second to see it. */
const SEEN = { quarantineMs: 2_000 }

test('a second crash during the rejoin restarts the quarantine', async () => {
  const servers = await start(3)
  const sidecar = await join(servers.urls, SEEN)
  await sidecar.votes(3)
  await sidecar.carryOut('twice')
  await restartEmpty(servers, 0)
  const first = await eventually('the quarantine begins', () => quarantineOf(servers, 0))
  await restartEmpty(servers, 0)
  const second = await eventually('it begins anew', () => quarantineOf(servers, 0))
  expect(second.nonce).not.toBe(first.nonce)
  expect(second.run_id).not.toBe(first.run_id)
  await sidecar.votes(3)
  await servers.kill(1)
  expect(await sidecar.claim('twice')).toMatchObject(duplicate('twice'))
})

async function quarantineOf(servers: RedisServers, index: number) {
  const quarantine = await (await at(servers, index)).hgetall(QUARANTINE_KEY)
  return quarantine.nonce === undefined ? undefined : quarantine
}

test('another sidecar finishes a rejoin that one began', async () => {
  const servers = await start(3)
  const first = await joinCluster(servers.urls, SEEN)
  await first.votes(3)
  await first.carryOut('taken over')
  await restartEmpty(servers, 0)
  await eventually('the first has begun', () => quarantineOf(servers, 0))
  await first[Symbol.asyncDispose]()
  const second = await join(servers.urls)
  await second.votes(3)
  await servers.kill(1)
  expect(await second.claim('taken over')).toMatchObject(duplicate('taken over'))
})

test('the longest quarantine of any sidecar counts for all', async () => {
  const servers = await start(3)
  const short = await join(servers.urls, { quarantineMs: 100 })
  await short.votes(3)
  const long = await join(servers.urls, { quarantineMs: 700 })
  await long.votes(3)
  await eventually('it has spread', () => short.nodes.cluster().quarantineMs === 700)
  await long[Symbol.asyncDispose]()
  const before = performance.now()
  await restartEmpty(servers, 0)
  await eventually('noticed', () => short.states()[0] === 'quarantined')
  await short.votes(3)
  expect(performance.now() - before).toBeGreaterThan(690)
})

test.each<[what: string, act: (client: Redis, servers: RedisServers) => Promise<unknown>, reason: string]>([
  [
    'starts to evict',
    (client) => client.config('SET', 'maxmemory-policy', 'allkeys-lru'),
    'maxmemory-policy is allkeys-lru',
  ],
  [
    'becomes a replica',
    (client, servers) => {
      const { address } = servers.at(1)
      return client.replicaof('127.0.0.1', address.kind === 'tcp' ? address.port : 0)
    },
    'its role is slave',
  ],
])('a node that %s while it votes is kept out', async (_, act, reason) => {
  const servers = await start(3)
  const sidecar = await join(servers.urls)
  await sidecar.votes(3)
  await act(await at(servers, 0), servers)
  await eventually('it is unfit', () => sidecar.states()[0] === 'unfit')
  expect(sidecar.events).toContainEqual(
    expect.objectContaining({
      kind: 'node_state',
      node: sidecar.name(0),
      to: 'unfit',
      reason: expect.stringContaining(reason),
    }),
  )
  await sidecar.carryOut('without it')
})

test('a node that has evicted keys rejoins once it stops evicting', async () => {
  const servers = await start(3)
  const sidecar = await join(servers.urls)
  await sidecar.votes(3)
  await sidecar.carryOut('perhaps evicted')
  const client = await at(servers, 0)
  const before = sidecar.events.length
  await client.config('SET', 'maxmemory-policy', 'allkeys-random')
  await eventually('it is unfit', () => sidecar.states()[0] === 'unfit')
  await client.config('SET', 'maxmemory', '2mb')
  const fill = client.pipeline()
  for (let n = 0; n < 3_000; n += 1) fill.set(`filler:${n}`, 'x'.repeat(1_000))
  await fill.exec()
  await eventually('its incarnation is taken away', async () => (await client.exists(INCARNATION_KEY)) === 0)
  await client.config('SET', 'maxmemory', '0')
  await client.config('SET', 'maxmemory-policy', 'noeviction')
  await sidecar.votes(3)
  expect(sidecar.gotVote(0, before)).toBe(true)
  await servers.kill(1)
  expect(await sidecar.claim('perhaps evicted')).toMatchObject(duplicate('perhaps evicted'))
})

test('a node that has evicted keys between two polls rejoins under any later policy', async () => {
  const servers = await start(3)
  const sidecar = await join(servers.urls, { inspectEveryMs: 60_000 })
  await sidecar.votes(3)
  await sidecar.carryOut('evicted unseen')
  const client = await at(servers, 0)
  await evict(client)
  expect(await client.exists(keyOf('evicted unseen'))).toBe(0)
  await keepAll(client)
  const [member] = sidecar.nodes.members
  if (member === undefined) throw new Error('there are three')
  await sidecar.nodes.inspect(member)
  expect(sidecar.states()[0]).toBe('quarantined')
  await sidecar.votes(3)
  expect(await client.exists(keyOf('evicted unseen'))).toBe(1)
})

test('where all nodes have evicted, a later sidecar founds no cluster: the operator declares the loss', async () => {
  const servers = await start(3)
  const before = await join(servers.urls)
  await before.votes(3)
  await before.carryOut('evicted everywhere')
  const clients = await Promise.all([0, 1, 2].map((index) => at(servers, index)))
  for (const client of clients) {
    await evict(client)
    expect(await client.exists(keyOf('evicted everywhere'))).toBe(0)
    await eventually(
      'its incarnation is taken away',
      async () => (await client.exists(INCARNATION_KEY)) === 0,
    )
  }
  await before[Symbol.asyncDispose]()
  for (const client of clients) await keepAll(client)

  const after = await join(servers.urls)
  await eventually('it says so', () => after.kinds().includes('rejoin_blocked'))
  expect(after.kinds()).not.toContain('cluster_founded')
  expect(await after.claim('evicted everywhere', { budgetMs: 100 })).toMatchObject({ kind: 'unavailable' })
  const { id } = after.nodes.cluster()
  expect(await declareLoss(after.nodes, id, 'ann')).toMatchObject({ kind: 'declared', clusterId: id })
  await after.votes(3)
})

test('a node that has evicted keys since its counters were reset rejoins, one that has not votes on', async () => {
  const servers = await start(3)
  const sidecar = await join(servers.urls, { inspectEveryMs: 60_000 })
  await sidecar.votes(3)
  await sidecar.carryOut('evicted after a reset')
  const client = await at(servers, 0)
  const [member] = sidecar.nodes.members
  if (member === undefined) throw new Error('there are three')
  const evicted = async () => Number(/^evicted_keys:(\d+)/m.exec(await client.info('stats'))?.[1])
  const evictedAndRejoined = async () => {
    await evict(client)
    expect(await client.exists(keyOf('evicted after a reset'))).toBe(0)
    await keepAll(client)
    await sidecar.nodes.inspect(member)
    expect(sidecar.states()[0]).toBe('quarantined')
    await sidecar.votes(3)
    expect(await client.exists(keyOf('evicted after a reset'))).toBe(1)
  }
  for (let times = 0; times < 3; times += 1) await evictedAndRejoined()
  const before = await evicted()

  await client.config('RESETSTAT')
  await evictedAndRejoined()
  expect(await evicted()).toBeLessThan(before)

  const events = sidecar.events.length
  await client.config('RESETSTAT')
  await sidecar.nodes.inspect(member)
  expect(sidecar.states()[0]).toBe('voting')
  expect(sidecar.events.slice(events).filter(({ kind }) => kind === 'node_state')).toEqual([])
  await evictedAndRejoined()
})

test('a server listed twice, an evicting one and a replica are unfit from the start, with a reason', async () => {
  const servers = await start(5, {
    config: (index) => (index === 3 ? ['maxmemory-policy allkeys-lru', 'maxmemory 100mb'] : []),
  })
  const { address } = servers.at(1)
  await (await at(servers, 4)).replicaof('127.0.0.1', address.kind === 'tcp' ? address.port : 0)
  const [a = '', b = '', , d = '', e = ''] = servers.urls
  const sidecar = await join([a, b, a, d, e])
  const reasons = () =>
    sidecar.nodes
      .states()
      .flatMap(({ name, state }) => (state.kind === 'unfit' ? [`${name}: ${sentenceOf(state)}`] : []))
  // At the start, unless a node did not answer the first poll in time.
  await eventually('three are unfit', () => reasons().length === 3)
  expect(reasons()).toEqual([
    expect.stringContaining(`${sidecar.name(0)}: it is the same server as ${sidecar.name(2)} `),
    expect.stringContaining(`${sidecar.name(3)}: its maxmemory-policy is allkeys-lru`),
    expect.stringContaining(`${sidecar.name(4)}: its role is slave`),
  ])
})

// Bug: both were down, with words of Redis about syntax and slots, and the sidecar started as if they might come back.
test('a server that is too old and a node of a Redis Cluster are unfit from the start, with a reason', async () => {
  const servers = await start(2, { config: (index) => (index === 1 ? ['cluster-enabled yes'] : []) })
  const sixth = await oldServer()
  const sidecar = await join([servers.urls[0] ?? '', servers.urls[1] ?? '', sixth])
  const reasons = () =>
    sidecar.nodes
      .states()
      .flatMap(({ name, state }) => (state.kind === 'unfit' ? [`${name}: ${sentenceOf(state)}`] : []))
  await eventually('two are unfit', () => reasons().length === 2)
  expect(reasons()).toEqual([
    expect.stringMatching(/: it is a node of a Redis Cluster, .* use an independent master$/),
    `${sidecar.name(2)}: it is Redis 6.2.5, and fencepost needs 7.0 or later: upgrade it`,
  ])
})

/** Answers as Redis 6.2 does: of INFO it knows one section at a time, and nothing of what a poll asks besides. */
async function oldServer(): Promise<string> {
  const info = 'redis_version:6.2.5\r\nredis_mode:standalone\r\n'
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.setEncoding('latin1').on('data', (text: string) => {
      for (const [, count, name] of text.matchAll(/\*(\d+)\r\n\$\d+\r\n([a-z]+)\r\n/gi)) {
        const isKnown = name?.toLowerCase() === 'info' && Number(count) <= 2
        socket.write(isKnown ? `$${info.length}\r\n${info}\r\n` : '-ERR syntax error\r\n')
      }
    })
  })
  const served = await listening(server)
  onTestFinished(() => void server.close())
  return `redis://127.0.0.1:${served.port}`
}

test('of two URLs of a voting server only one is used, also where both are inspected together', async () => {
  const servers = await start(3)
  const first = await join(servers.urls)
  await first.votes(3)
  const [a = '', b = ''] = servers.urls
  // A longer lease is written to each node first: between poll and vote there is time for the twin.
  const sidecar = await join([a, b, a], { quarantineMs: 5_000 })
  await eventually('all have been polled', () => !sidecar.states().includes('down'))
  expect([...sidecar.states()].sort()).toEqual(['unfit', 'voting', 'voting'])
})

test('a node of another cluster is unfit', async () => {
  const servers = await start(6)
  const first = await join(servers.urls.slice(0, 3))
  const second = await join(servers.urls.slice(3, 6))
  await first.votes(3)
  await second.votes(3)
  const [a = '', b = '', , d = ''] = servers.urls
  const mixed = await join([a, b, d])
  await eventually('all have been polled', () => !mixed.states().includes('down'))
  expect(mixed.states().filter((state) => state === 'unfit').length).toBeGreaterThan(0)
  expect(
    mixed.nodes
      .states()
      .map(({ state }) => ('reason' in state ? state.reason : ''))
      .join(),
  ).toContain('it belongs to the cluster')
})

test('a stopped node does not delay the start, and is inspected when it resumes', async () => {
  const servers = await start(3)
  const before = await join(servers.urls)
  await before.votes(3)
  servers.pause(2)
  const sidecar = await join(servers.urls, { connectTimeoutMs: 200 })
  await sidecar.votes(2)
  await sidecar.carryOut('by two')
  servers.resume(2)
  await sidecar.votes(3)
})

test('a node that is down at the start is inspected and joins when it comes up', async () => {
  const servers = await start(3)
  const before = await join(servers.urls)
  await before.votes(3)
  await before.carryOut('before')
  await servers.kill(2)
  const sidecar = await join(servers.urls)
  await sidecar.votes(2)
  expect(sidecar.states()[2]).toBe('down')
  await servers.start(2, { emptied: true })
  await sidecar.votes(3)
  await servers.kill(0)
  expect(await sidecar.claim('before')).toMatchObject(duplicate('before'))
})

// Bug: what had been copied to it was gone, and it voted without: requests that the others had recorded were executed again.
test('a node that evicts keys while it waits begins its quarantine anew', async () => {
  const servers = await start(3)
  const sidecar = await join(servers.urls, { inspectEveryMs: 60_000, quarantineMs: 3_000 })
  await sidecar.votes(3)
  await sidecar.carryOut('copied and evicted')
  const [client, source, other] = await Promise.all([0, 1, 2].map((index) => at(servers, index)))
  const [member] = sidecar.nodes.members
  if (client === undefined || source === undefined || other === undefined || member === undefined)
    throw new Error('there are three')
  await client.flushall()
  await sidecar.nodes.inspect(member)
  expect(sidecar.states()[0]).toBe('quarantined')
  // As if the copying were over.
  const key = keyOf('copied and evicted')
  await client.restore(key, 60_000, await source.dumpBuffer(key))
  const runs = [source, other].map(async (one) => /run_id:(\w+)/.exec(await one.info('server'))?.[1])
  await client.hset(QUARANTINE_KEY, 'done', (await Promise.all(runs)).join(','))
  await evict(client)
  expect(await client.exists(key)).toBe(0)
  await keepAll(client)
  await sidecar.nodes.inspect(member)
  await sidecar.votes(3)
  expect(await client.exists(key)).toBe(1)
})

test('a node that evicts keys when it is started again with its data has forgotten', async () => {
  const servers = await start(3, { appendOnly: true })
  const names = servers.urls.map((url) => new URL(url).host)
  const sidecar = await join(servers.urls, { names })
  await sidecar.votes(3)
  await sidecar.carryOut('kept and evicted')
  await eventually('all nodes have heartbeats', () =>
    sidecar.nodes.members.every(({ state }) => 'facts' in state && state.facts.heartbeat?.others.size === 2),
  )
  await sidecar[Symbol.asyncDispose]()
  await servers.kill(0)
  await servers.start(0)
  const client = await at(servers, 0)
  await evict(client)
  expect(await client.exists(keyOf('kept and evicted'))).toBe(0)
  await keepAll(client)
  const later = await join(servers.urls, { names })
  await later.votes(3)
  expect(await client.exists(keyOf('kept and evicted'))).toBe(1)
  expect(later.events).toContainEqual(
    expect.objectContaining({ to: 'quarantined', reason: expect.stringContaining('it has evicted keys') }),
  )
})
