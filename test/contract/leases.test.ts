import { expect, test } from 'vitest'
import { createLeases } from '../../src/core/claims/leases.ts'
import { SILENT } from '../../src/core/events.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { createCluster, TEST_TOKEN_AHEAD_MS } from '../support/cluster.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { openRedisNode } from '../support/redis-node.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { seededRandom } from '../support/seeded-random.ts'
import { VirtualClock } from '../support/virtual-clock.ts'
import { leasesContract } from './leases.ts'

const cleanup = stackOfTests()

leasesContract('five embedded nodes', async () => {
  const clock = new VirtualClock()
  return {
    clock,
    cluster: createCluster(clock, seededRandom(1)),
    pass: (ms) => clock.advance(ms),
    during: (promise) => clock.during(promise),
  }
})

async function openFive(servers: RedisServers) {
  return Promise.all(
    servers.urls.map(async (url) => {
      const given = { maxTokenAheadMs: TEST_TOKEN_AHEAD_MS }
      return cleanup.use(await openRedisNode({ url }, given)).node
    }),
  )
}

leasesContract('five Redis servers', async () => {
  const servers = cleanup.use(await startRedisServers(5))
  return {
    clock: systemClock,
    cluster: createCluster(systemClock, systemRandom, await openFive(servers)),
    pass: async (ms) => {
      const untilMs = systemClock.monoMs() + ms
      await eventually(`${ms} ms to pass`, () => systemClock.monoMs() >= untilMs, { everyMs: 2 })
    },
    during: (promise) => promise,
  }
})

test('servers stop one after the other: three of five are a quorum, two are none', async () => {
  const servers = cleanup.use(await startRedisServers(5))
  const nodes = await openFive(servers)
  const ports = { clock: systemClock, events: SILENT }
  const quorum = createRedlockQuorum({ nodes, ...ports })
  const leases = createLeases({ quorum, random: systemRandom, ...ports })
  const claim = (key: string, budgetMs: number) =>
    leases.claim({ key, fingerprint: 'f'.repeat(64), leaseMs: 10_000, retentionMs: 60_000, budgetMs })
  for (const [stopped, kind] of ['granted', 'granted', 'granted', 'unavailable'].entries()) {
    const claimed = claim(`dedup:stopped:${stopped}`, kind === 'granted' ? 10_000 : 500)
    expect(await claimed, `${stopped} stopped`).toMatchObject({ kind })
    await servers.stop(stopped)
  }
})
