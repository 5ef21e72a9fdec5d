/**
 * How long it takes to copy the records to a node that came back empty, and what claims cost meanwhile.
 *
 *     npm run bench -- enrolment [--records 5000 --body 200]
 *
 * Five real nodes that sync each write, one sidecar, eight claimants all the while. The quarantine, which only waits,
 * is left out: the time runs from its end to the vote. Claims are measured before and during the copying.
 */
import { parseArgs } from 'node:util'
import { quantile } from '../test/faults/experiments.ts'
import { fingerprintOf, joinCluster, keyOf, QUARANTINE_MS } from '../test/support/redis-cluster.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'

const { values } = parseArgs({
  options: { records: { type: 'string', default: '5000' }, body: { type: 'string', default: '200' } },
})
const records = Number(values.records)
const body = Buffer.alloc(Number(values.body), 'x')
const CLAIMANTS = 8

await using servers = await startRedisServers(5, { appendOnly: true })
await using sidecar = await joinCluster(servers.urls, { inspectEveryMs: 1_000 }, true)
await sidecar.votes(5)

let serial = 0
async function carryOut(): Promise<void> {
  serial += 1
  const name = `enrolment ${serial}`
  const claimed = await sidecar.leases.claim({
    key: keyOf(name),
    fingerprint: fingerprintOf(name),
    leaseMs: 10_000,
    retentionMs: 600_000,
    budgetMs: 5_000,
  })
  if (claimed.kind === 'granted')
    await sidecar.leases.complete(claimed.lease, {
      kind: 'response',
      status: 201,
      headers: [],
      body,
      completedAtWallMs: Date.now(),
    })
}

await Promise.all(
  Array.from({ length: 64 }, async () => {
    while (serial < records) await carryOut()
  }),
)
console.log(`${serial} records of ${body.length} bytes on each of 5 nodes, appendfsync always`)

let tookMs: number[] = []
let over = false
const load = Array.from({ length: CLAIMANTS }, async () => {
  while (!over) {
    const startedMs = performance.now()
    await carryOut()
    tookMs.push(performance.now() - startedMs)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
})

function tell(what: string): void {
  const sorted = tookMs.toSorted((a, b) => a - b)
  tookMs = []
  console.log(
    `${what}: claim and completion p50 ${quantile(sorted, 0.5).toFixed(1)} ms, p99 ${quantile(sorted, 0.99).toFixed(1)} ms (${sorted.length})`,
  )
}

await new Promise((resolve) => setTimeout(resolve, 5_000))
tell('before')
for (let round = 1; round <= 2; round += 1) {
  await servers.kill(4)
  const from = sidecar.events.length
  await servers.start(4, { emptied: true })
  while (sidecar.states()[4] !== 'quarantined') await new Promise((resolve) => setTimeout(resolve, 5))
  tookMs = []
  const noticedMs = performance.now()
  while (sidecar.states()[4] !== 'voting') await new Promise((resolve) => setTimeout(resolve, 5))
  const copyingMs = performance.now() - noticedMs - QUARANTINE_MS
  const enrolled = sidecar.events.slice(from).find((event) => event.kind === 'node_enrolled')
  tell(
    `round ${round}: ${copyingMs.toFixed(0)} ms for ${enrolled?.kind === 'node_enrolled' ? enrolled.copied : '?'} records`,
  )
  await new Promise((resolve) => setTimeout(resolve, 3_000))
  tell('after')
}
over = true
await Promise.all(load)
