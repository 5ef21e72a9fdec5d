/**
 * Claim + complete on five real nodes, beside redlock's acquire + release as its users run it, with ioredis
 * autopipelining, and beside the floor: one SET NX on one node.
 *
 *     npm run bench:claims
 *
 * Everything runs on this machine: nodes, clients and load. Only the ratios mean anything. Writes JSON to bench/results/.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import Redlock from 'redlock'
import { createLeases } from '../src/core/claims/leases.ts'
import { createRedlockQuorum } from '../src/quorum/redlock.ts'
import { RedisNodes } from '../src/redis/nodes.ts'
import { systemClock as clock } from '../src/system/clock.ts'
import { systemRandom as random } from '../src/system/random.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { alternate, type Contender, closedLoop, median, ratio } from './support/rounds.ts'

const LEASE_MS = 30_000
const CONCURRENCIES = [1, 8, 64, 256]

await using servers = await startRedisServers(5)
const silent = { publish: () => {} }
await using nodes = new RedisNodes({
  addresses: servers.urls.map((url) => ({ url })),
  deadlineMs: 1_000,
  connectTimeoutMs: 1_000,
  maxTokenAheadMs: 10_000,
  quarantineMs: 60_000,
  clockStepMs: 1_000,
  clock,
  random,
  events: silent,
})
await nodes.connect()
const leases = createLeases({
  quorum: createRedlockQuorum({ nodes: nodes.nodes, clock, events: silent }),
  clock,
  random,
  events: silent,
})

let serial = 0
const run = (operation: (key: string) => Promise<void>) => (operations: number, concurrency: number) =>
  closedLoop(operations, concurrency, () => operation(String(serial++)))

const connect = (options: { enableAutoPipelining?: boolean }) =>
  servers.urls.map((url) => new Redis(url, options))
const plainClients = connect({})
const pipelinedClients = connect({ enableAutoPipelining: true })
const floor = new Redis(servers.urls[0]!)

function redlockCycle(clients: readonly Redis[]): (key: string) => Promise<void> {
  const redlock = new Redlock(clients)
  return async (key) => {
    const lock = await redlock.acquire([`redlock:${key}`], LEASE_MS)
    await lock.release()
  }
}

const contenders: readonly Contender[] = [
  {
    name: 'fencepost claim + complete',
    run: run(async (id) => {
      const key = `dedup:bench:bench:v1:${id.padStart(64, '0')}`
      const fingerprint = '0'.repeat(64)
      const claimed = await leases.claim({
        key,
        fingerprint,
        leaseMs: LEASE_MS,
        retentionMs: 60_000,
        budgetMs: 5_000,
      })
      if (claimed.kind !== 'granted') throw new Error(`a claim was ${claimed.kind}`)
      const done = await leases.complete(claimed.lease, {
        kind: 'tombstone',
        status: 201,
        completedAtWallMs: 0,
      })
      if (done.kind !== 'recorded') throw new Error(`a completion was ${done.kind}`)
    }),
  },
  { name: 'redlock acquire + release', run: run(redlockCycle(plainClients)) },
  { name: 'redlock, autopipelined', run: run(redlockCycle(pipelinedClients)) },
  {
    name: 'SET NX PX on one node',
    run: run(async (id) => {
      await floor.set(`floor:${id}`, '1', 'PX', LEASE_MS, 'NX')
    }),
  },
]

const results = []
for (const concurrency of CONCURRENCIES) {
  const operations = concurrency === 1 ? 1_000 : 6_000
  const measured = await alternate(contenders, operations, concurrency, concurrency === 1 ? 7 : 5)
  const ours = measured[0]!
  console.log(
    `\n${concurrency} in flight                      per second   p50 ms   p99 ms   CPU µs   ours / theirs (min–max)`,
  )
  for (const one of measured) {
    const { median: mid, min, max } = ratio(ours.perSecond, one.perSecond)
    const cells = [
      median(one.perSecond).toFixed(0).padStart(10),
      median(one.p50Ms).toFixed(2).padStart(8),
      median(one.p99Ms).toFixed(2).padStart(8),
      median(one.cpuMicrosPerOperation).toFixed(0).padStart(8),
      `   ${mid.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`,
    ]
    console.log(`  ${one.name.padEnd(28)} ${cells.join(' ')}`)
  }
  results.push({ concurrency, measured })
}
mkdirSync(new URL('./results', import.meta.url), { recursive: true })
const { node } = process.versions
writeFileSync(
  new URL('./results/claims.json', import.meta.url),
  `${JSON.stringify({ node, results }, undefined, 2)}\n`,
)

for (const client of [...plainClients, ...pipelinedClients, floor]) client.disconnect()
