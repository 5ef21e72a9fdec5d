/**
 * Where the sidecar spends its time while it proxies: as a flame graph, and as a table of the costliest frames.
 *
 *     npm run bench -- proxy-flame unique proxy-flame.svg
 *     npm run bench -- proxy-flame replays|pass-through [file] [requests in flight, default 32]
 *
 * The sidecar is profiled through its inspector, during the load alone, after a warm-up.
 */
import { writeFileSync } from 'node:fs'
import type { Profiler } from 'node:inspector'
import { startSidecar } from '../test/support/sidecar.ts'
import { drawFlameGraph, selfTimes } from './support/flame-graph.ts'
import { openInspector } from './support/inspector.ts'
import { cpuSecondsOf, type Job, startLoad } from './support/load.ts'
import { startBenchApplication } from './support/peers.ts'
import { startWarmNodes } from './support/warm-nodes.ts'

const REQUESTS = 30_000
const BODY_BYTES = 200
/** Of an answer of the application. */
const RECORD_BYTES = 600
const ROWS = 30

const JOBS: Readonly<Record<string, Pick<Job, 'method' | 'path' | 'bodyBytes' | 'key'>>> = {
  unique: {
    method: 'POST',
    path: '/payments',
    bodyBytes: BODY_BYTES,
    key: { prefix: 'unique', count: Number.MAX_SAFE_INTEGER },
  },
  replays: {
    method: 'POST',
    path: '/payments',
    bodyBytes: BODY_BYTES,
    key: { prefix: 'many', count: 1_000 },
  },
  'pass-through': { method: 'GET', path: '/payments', bodyBytes: 0, key: { prefix: '', count: 1 } },
}

const [kind = 'unique', out = `bench/results/proxy-flame-${kind}.svg`, inFlight = '32'] =
  process.argv.slice(2)
const job = JOBS[kind]
if (job === undefined)
  throw new Error(`the first argument is one of ${Object.keys(JOBS).join(', ')}, not ${kind}`)
const concurrency = Number(inFlight)

let said = ''
await using servers = await startWarmNodes(5, RECORD_BYTES)
await using application = await startBenchApplication()
await using sidecar = await startSidecar(
  {
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    FENCEPOST_LOG_DECISIONS: '0',
    FENCEPOST_TENANT_NEW_RECORDS: '1000000',
    NODE_OPTIONS: '--inspect=127.0.0.1:0',
  },
  {
    onOutput: (text) => {
      said += text
    },
  },
)
await using load = startLoad()
const run = (requests: number) =>
  load.run({ url: sidecar.proxy, ...job, load: { kind: 'closed', requests, concurrency } })

await run(REQUESTS / 2)
await using inspector = await openInspector(said)
await inspector.post('Profiler.enable')
await inspector.post('Profiler.setSamplingInterval', { interval: 200 })
await inspector.post('Profiler.start')
const before = cpuSecondsOf([sidecar.process.pid])
const { perSecond } = await run(REQUESTS)
const micros = ((cpuSecondsOf([sidecar.process.pid]) - before) * 1e6) / REQUESTS
const { profile } = await inspector.post<{ profile: Profiler.Profile }>('Profiler.stop')

writeFileSync(
  out,
  drawFlameGraph(profile, `The sidecar, ${kind}, ${concurrency} in flight: where its time goes`),
)
for (const { name, place, share } of selfTimes(profile).slice(0, ROWS))
  console.log(`${(share * 100).toFixed(1).padStart(6)} %  ${name}  ${place}`)
console.log(
  `${perSecond.toFixed(0)} requests a second, ${micros.toFixed(0)} µs of the sidecar each (profiled)`,
)
console.log(`${out}: open it in a browser and point at a frame for its place and share`)
