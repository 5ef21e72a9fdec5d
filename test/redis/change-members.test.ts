/** A change of the list of nodes, of which some go away between the look at them and the writing. */
import type { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { changeMembers } from '../../src/redis/change-members.ts'
import type { RedisNodes } from '../../src/redis/nodes.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const OLD = ['redis-0', 'redis-1', 'redis-2']
const NEW = ['redis-0', 'redis-1', 'redis-9']

/** The client of a node to which no change of the list comes through. */
function awayFor(client: Redis, away: () => Promise<never>): Redis {
  return new Proxy(client, {
    get: (of, name) => {
      const value = Reflect.get(of, name, of)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) =>
        name === 'evalsha' && args.includes('members') ? away() : value.apply(of, args)
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
    return fault === undefined ? member : { ...member, client: awayFor(member.client, fault) }
  })
  const nodes = { members: seen, options } as unknown as RedisNodes
  const id = sidecar.nodes.cluster().id
  expect(await changeMembers(nodes, NEW, id, 'ann')).toMatchObject(expected)
  // Those that took it have it already, and those that are back take it now.
  expect(await changeMembers(sidecar.nodes, NEW, id, 'ann')).toMatchObject({ kind: 'changed' })
})
