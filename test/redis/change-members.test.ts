/** A change of the list of nodes, of which some go away between the poll of them and the writing. */

import type { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { standstillOf } from '../../src/core/nodes/shown-nodes.ts'
import { changeMembers } from '../../src/redis/change-members.ts'
import { CLUSTER_KEY, HEARTBEAT_KEY, INCARNATION_KEY, QUARANTINE_KEY } from '../../src/redis/keys.ts'
import type { RedisNodes } from '../../src/redis/nodes.ts'
import { openDoor } from '../support/door.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, keyOf, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

const OLD = ['redis-0', 'redis-1', 'redis-2']
const NEW = ['redis-0', 'redis-1', 'redis-9']

/** The client of a node to which a change of the list comes through only after that; never, where it rejects or stays pending. */
function delayed(client: Redis, until: () => Promise<void>): Redis {
  return new Proxy(client, {
    get: (of, name) => {
      const value = Reflect.get(of, name, of)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) =>
        name === 'evalsha' && args.includes('members')
          ? until().then(() => value.apply(of, args))
          : value.apply(of, args)
    },
  })
}

const silent = () => new Promise<never>(() => {})
const restarted = () => Promise.reject(new Error('RUN_CHANGED the process has the run_id b, not a'))

test.each([
  ['one is suspended', [silent], { kind: 'changed', to: NEW, on: ['redis-1', 'redis-2'] }],
  ['one was restarted', [restarted], { kind: 'changed', to: NEW, on: ['redis-1', 'redis-2'] }],
  ['one of each', [silent, restarted], { kind: 'unfinished', on: ['redis-2'], required: 2 }],
])('%s: the command ends, and says which nodes took it', async (_, away, expected) => {
  await using servers = await startRedisServers(3)
  await using sidecar = await joinCluster(servers.urls, { names: OLD })
  await sidecar.votes(3)
  const { members, options } = sidecar.nodes
  const seen = members.map((member, at) => {
    const fault = away[at]
    return fault === undefined ? member : { ...member, client: delayed(member.client, fault) }
  })
  const nodes = { members: seen, options } as unknown as RedisNodes
  const id = sidecar.nodes.cluster().id
  expect(await changeMembers(nodes, NEW, id, 'ann')).toMatchObject(expected)
  // Those that took it have it already, and those that are back take it now.
  expect(await changeMembers(sidecar.nodes, NEW, id, 'ann')).toMatchObject({ kind: 'changed' })
})

const MINUTE_MS = 60_000

/** As if the sidecars had been stopped a minute ago: what a node says of times is so much older. */
async function aMinuteLater(client: Redis): Promise<void> {
  for (const [field, value] of Object.entries(await client.hgetall(HEARTBEAT_KEY)))
    if (field === 'ms' || field.startsWith('of:'))
      await client.hset(HEARTBEAT_KEY, field, Number(value) - MINUTE_MS)
  const incarnation = (await client.get(INCARNATION_KEY)) ?? ''
  const older = incarnation.split(':').map((part, at) => (at === 3 ? String(Number(part) - MINUTE_MS) : part))
  await client.set(INCARNATION_KEY, older.join(':'))
}

// Bug: the command gives each node another incarnation, and the nodes note the one of before of each other. A sidecar that met some of them a
// moment before the others believed that another server had had the names of those, and took their incarnations away: with a majority of them
// the cluster stood still until an operator declared a loss.
test('after the list has grown, a sidecar that reaches most of the old nodes a moment later lets them vote', async () => {
  await using servers = await startRedisServers(5)
  const clients = servers.urls.map((url) => clientOf(url))
  const old = clients.slice(0, 3)
  const three = await joinCluster(servers.urls.slice(0, 3), { names: OLD })
  await three.votes(3)
  await eventually('each of them knows when the others had heartbeats', async () => {
    const known = await Promise.all(old.map((client) => client.hkeys(HEARTBEAT_KEY)))
    return known.every((fields) => fields.filter((field) => field.startsWith('counter:')).length === 2)
  })
  await three[Symbol.asyncDispose]()
  await Promise.all(old.map(aMinuteLater))

  const names = [...OLD, 'redis-3', 'redis-4']
  const operator = await joinCluster(servers.urls, { names, watchOnly: true })
  const id = await clients[0]?.hget(CLUSTER_KEY, 'id')
  expect((await changeMembers(operator.nodes, names, id ?? '', 'ann')).kind).toBe('changed')
  await operator[Symbol.asyncDispose]()

  const doors = await Promise.all(
    servers.urls.slice(1, 3).map((url) => openDoor({ host: '127.0.0.1', port: Number(new URL(url).port) })),
  )
  for (const door of doors) door.turn('held')
  const [first = '', , , ...grown] = servers.urls
  const late = doors.map(({ port }) => `redis://127.0.0.1:${port}`)
  const joining = joinCluster([first, ...late, ...grown], { names, connectTimeoutMs: 10_000 })
  const heartbeats = async () => Number(await clients[0]?.hget(HEARTBEAT_KEY, 'count'))
  const before = await heartbeats()
  await eventually('the first one has heartbeats again', async () => (await heartbeats()) >= before + 2)
  for (const door of doors) door.turn('open')
  await using sidecar = await joining
  await sidecar.votes(5)
  const waited = sidecar.events.flatMap((event) =>
    event.kind === 'node_state' && event.to === 'quarantined' ? [event.node] : [],
  )
  expect(waited.toSorted()).toEqual(['redis-3', 'redis-4'])
})

