/** Nodes that answer and refuse every write, as Redis does where its disk is full or replicas are missing. */
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

// Bug: nothing but a debug line said so. The node showed as one that is well, everywhere, while every new request was refused.
test('a node that refuses every write says why, and is well again when it takes them', async () => {
  await using servers = await startRedisServers(3)
  await using sidecar = await joinCluster(servers.urls, {}, true)
  await sidecar.votes(3)
  const operators = servers.urls.slice(0, 2).map((url) => new Redis(url))
  onTestFinished(() => {
    for (const operator of operators) operator.disconnect()
  })
  const reasons = () =>
    sidecar.nodes
      .states()
      .map(({ state }) => (state.kind === 'voting' ? (state.reason ?? 'well') : state.kind))
  const told = () =>
    sidecar.events.flatMap((event) =>
      event.kind === 'node_writes' && event.node === sidecar.name(0) ? [event.refusal ?? 'takes writes'] : [],
    )

  for (const operator of operators) await operator.config('SET', 'min-replicas-to-write', '1')
  await eventually(
    'two nodes are seen to refuse writes',
    () => reasons()[0] !== 'well' && reasons()[1] !== 'well',
  )
  const why = 'NOREPLICAS Not enough good replicas to write.'
  const shown = `it takes no writes, because replicas are missing (${why.slice(0, -1)})`
  expect(reasons()).toEqual([shown, shown, 'well'])
  expect(told()).toEqual([why])
  expect(await sidecar.claim('new', { budgetMs: 100 })).toMatchObject({ kind: 'unavailable', required: 2 })

  for (const operator of operators) await operator.config('SET', 'min-replicas-to-write', '0')
  await eventually('all nodes are well', () => reasons().every((reason) => reason === 'well'))
  expect(told()).toEqual([why, 'takes writes'])
  await sidecar.carryOut('new')
})

test('a read-only replica is unfit, and not a master that refuses writes', async () => {
  await using servers = await startRedisServers(3)
  await using sidecar = await joinCluster(servers.urls, {}, true)
  await sidecar.votes(3)
  const operator = clientOf(servers.at(0).url)
  const { address } = servers.at(1)
  if (address.kind !== 'tcp') throw new Error('it listens on a port')
  await operator.replicaof(address.host, address.port)
  await eventually('it is unfit', () => sidecar.states()[0] === 'unfit')
  expect(sidecar.events.filter(({ kind }) => kind === 'node_writes')).toEqual([])
})
