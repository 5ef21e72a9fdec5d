// Memory, evictions and slow log of the nodes, read by one sidecar for all.
import { expect, test } from 'vitest'
import { createNodeCollector } from '../../src/coordination/node-collector.ts'
import { readNodeStats } from '../../src/redis/node-details.ts'
import { systemClock } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { scrape, seriesOf } from '../support/series.ts'
import { type Sidecar, startSidecar } from '../support/sidecar.ts'

/** Without `maxmemory` and an append-only file a node has no value of these. */
const NODE_SERIES = [
  'fencepost_redis_node_memory_used_bytes',
  'fencepost_redis_node_memory_fragmentation_ratio',
  'fencepost_redis_node_evicted_keys',
  'fencepost_redis_node_expired_keys',
  'fencepost_redis_node_connected_clients',
  'fencepost_redis_node_blocked_clients',
  'fencepost_redis_node_slowlog_length',
  'fencepost_redis_node_slow_commands',
  'fencepost_redis_node_slowest_command_seconds',
]
const NODES = 3
const ALL = NODE_SERIES.length * NODES

/** The metrics of a sidecar: whether it is elected, and how many series of nodes it has. */
async function shownBy({ admin }: Sidecar) {
  const series = seriesOf(await scrape(admin))
  const ofNodes = [...series].filter(([name]) => NODE_SERIES.includes(name.split('{')[0] ?? ''))
  return {
    elected: series.get('fencepost_node_collector_elected'),
    known: ofNodes.length,
    series,
  }
}

test('of two sidecars one reads the node stats without being told to, and no other shows them; then its survivor does', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  const settings = {
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
  }
  const sidecars = [await startSidecar(settings), await startSidecar(settings)] as const
  await using _first = sidecars[0]
  await using _second = sidecars[1]
  const elected = await eventually('one of them has the node stats', async () => {
    const shown = await Promise.all(sidecars.map(shownBy))
    return shown.some(({ known }) => known === ALL) ? shown : undefined
  })
  expect(elected.map(({ elected: one }) => one).sort()).toEqual([0, 1])
  expect(elected.map(({ known }) => known).sort((a, b) => a - b)).toEqual([0, ALL])
  const leader = elected.findIndex(({ known }) => known === ALL)
  const series = elected[leader]?.series
  expect(series?.get(`fencepost_redis_node_memory_used_bytes{node="${servers.names[0]}"}`)).toBeGreaterThan(
    100_000,
  )
  expect(
    series?.get(`fencepost_redis_node_memory_fragmentation_ratio{node="${servers.names[2]}"}`),
  ).toBeGreaterThan(0)
  expect(series?.get(`fencepost_redis_node_evicted_keys{node="${servers.names[1]}"}`)).toBe(0)

  sidecars[leader]?.process.signal('SIGKILL')
  const other = sidecars[1 - leader] as Sidecar
  // The leadership of a dead holder is free when its lease of 15 s is over.
  const after = await eventually(
    'the other reads the node stats',
    async () => {
      const shown = await shownBy(other)
      return shown.known === ALL ? shown : undefined
    },
    { withinMs: 40_000 },
  )
  expect(after).toMatchObject({ elected: 1 })
})

test('an interval of 0s: there are no node stats', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_NODE_COLLECTION_INTERVAL: '0s',
  })
  expect(await shownBy(sidecar)).toMatchObject({ elected: undefined, known: 0 })
})

test('a node that does not answer has no value; a new slow command is reported once, with its name and time alone', async () => {
  await using servers = await startRedisServers(NODES, { founded: true, maxMemory: '64mb', appendOnly: true })
  await using sidecar = await joinCluster(servers.urls)
  const { members } = sidecar.nodes
  const [first, second, last] = members
  // On a busy machine any command may be slow.
  for (const member of [first, second]) await member?.client.config('SET', 'slowlog-log-slower-than', '-1')
  await first?.client.call('SLOWLOG', 'RESET')
  await servers.kill(2)
  await eventually('its connection is gone', () => last?.client.status !== 'ready')
  const sources = members.map(({ node, client }) => ({
    name: node.name,
    read: () => readNodeStats(client, 10_000, systemClock),
  }))
  const over = new AbortController()
  const reported: { readonly node: string; readonly command: string }[] = []
  // What is new at one look is old at the next: a look is made when the test asks for it.
  let next: (() => void) | undefined
  const timer = (_: number, fire: () => void) => {
    next = fire
    return { cancel: () => {} }
  }
  const collector = createNodeCollector(sources, 50, { ...systemClock, timer }, (node, slow) =>
    reported.push({ node, ...slow }),
  )
  const looked = async () => {
    await eventually('a look', () => next)
    return collector.nodeStats()
  }
  const lookAgain = async () => {
    const look = next
    next = undefined
    look?.()
    return (await looked())?.get(sidecar.name(1))?.slowestNewMs
  }
  expect(collector.nodeStats()).toBeUndefined()
  const collecting = collector.collect(over.signal)
  const nodeStats = await looked()
  expect([...(nodeStats?.keys() ?? [])]).toEqual([sidecar.name(0), sidecar.name(1)])
  expect(nodeStats?.get(sidecar.name(1))).toMatchObject({ memoryMaxBytes: 64 * 2 ** 20, aofLastWriteOk: 1 })
  expect(nodeStats?.get(sidecar.name(1))?.slowestNewMs).toBe(0)

  await second?.client.config('SET', 'slowlog-log-slower-than', '10000')
  await second?.client.eval(BUSY, 1, 'a-secret-key')
  expect(await lookAgain()).toBeGreaterThanOrEqual(10)
  await eventually('the look after', async () => (await lookAgain()) === 0)
  expect(reported.filter(({ command }) => command === 'EVAL')).toEqual([
    { node: sidecar.name(1), command: 'EVAL', durationMs: expect.any(Number), atWallMs: expect.any(Number) },
  ])
  over.abort()
  await collecting
  expect(collector.nodeStats()).toBeUndefined()
})

/** Longer than the 10 ms from which on Redis writes to its slow log. */
const BUSY = `local function us() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
local from = us() while us() - from < 20000 do end return KEYS[1]`

test('a slow log that the user may not read costs only its own figures', async () => {
  const refused = { call: () => Promise.reject(new Error('NOPERM')) }
  const info = 'used_memory:5\r\nmaxmemory:0\r\naof_enabled:0\r\nevicted_keys:2\r\n'
  const client = { ...refused, status: 'ready', info: async () => info }
  const { stats, slowCommands } = await readNodeStats(client as never, 1_000, systemClock)
  expect(slowCommands).toEqual([])
  expect(stats).toMatchObject({ memoryUsedBytes: 5, evictedKeys: 2, slowCommands: Number.NaN })
  expect([stats.memoryMaxBytes, stats.aofLastWriteOk]).toEqual([Number.NaN, Number.NaN])
})