const at = ({ urls }: RedisServers, ...indexes: number[]) => indexes.map((index) => urls[index] ?? '')

/** An operator's command with these nodes. */
async function change(urls: readonly string[], names: readonly string[]) {
  await using operator = await joinCluster(urls, { names, watchOnly: true })
  const id = await operator.nodes.members[0]?.client.hget(CLUSTER_KEY, 'id')
  return await changeMembers(operator.nodes, names, id ?? '', 'ann')
}

// Bug: a node that had been taken from the list and came back, with its data or without having stopped, voted at once, by its incarnation of
// before: what was recorded in between was executed again.
test.each([
  ['went on', async () => {}, { kind: 'not_empty', nodes: ['redis-2'] }],
  [
    'was started again with its data',
    async (servers: RedisServers) => {
      await servers.stop(2)
      await servers.start(2)
    },
    { kind: 'not_empty', nodes: ['redis-2'] },
  ],
  ['is silent', async (servers: RedisServers) => servers.pause(2), { kind: 'silent', nodes: ['redis-2'] }],
])(
  'a node that was taken away, and %s, comes back only once it is seen to be empty',
  async (_, meanwhile, refused) => {
    await using servers = await startRedisServers(4, { appendOnly: true })
    const others = ['redis-0', 'redis-1', 'redis-3']
    const founder = await joinCluster(at(servers, 0, 1, 2), { names: OLD })
    await founder.votes(3)
    await founder[Symbol.asyncDispose]()
    expect((await change(at(servers, 0, 1, 3), others)).kind).toBe('changed')
    const without = await joinCluster(at(servers, 0, 1, 3), { names: others })
    await without.votes(3)
    await without.carryOut('without it')
    await without[Symbol.asyncDispose]()
    // As if one of the three had missed it.
    await clientOf(servers.urls[1] ?? '').del(keyOf('without it'))

    await meanwhile(servers)
    expect(await change(at(servers, 0, 1, 2), OLD)).toEqual(refused)
    servers.resume(2)
    await clientOf(servers.urls[2] ?? '').flushall()
    expect((await change(at(servers, 0, 1, 2), OLD)).kind).toBe('changed')
    await using sidecar = await joinCluster(at(servers, 0, 1, 2), { names: OLD })
    await sidecar.votes(3)
    servers.pause(0)
    expect((await sidecar.claim('without it')).kind).not.toBe('granted')
    servers.resume(0)
  },
)

// Bug: a majority of the new list could not be told any more what the others of the old one remembered. The change could not be taken back
// either, and only a declared loss went on from there.
test('nothing is changed while too few of the nodes that stay remember', async () => {
  await using servers = await startRedisServers(5)
  const founder = await joinCluster(at(servers, 0, 1, 2), { names: OLD })
  await founder.votes(3)
  await founder[Symbol.asyncDispose]()
  await servers.stop(2)
  await servers.start(2)
  const grown = [...OLD, 'redis-3', 'redis-4']
  expect(await change(servers.urls, grown)).toEqual({ kind: 'forgot', nodes: ['redis-2'], required: 3 })
  await using before = await joinCluster(at(servers, 0, 1, 2), { names: OLD })
  await before.votes(3)
  await before[Symbol.asyncDispose]()
  expect((await change(servers.urls, grown)).kind).toBe('changed')
  await using after = await joinCluster(servers.urls, { names: grown })
  await after.votes(5)
})

test('a node that came with the change votes on while the command is repeated for one that was away', async () => {
  await using servers = await startRedisServers(6)
  const five = [...OLD, 'redis-3', 'redis-4']
  const moved = [...OLD, 'redis-3', 'redis-5']
  const founder = await joinCluster(at(servers, 0, 1, 2, 3, 4), { names: five })
  await founder.votes(5)
  await founder[Symbol.asyncDispose]()
  servers.pause(3)
  expect((await change(at(servers, 0, 1, 2, 3, 5), moved)).kind).toBe('changed')
  await using sidecar = await joinCluster(at(servers, 0, 1, 2, 3, 5), { names: moved })
  await sidecar.votes(4)
  const incarnation = () => clientOf(servers.urls[5] ?? '').get(INCARNATION_KEY)
  const before = await incarnation()
  servers.resume(3)
  expect((await change(at(servers, 0, 1, 2, 3, 5), moved)).kind).toBe('changed')
  await sidecar.votes(5)
  expect(await incarnation()).toBe(before)
})

