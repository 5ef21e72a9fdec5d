/** Nodes out of memory that forget or restart: no write about them is half done. */
import type { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { CLUSTER_KEY, INCARNATION_KEY, QUARANTINE_KEY } from '../../src/redis/keys.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, type RedisServersOptions, startRedisServers } from '../support/redis-servers.ts'

const NODES = 5

async function start(
  options: RedisServersOptions = {},
): Promise<{ servers: RedisServers; sidecar: Sidecar }> {
  const servers = await startRedisServers(NODES, options)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const sidecar = await joinCluster(servers.urls)
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await sidecar.votes(NODES)
  return { servers, sidecar }
}

function recordedBy({ events }: Sidecar, node: string): number {
  return events.filter(
    (event) => event.kind === 'node_answered' && event.node === node && event.answer === 'recorded',
  ).length
}

async function at(servers: RedisServers, index: number): Promise<Redis> {
  return clientOf(servers.at(index).url, { maxRetriesPerRequest: 1 })
}

test('a node that restarts with its data at maxmemory votes again, and answers duplicates', async () => {
  const { servers, sidecar } = await start({ appendOnly: true })
  const names = Array.from({ length: 50 }, (_, n) => `request ${n}`)
  await Promise.all(names.map((name) => sidecar.carryOut(name)))
  // A majority without this node may have recorded the last ones; what it lacks would not fit.
  await eventually(
    'it has recorded every outcome',
    () => recordedBy(sidecar, sidecar.name(2)) === names.length,
  )
  // Full, and full again from its very start.
  const before = sidecar.events.length
  await servers.kill(2)
  await servers.start(2, { args: ['--maxmemory', '1'] })
  await eventually('it votes again', () => sidecar.gotVote(2, before))
  await sidecar.votes(NODES)
  const node = await at(servers, 2)
  expect((await node.config('GET', 'maxmemory'))[1]).toBe('1')
  expect(await node.exists(QUARANTINE_KEY)).toBe(0)
  expect(await node.hgetall(CLUSTER_KEY)).toMatchObject({ id: sidecar.nodes.cluster().id })
  for (const name of names)
    expect(await sidecar.claim(name)).toMatchObject({ kind: 'duplicate', outcome: outcomeOf(name) })
})

test('a node that forgot and has no room for its records waits, and rejoins when there is room', async () => {
  const { servers, sidecar } = await start()
  const names = Array.from({ length: 50 }, (_, n) => `request ${n}`)
  await Promise.all(names.map((name) => sidecar.carryOut(name)))
  const node = await at(servers, 2)
  await node.config('SET', 'maxmemory', '1')
  await node.flushall()
  const stumbled = () =>
    sidecar.events.some(
      (event) =>
        event.kind === 'rejoin_step_failed' && event.node === sidecar.name(2) && event.reason.includes('OOM'),
    )
  await eventually('a step is refused, and reported', stumbled)
  // It has no incarnation, and no mark of a finished copy.
  expect(await node.get(INCARNATION_KEY)).toBeNull()
  expect(await node.hgetall(QUARANTINE_KEY)).toMatchObject({ origin: 'forgot', done: '' })
  expect(sidecar.states()[2]).toBe('quarantined')
  for (const name of names) expect(await sidecar.claim(name)).toMatchObject({ kind: 'duplicate' })

  const before = sidecar.events.length
  await node.config('SET', 'maxmemory', '0')
  await eventually('it votes by itself', () => sidecar.gotVote(2, before))
  await sidecar.votes(NODES)
  expect(await node.exists(QUARANTINE_KEY)).toBe(0)
})
