/**
 * Where the time of the claim path goes: claims and completions over five nodes, 64 in flight, as a flame graph.
 *
 *     npm run bench -- claims-flame claims-flame.svg
 *
 * Only the load is profiled, after a warm-up; the start of the process is not.
 */

import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { drawFlameGraph } from './support/flame-graph.ts'
import { connectLeases } from './support/our-leases.ts'
import { closedLoop } from './support/rounds.ts'

const IN_FLIGHT = 64
const CYCLES = 20_000
const [out = 'bench/results/claims-flame.svg'] = process.argv.slice(2)

await using servers = await startRedisServers(5)
await using ours = await connectLeases(servers.urls)
const { leases } = ours

let serial = 0
const load = (cycles: number) =>
  closedLoop(cycles, IN_FLIGHT, async () => {
    serial += 1
    const claimed = await leases.claim({
      key: `dedup:bench:bench:v1:${String(serial).padStart(64, '0')}`,
      fingerprint: '0'.repeat(64),
      leaseMs: 30_000,
      retentionMs: 600_000,
      budgetMs: 5_000,
    })
    if (claimed.kind !== 'granted') throw new Error(`a claim was ${claimed.kind}`)
    await leases.complete(claimed.lease, { kind: 'tombstone', status: 201, completedAtWallMs: 0 })
  })

await load(CYCLES / 2)
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.setSamplingInterval', { interval: 200 })
await session.post('Profiler.start')
await load(CYCLES)
const { profile } = await session.post('Profiler.stop')
session.disconnect()
writeFileSync(
  out,
  drawFlameGraph(
    profile,
    `Claim and completion over five nodes, ${IN_FLIGHT} in flight: where the time of the client goes`,
  ),
)
console.log(`${out}: open it in a browser and point at a frame for its place and share`)