/** What is recorded stands on nodes 0 and 1 of three alone, and both lose it. */
async function lostByTwoOfThree(servers: RedisServers, sidecar: Sidecar, name: string): Promise<void> {
  const [first, second, third] = servers.urls.map((url) => clientOf(url)) as [Redis, Redis, Redis]
  for (const client of [first, second]) await client.save()
  await third.config('SET', 'maxmemory', '1')
  await sidecar.carryOut(name)
  expect(await third.exists(keyOf(name))).toBe(0)
  await third.config('SET', 'maxmemory', '0')
  await sidecar[Symbol.asyncDispose]()
  for (const index of [0, 1]) {
    await servers.kill(index)
    await servers.start(index)
  }
}

// Bug: servers that a sidecar with the new list had polled before the change counted as nodes that had forgotten nothing since then. Two
// old nodes that had lost the same moment were no longer too many of five, voted, and what had been recorded then was executed again.
test('what too many of the old nodes have lost is not made up for by nodes that came after it', async () => {
  await using servers = await startRedisServers(5)
  const grown = [...OLD, 'redis-3', 'redis-4']
  const three = await joinCluster(at(servers, 0, 1, 2), { names: OLD, inspectEveryMs: 200 })
  await three.votes(3)
  const [first, , , ...coming] = servers.urls.map((url) => clientOf(url))
  const early = await joinCluster(servers.urls, { names: grown })
  expect(early.states().slice(0, 3)).toEqual(['unfit', 'unfit', 'unfit'])
  await early[Symbol.asyncDispose]()
  // As if it had been a minute ago.
  for (const client of coming) await client.hincrby(QUARANTINE_KEY, 'since', -MINUTE_MS)
  await eventually('the nodes know of each other', async () => {
    const fields = await first?.hkeys(HEARTBEAT_KEY)
    return fields?.filter((field) => field.startsWith('of:')).length === 2
  })
  await eventually(
    'they run for longer than the clocks of nodes may be apart',
    async () => {
      const infos = await Promise.all(coming.map((client) => client.info('server')))
      return infos.every((info) => Number(/uptime_in_seconds:(\d+)/.exec(info)?.[1]) >= 10)
    },
    { withinMs: 30_000 },
  )
  await lostByTwoOfThree(servers, three, 'payment')
  expect((await change(servers.urls, grown)).kind).toBe('changed')

  await using sidecar = await joinCluster(servers.urls, { names: grown })
  await eventually('the nodes that came are known to have forgotten', async () => {
    const origins = await Promise.all(coming.map((client) => client.hget(QUARANTINE_KEY, 'origin')))
    return origins.every((origin) => origin === 'forgot')
  })
  // Copying to the old ones would begin when no answer from before their restart counts any more.
  await eventually(
    'an operator has to decide, or they vote',
    () => standstillOf(sidecar.nodes) !== undefined || sidecar.states().every((state) => state === 'voting'),
    { withinMs: 20_000 },
  )
  expect(await sidecar.claim('payment', { budgetMs: 1_000 })).toMatchObject({ kind: 'unavailable' })
  expect(standstillOf(sidecar.nodes)).toContain('declare-loss')
})

// Bug: each node took both, in the order in which they came, so that both commands said that the change was made.
test('of two operators who change the list at once at most one has done it', async () => {
  await using servers = await startRedisServers(3)
  const founder = await joinCluster(servers.urls, { names: OLD })
  await founder.votes(3)
  await founder[Symbol.asyncDispose]()
  let polled = 0
  const bothPolled = Promise.withResolvers<void>()
  const operator = async (name: string) => {
    await using sidecar = await joinCluster(servers.urls, { watchOnly: true })
    const { members, options } = sidecar.nodes
    const seen = members.map((member) => ({
      ...member,
      client: delayed(member.client, async () => {
        polled += 1
        if (polled === 2 * members.length) bothPolled.resolve()
        await bothPolled.promise
      }),
    }))
    const id = sidecar.nodes.cluster().id
    return await changeMembers(
      { members: seen, options } as unknown as RedisNodes,
      ['redis-0', 'redis-1', name],
      id,
      name,
    )
  }
  const both = await Promise.all([operator('redis-8'), operator('redis-9')])
  expect(both.map(({ kind }) => kind).toSorted()).toEqual(['changed', 'unfinished'])
})
