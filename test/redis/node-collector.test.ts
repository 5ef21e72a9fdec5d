// Memory, evictions and slow log of the nodes, read by one sidecar for all.
import { expect, test } from 'vitest'
import { createNodeCollector } from '../../src/coordination/node-collector.ts'
import { readNodeStats } from '../../src/redis/node-stats.ts'
import { systemClock } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { scrape, seriesOf } from '../support/series.ts'
import { type Sidecar, startSidecar } from '../support/sidecar.ts'

const NODE_SERIES = [
  'fencepost_redis_node_memory_used_bytes',
  'fencepost_redis_node_memory_fragmentation_ratio',
  'fencepost_redis_node_evicted_keys',
  'fencepost_redis_node_slowlog_length',
]

/** The metrics of a sidecar: whether it is elected, and how many series of nodes have a value. */
async function shownBy({ admin }: Sidecar) {
  const series = seriesOf(await scrape(admin))
  const ofNodes = [...series].filter(([name]) => NODE_SERIES.includes(name.split('{')[0] ?? ''))
  return {
    elected: series.get('fencepost_node_collector_elected'),
    there: ofNodes.length,
    known: ofNodes.filter(([, value]) => !Number.isNaN(value)).length,
    series,
  }
}

test('of two sidecars one reads the node stats, then its survivor; no series comes or goes', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  const settings = {
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_NODE_COLLECTION_INTERVAL: '200ms',
  }
  const sidecars = [await startSidecar(settings), await startSidecar(settings)] as const
  await using _first = sidecars[0]
  await using _second = sidecars[1]
  const elected = await eventually('one of them has the node stats', async () => {
    const shown = await Promise.all(sidecars.map(shownBy))
    return shown.some(({ known }) => known === 12) ? shown : undefined
  })
  expect(elected.map(({ there }) => there)).toEqual([12, 12])
  expect(elected.map(({ elected: one }) => one).sort()).toEqual([0, 1])
  expect(elected.map(({ known }) => known).sort((a, b) => a - b)).toEqual([0, 12])
  const leader = elected.findIndex(({ known }) => known === 12)
  const series = elected[leader]?.series
  expect(series?.get('fencepost_redis_node_memory_used_bytes{node="redis-0"}')).toBeGreaterThan(100_000)
  expect(series?.get('fencepost_redis_node_memory_fragmentation_ratio{node="redis-2"}')).toBeGreaterThan(0)
  expect(series?.get('fencepost_redis_node_evicted_keys{node="redis-1"}')).toBe(0)

  sidecars[leader]?.process.signal('SIGKILL')
  const other = sidecars[1 - leader] as Sidecar
  // The leadership of a dead holder is free when its lease of 15 s is over.
  const after = await eventually(
    'the other reads the node stats',
    async () => {
      const shown = await shownBy(other)
      return shown.known === 12 ? shown : undefined
    },
    { withinMs: 40_000 },
  )
  expect(after).toMatchObject({ elected: 1, there: 12 })
}, 90_000)

test('without the setting there are no node stats', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: servers.nodesSetting })
  expect(await shownBy(sidecar)).toMatchObject({ elected: undefined, there: 0 })
})

test('a node that does not answer has no value, the others have; a slow command counts in the log length', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await using sidecar = await joinCluster(servers.urls)
  const { members } = sidecar.nodes
  const [first, , last] = members
  await first?.client.config('SET', 'slowlog-log-slower-than', '0')
  await first?.client.config('RESETSTAT')
  await servers.kill(2)
  await eventually('its connection is gone', () => last?.client.status !== 'ready')
  const sources = members.map(({ node, client }) => ({
    name: node.name,
    read: () => readNodeStats(client, 10_000, systemClock),
  }))
  const over = new AbortController()
  const collector = createNodeCollector(sources, 60_000, systemClock)
  expect(collector.nodeStats()).toBeUndefined()
  const collecting = collector.collect(over.signal)
  const nodeStats = await eventually('a look', () => collector.nodeStats())
  expect([...nodeStats.keys()]).toEqual(['redis-0', 'redis-1'])
  expect(nodeStats.get('redis-0')?.slowlogLength).toBeGreaterThan(0)
  over.abort()
  await collecting
  expect(collector.nodeStats()).toBeUndefined()
})
