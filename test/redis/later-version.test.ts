/**
 * What this version does on meeting what a later one left on the nodes: it refuses with a sentence, and changes nothing. The later
 * version is forged, by a larger number in place of ours.
 */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { sentenceOf } from '../../src/core/node-faults.ts'
import { changeMembers } from '../../src/redis/change-members.ts'
import { CLUSTER_KEY, INCARNATION_KEY, QUARANTINE_KEY } from '../../src/redis/keys.ts'
import type { RedisNodesOptions } from '../../src/redis/nodes.ts'
import { callMembership } from '../../src/redis/scripts.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { foundCluster } from '../support/founded-cluster.ts'
import { joinCluster, keyOf } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

let clients: readonly Redis[]
const servers = duringTests(() => startRedisServers(3))
beforeAll(() => {
  clients = servers.urls.map((url) => new Redis(url))
})
afterAll(() => {
  for (const client of clients) client.disconnect()
})
beforeEach(async () => {
  await onAll((client) => client.flushall())
  await foundCluster(servers.urls)
})

const NAMES = ['redis-0', 'redis-1', 'redis-2']
/** A claim that must fail. */
const SOON = { budgetMs: 300 }
const LATER = /a later version has taken the cluster over.*docs\/operations\/upgrading\.md/

const onAll = <T>(act: (client: Redis) => Promise<T>) => Promise.all(clients.map(act))
const runIdOf = async (client: Redis) => ((await callMembership(client, '', ['poll'])) as [string])[0]

async function join(more: Partial<RedisNodesOptions> = { names: NAMES }) {
  const sidecar = await joinCluster(servers.urls, more)
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  return sidecar
}
type Joined = Awaited<ReturnType<typeof join>>
const reasons = ({ nodes }: Joined) =>
  nodes.states().map(({ state }) => (state.kind === 'unfit' ? sentenceOf(state) : state.kind))

describe('the format of a cluster', () => {
  test('is written on every node, also where an earlier build has founded it without one', async () => {
    expect(await onAll((client) => client.hget(CLUSTER_KEY, 'format'))).toEqual(['1', '1', '1'])
    await onAll((client) => client.hdel(CLUSTER_KEY, 'format'))
    const sidecar = await join()
    await sidecar.votes(3)
    expect(await onAll((client) => client.hget(CLUSTER_KEY, 'format'))).toEqual(['1', '1', '1'])
  })

  test.each(['2', '10', '0', 'x'])(
    '%s, which is not ours, refuses every node at the start',
    async (format) => {
      await onAll((client) => client.hset(CLUSTER_KEY, 'format', format))
      const sidecar = await join()
      for (const reason of reasons(sidecar)) {
        expect(reason).toContain(
          `its cluster has the format ${format}, and this fencepost works with format 1`,
        )
        expect(reason).toMatch(LATER)
      }
      expect(await sidecar.claim('request', SOON)).toMatchObject({ kind: 'unavailable' })
      expect(await onAll((client) => client.dbsize())).toEqual([2, 2, 2])
    },
  )

  test('is polled again: a sidecar at work stops as soon as a later version has raised it', async () => {
    const sidecar = await join()
    await sidecar.votes(3)
    await sidecar.carryOut('before')
    // As the rule of `node-format.ts` says: with another incarnation, in one call.
    await onAll(async (client) => {
      const incarnation = (await client.get(INCARNATION_KEY)) ?? ''
      await client
        .multi()
        .hset(CLUSTER_KEY, 'format', '2')
        .set(INCARNATION_KEY, `2${incarnation.slice(1)}`)
        .exec()
    })
    expect(await sidecar.claim('after', SOON)).toMatchObject({ kind: 'unavailable' })
    await eventually('every node to be refused', () => reasons(sidecar).every((reason) => LATER.test(reason)))
    expect(await onAll((client) => client.exists(QUARANTINE_KEY))).toEqual([0, 0, 0])
  })

  test('is checked by the node itself: no act of ours changes what stands there', async () => {
    const sidecar = await join()
    await sidecar.votes(3)
    await onAll((client) => client.hset(CLUSTER_KEY, 'format', '2'))
    const before = await onAll((client) => client.hgetall(CLUSTER_KEY))
    for (const client of clients)
      await expect(
        callMembership(client, await runIdOf(client), ['members', 'redis-0', 'nonce', 'operator']),
      ).rejects.toThrow('NEWER the cluster has the format 2, and this fencepost works with format 1')
    const changed = await changeMembers(sidecar.nodes, ['redis-0', 'redis-1', 'redis-7'], 'any', 'operator')
    expect(changed).toMatchObject({ kind: 'newer', node: 'redis-0', reason: expect.stringMatching(LATER) })
    expect(await onAll((client) => client.hgetall(CLUSTER_KEY))).toEqual(before)
  })
})

test('an incarnation of a later version is no vote for us, and stays: the node does not rejoin over it', async () => {
  await onAll(async (client) => client.set(INCARNATION_KEY, `2:${await runIdOf(client)}:nonce:more`))
  const sidecar = await join()
  for (const reason of reasons(sidecar))
    expect(reason).toContain('its incarnation has the version "2", and this fencepost works with version 1')
  expect(await onAll((client) => client.exists(QUARANTINE_KEY))).toEqual([0, 0, 0])
  expect(
    (await onAll((client) => client.get(INCARNATION_KEY))).map((incarnation) => incarnation?.slice(0, 2)),
  ).toEqual(Array(3).fill('2:'))
})

describe('a record of a later version', () => {
  const SENTENCE = 'a later fencepost wrote this record: version 2, and 1 is known'

  async function recordedByLater() {
    const sidecar = await join()
    await sidecar.votes(3)
    await sidecar.carryOut('request')
    await onAll((client) => client.setrange(keyOf('request'), 0, '2'))
    return sidecar
  }

  test('is neither answered nor executed again, and stays as it is', async () => {
    const sidecar = await recordedByLater()
    const before = await onAll((client) => client.getBuffer(keyOf('request')))
    expect(await sidecar.claim('request', SOON)).toMatchObject({ kind: 'unavailable' })
    expect(await sidecar.nodes.nodes[0]!.execute({ kind: 'read', key: keyOf('request') })).toMatchObject({
      kind: 'unreachable',
      detail: expect.stringContaining(SENTENCE),
    })
    expect(await onAll((client) => client.getBuffer(keyOf('request')))).toEqual(before)
  })

  test('is not left out where a node rejoins: this version does not bring it back', async () => {
    const { nodes } = await recordedByLater()
    const [member] = nodes.members
    const { state } = member!
    if (state.kind !== 'voting') throw new Error('it votes')
    const node = nodes.rejoiningNode(member!, state.facts)
    await expect(node.inspect([keyOf('request')], false)).rejects.toThrow(SENTENCE)
    // A damaged one says nothing to anybody, and must not keep a node from voting for ever.
    await clients[0]!.setrange(keyOf('request'), 0, '!')
    expect((await node.inspect([keyOf('request')], false)).snapshots).toEqual(['damaged'])
  })
})
