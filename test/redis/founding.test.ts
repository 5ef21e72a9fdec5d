/** When a cluster may be founded, and what a process does whose cluster was founded anew. */

import { expect, onTestFinished, test } from 'vitest'
import { declareLoss } from '../../src/core/nodes/shown-nodes.ts'
import { CLUSTER_KEY, QUARANTINE_KEY } from '../../src/redis/keys.ts'
import type { RedisNodesOptions } from '../../src/redis/nodes.ts'
import { systemRandom } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

const ALL = [0, 1, 2]

async function start(): Promise<RedisServers> {
  const servers = await startRedisServers(ALL.length)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  return servers
}

async function join(servers: RedisServers, more: Partial<RedisNodesOptions> = {}): Promise<Sidecar> {
  const sidecar = await joinCluster(servers.urls, more)
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  return sidecar
}

/** Dials at the latest possible time. */
const LATE = { random: { ...systemRandom, fraction: () => 0.99 } }

/** A sidecar that has acknowledged an outcome and holds a lease; then all nodes end. */
async function servingUntilAllEnd(servers: RedisServers): Promise<Sidecar> {
  const sidecar = await join(servers, LATE)
  await sidecar.votes(3)
  await sidecar.carryOut('acknowledged')
  expect(await sidecar.claim('held', { leaseMs: 60_000 })).toMatchObject({ kind: 'granted' })
  await Promise.all(ALL.map((index) => servers.kill(index)))
  await eventually('it has noticed', () => sidecar.states().every((state) => state === 'down'))
  // From now on it dials once a second only.
  await eventually('it waits for long', () =>
    sidecar.nodes.members.every(
      ({ client }) => (client as unknown as { retryAttempts: number }).retryAttempts > 5,
    ),
  )
  return sidecar
}

const restartEmpty = (servers: RedisServers) =>
  Promise.all(ALL.map((index) => servers.start(index, { emptied: true })))

const SHORT = { budgetMs: 200 }

test('where all nodes restart empty and a fresh sidecar comes first, no earlier claim is granted again', async () => {
  const servers = await start()
  const running = await servingUntilAllEnd(servers)
  const { id } = running.nodes.cluster()
  await restartEmpty(servers)
  // Far longer than the other needs in order to object, a second and what a busy machine adds: the objection ends it.
  const fresh = await join(servers, { foundingWindowMs: 15_000 })
  expect(fresh.kinds()).not.toContain('cluster_founded')
  for (const sidecar of [fresh, running]) {
    await eventually('it is said', () => sidecar.kinds().includes('rejoin_blocked'))
    expect(await sidecar.claim('acknowledged', SHORT)).toMatchObject({ kind: 'unavailable' })
    expect(await sidecar.claim('held', SHORT)).toMatchObject({ kind: 'unavailable' })
    expect(sidecar.nodes.cluster().id).toBe(id)
  }
  // The operator decides, and the same cluster goes on.
  expect(await declareLoss(fresh.nodes, id, 'ann')).toMatchObject({ kind: 'declared', clusterId: id })
  for (const sidecar of [fresh, running]) await sidecar.votes(3)
  await running.carryOut('afterwards')
  expect(await fresh.claim('afterwards')).toMatchObject({
    kind: 'duplicate',
    outcome: outcomeOf('afterwards'),
  })
})

test('a sidecar that was away while its cluster was founded anew accepts none of the nodes, and says why', async () => {
  const servers = await start()
  const away = await servingUntilAllEnd(servers)
  const { id } = away.nodes.cluster()
  await restartEmpty(servers)
  const fresh = await join(servers, { foundingWindowMs: 0 })
  await fresh.votes(3)
  await eventually('it has come back', () => away.states().every((state) => state === 'unfit'))
  expect(await away.claim('acknowledged', SHORT)).toMatchObject({ kind: 'unavailable', answered: 0 })
  expect(away.nodes.cluster().id).toBe(id)
  const reasons = away.nodes.states().map(({ state }) => ('reason' in state ? state.reason : ''))
  const found = fresh.nodes.cluster().id
  expect(reasons).toEqual(
    ALL.map(() => expect.stringContaining(`cluster ${found}, and this sidecar has worked with ${id}`)),
  )
  expect(away.events.filter(({ kind }) => kind === 'cluster_replaced')).toEqual([
    { kind: 'cluster_replaced', known: id, found, node: expect.any(String) },
  ])
  // For good: also over new connections.
  for (const { client } of away.nodes.members) client.disconnect(true)
  await eventually('they are back', () => away.nodes.members.every(({ client }) => client.status === 'ready'))
  for (const member of away.nodes.members) await away.nodes.inspect(member)
  expect(away.states()).toEqual(['unfit', 'unfit', 'unfit'])
})

test('a brand-new cluster is founded once, by one of two sidecars, after a window without objection', async () => {
  const servers = await start()
  const [before, foundingWindowMs] = [performance.now(), 700]
  const sidecars = await Promise.all([0, 1].map(() => join(servers, { foundingWindowMs })))
  for (const sidecar of sidecars) await sidecar.votes(3)
  expect(performance.now() - before).toBeGreaterThan(foundingWindowMs)
  expect(sidecars.flatMap((one) => one.kinds()).filter((kind) => kind === 'cluster_founded')).toHaveLength(1)
  // The next sidecar starts without a wait.
  await (await join(servers, { foundingWindowMs: 60_000 })).votes(3)
})

test('where a node is emptied within the window, and an objection with it, the window restarts', async () => {
  const servers = await start()
  const client = clientOf(servers.at(1).url)
  const joining = join(servers, { foundingWindowMs: 3_000 })
  const first = await eventually('it is proposed', () => client.hget(QUARANTINE_KEY, 'nonce'))
  await client.hset(QUARANTINE_KEY, 'origin', 'forgot')
  await client.flushall()
  const since = performance.now()
  await (await joining).votes(3)
  expect(performance.now() - since).toBeGreaterThan(2_900)
  expect(await client.get('dedup::incarnation')).not.toContain(first)
})

test('a node with an objection is not claimed for a founding under the proposed nonce', async () => {
  const servers = await start()
  const sidecar = await join(servers, { foundingWindowMs: 60_000, watchOnly: true })
  const [member] = sidecar.nodes.members
  if (member?.state.kind !== 'quarantined') throw new Error('it is empty')
  const node = sidecar.nodes.rejoiningNode(member, member.state.facts)
  await node.begin('1'.repeat(32), 'new')
  expect(await node.claimFounding('a'.repeat(32), '2'.repeat(32))).toBe(false)
  await node.begin('3'.repeat(32), 'forgot')
  expect(await node.claimFounding('a'.repeat(32), '1'.repeat(32))).toBe(false)
})

test('a waiting node with the name of another cluster is unfit beside voting nodes, without a founding', async () => {
  const servers = await start()
  const sidecar = await join(servers)
  await sidecar.votes(3)
  const client = clientOf(servers.at(2).url)
  await client.multi().flushall().hset(CLUSTER_KEY, 'id', 'another', 'quarantine_ms', '1').exec()
  await eventually('it is seen', () => sidecar.states()[2] === 'unfit')
  const { state } = sidecar.nodes.states()[2] ?? {}
  const reason = `it belongs to the cluster another, and the nodes that vote to ${sidecar.nodes.cluster().id}`
  expect(state).toMatchObject({ reason })
  expect(sidecar.kinds()).not.toContain('cluster_replaced')
  await client.flushall()
  await sidecar.votes(3)
})
