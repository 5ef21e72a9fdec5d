/**
 * What the sidecar adds to one uncontended request, beside the least that any such sidecar could add: the hop of a bare
 * proxy and one SET NX on one node.
 *
 *     npm run bench -- latency
 */
import { Redis } from 'ioredis'
import { startSidecar } from '../test/support/sidecar.ts'
import { alternateHttp, type HttpContender, printHttp } from './support/http-rounds.ts'
import { startLoad } from './support/load.ts'
import { installPeers, peerVersion, startBenchApplication, startFastifyHttpProxy } from './support/peers.ts'
import { writeResults } from './support/results.ts'
import { closedLoop, median } from './support/rounds.ts'
import { startWarmNodes } from './support/warm-nodes.ts'

const ROUNDS = 9
const REQUESTS = 1_000
/** Of an answer of the application. */
const RECORD_BYTES = 600
const HTTP_PROXY = '@fastify/http-proxy'

installPeers()
await using servers = await startWarmNodes(5, RECORD_BYTES)
await using application = await startBenchApplication()
await using httpProxy = await startFastifyHttpProxy(application.url)
await using sidecar = await startSidecar({
  FENCEPOST_REDIS_NODES: servers.nodesSetting,
  FENCEPOST_UPSTREAM: application.url,
  FENCEPOST_LOG_DECISIONS: '0',
  FENCEPOST_TENANT_NEW_RECORDS: '1000000',
})
await using load = startLoad()

const job = (prefix: string) =>
  ({
    method: 'POST',
    path: '/payments',
    bodyBytes: 200,
    key: { prefix, count: Number.MAX_SAFE_INTEGER },
  }) as const
const contenders: readonly HttpContender[] = [
  { name: 'fencepost', url: sidecar.proxy, pids: [sidecar.process.pid], job: job('unique'), status: '201' },
  { name: HTTP_PROXY, url: httpProxy.url, pids: httpProxy.pids, job: job('bare'), status: '201' },
  { name: 'the application', url: application.url, pids: application.pids, job: job('none'), status: '201' },
]
const client = new Redis(servers.at(0).url)
let serial = 0
const setNx: { p50Ms: number; p99Ms: number }[] = []
const measured = contenders.map(({ name }) => ({ name, rounds: [] as never[] }))

for (let round = -2; round < ROUNDS; round += 1) {
  const shape = { kind: 'closed', requests: REQUESTS, concurrency: 1 } as const
  const one = await alternateHttp(load, contenders, shape, { rounds: 1, warmUps: 0 })
  const durations = await closedLoop(REQUESTS, 1, async () => {
    await client.set(`floor:${serial++}`, '1', 'PX', 30_000, 'NX')
  })
  if (round < 0) continue
  for (const [index, { rounds }] of one.entries()) measured[index]!.rounds.push(...(rounds as never[]))
  const sorted = [...durations].sort((a, b) => a - b)
  setNx.push({ p50Ms: sorted[REQUESTS * 0.5]!, p99Ms: sorted[REQUESTS * 0.99]! })
}
client.disconnect()

printHttp('POST, one in flight', measured, HTTP_PROXY)
const results = { measured, setNx, added: [] as object[] }
for (const percentile of ['p50Ms', 'p99Ms'] as const) {
  const at = (name: string) =>
    measured.find((one) => one.name === name)!.rounds as { p50Ms: number; p99Ms: number }[]
  const rows = at('fencepost').map((ours, round) => {
    const direct = at('the application')[round]![percentile]
    const addedMs = ours[percentile] - direct
    const floorMs = at(HTTP_PROXY)[round]![percentile] - direct + setNx[round]![percentile]
    return { addedMs, floorMs, ratio: addedMs / floorMs }
  })
  const mid = (pick: (row: (typeof rows)[number]) => number) => median(rows.map(pick)).toFixed(2)
  const spread = `${Math.min(...rows.map((row) => row.ratio)).toFixed(2)}–${Math.max(...rows.map((row) => row.ratio)).toFixed(2)}`
  console.log(
    `${percentile.slice(0, 3)}: added ${mid((row) => row.addedMs)} ms; a bare hop and one SET NX ${mid((row) => row.floorMs)} ms; × ${mid((row) => row.ratio)} (${spread})`,
  )
  results.added.push({ percentile, rows })
}
writeResults('latency', { [HTTP_PROXY]: peerVersion(HTTP_PROXY) }, results)
