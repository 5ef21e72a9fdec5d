/** One node says of the others, or of the cluster, what is not so: a stranger wrote to it, or its data were corrupted. */
import type { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { CLUSTER_KEY, HEARTBEAT_KEY, INCARNATION_KEY } from '../../src/redis/keys.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, type Sidecar } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const HUGE = '9000000000000000'
const POLLS = 5

type Scene = { readonly names: readonly string[]; readonly liar: Redis; readonly others: readonly Redis[] }

async function start(count: number) {
  const servers = await startRedisServers(count)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const [liar, ...others] = servers.urls.map((url) => {
    return clientOf(url)
  })
  if (liar === undefined) throw new Error('no server')
  const names = servers.urls.map((_, index) => `node-${index}`)
  const join = async (): Promise<Sidecar> => {
    const sidecar = await joinCluster(servers.urls, { names, inspectEveryMs: 100 })
    onTestFinished(() => sidecar[Symbol.asyncDispose]())
    return sidecar
  }
  return { scene: { names, liar, others } satisfies Scene, join }
}

async function haveHeartbeats({ liar, others }: Scene): Promise<void> {
  await eventually('each node has heartbeats', async () => {
    const counts = await Promise.all([liar, ...others].map((node) => node.hget(HEARTBEAT_KEY, 'count')))
    return counts.every((count) => Number(count) > 2)
  })
}

/** As many full polls as could find something. */
async function polls(sidecar: Sidecar): Promise<void> {
  for (let poll = 0; poll < POLLS; poll += 1)
    await Promise.all(sidecar.nodes.members.map((member) => sidecar.nodes.inspect(member)))
}

const lostVotes = (sidecar: Sidecar) =>
  sidecar.events.flatMap((event) =>
    event.kind === 'node_state' && event.from === 'voting' ? [[event.node, event.reason]] : [],
  )

// Bug: each other node "was set back", for ever, and sidecars wrote the count that was no count to all nodes.
test.each([3, 5])(
  'of %i nodes one that says how many heartbeats the others have had is itself the one without a vote',
  async (count) => {
    const { scene, join } = await start(count)
    const sidecar = await join()
    await sidecar.votes(count)
    await haveHeartbeats(scene)
    const nonce = (await scene.liar.get(INCARNATION_KEY))?.split(':')[2]
    const lies = scene.names.slice(1).flatMap((name) => [`counter:${name}`, `${nonce}:${HUGE}`])
    await scene.liar.hset(HEARTBEAT_KEY, ...lies)
    await eventually('it is found', () => lostVotes(sidecar).length > 0)
    await sidecar.votes(count)
    await polls(sidecar)
    expect(lostVotes(sidecar)).toEqual([['node-0', expect.stringContaining('cannot be')]])
    for (const node of [scene.liar, ...scene.others])
      expect(JSON.stringify(await node.hgetall(HEARTBEAT_KEY))).not.toContain(HUGE)
    await sidecar.carryOut('after that')
  },
)

test.each<[what: string, key: string, fields: (scene: Scene) => readonly string[]]>([
  [
    'counts that could be',
    HEARTBEAT_KEY,
    ({ names }) => names.slice(1).flatMap((name) => [`counter:${name}`, 'nonce:60']),
  ],
  [
    'heartbeats of the others that are to come',
    HEARTBEAT_KEY,
    ({ names }) => names.slice(1).flatMap((name) => [`of:${name}`, HUGE]),
  ],
  ['a quarantine of ten thousand years', CLUSTER_KEY, () => ['quarantine_ms', '315360000000000']],
  ['a quarantine that could be', CLUSTER_KEY, () => ['quarantine_ms', '9000000']],
  ['another cluster', CLUSTER_KEY, () => ['id', 'another']],
  ['other nodes', CLUSTER_KEY, () => ['members', 'a,b,c']],
  ['a format to come', CLUSTER_KEY, () => ['format', '99']],
])(
  'a node that claims %s takes no vote of another, of sidecars that run and that start',
  async (_, key, fieldsOf) => {
    const { scene, join } = await start(5)
    const running = await join()
    await running.votes(5)
    await haveHeartbeats(scene)
    await scene.liar.hset(key, ...fieldsOf(scene))
    await polls(running)
    const starting = await join()
    await polls(starting)
    for (const sidecar of [running, starting]) {
      expect(lostVotes(sidecar).filter(([node]) => node !== 'node-0')).toEqual([])
      expect(sidecar.states().slice(1)).toEqual(['voting', 'voting', 'voting', 'voting'])
      expect(sidecar.nodes.cluster().quarantineMs).toBeLessThan(1_000)
      await sidecar.carryOut(`with ${sidecar === running ? 'the first' : 'the second'}`)
    }
    // And it passes nothing on.
    for (const node of scene.others)
      for (const lie of fieldsOf(scene).filter((_, at) => at % 2 === 1))
        expect(
          JSON.stringify([await node.hgetall(HEARTBEAT_KEY), await node.hgetall(CLUSTER_KEY)]),
        ).not.toContain(`"${lie}"`)
  },
)

test('a single node that claims another cluster stops no sidecar from starting, and is named', async () => {
  const { scene, join } = await start(5)
  const first = await join()
  await first.votes(5)
  await scene.liar.hset(CLUSTER_KEY, 'id', 'another')
  const later = await join()
  await eventually('it is named', () => later.nodes.states()[0]?.state.kind === 'unfit')
  expect(later.nodes.states()[0]?.state).toMatchObject({ reason: expect.stringContaining('another') })
})
