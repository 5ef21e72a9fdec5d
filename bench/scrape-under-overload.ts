/**
 * How long a scrape takes while clients send more than the sidecar can serve.
 *
 *     npm run bench -- scrape-under-overload [how many times its capacity, default 2]
 *
 * Measures the most that the sidecar answers a second, offers twice as much over 2,000 connections from another
 * process, and scrapes 250 times meanwhile. Ends with 1 where one scrape took 100 ms or more. Nodes, application and
 * clients share the machine, so run it where no other program does.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startCountingApplication } from '../test/support/counting-application.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { scrape, seriesOf } from '../test/support/series.ts'
import { startSidecar } from '../test/support/sidecar.ts'

const SCRAPES = 250
const EVERY_MS = 60
const WITHIN_MS = 100
const CONNECTIONS = 2_000
const times = Number(process.argv[2] ?? 2)

type Loaded = {
  readonly begun: number
  readonly perSecond: number
  readonly answers: Readonly<Record<string, number>>
}
const LOAD = fileURLToPath(new URL('support/open-load.ts', import.meta.url))

async function load(origin: string, connections: number, seconds: number, rate?: number): Promise<Loaded> {
  const args = [LOAD, origin, connections, seconds, ...(rate === undefined ? [] : [rate])].map(String)
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  await once(child, 'close')
  return JSON.parse(said) as Loaded
}

await using servers = await startRedisServers(5)
await using application = await startCountingApplication()
await using sidecar = await startSidecar({
  FENCEPOST_REDIS_NODES: servers.nodesSetting,
  FENCEPOST_UPSTREAM: application.url,
})
await load(sidecar.proxy, 64, 3)
const capacity = (await load(sidecar.proxy, 64, 5)).perSecond
const seconds = (SCRAPES * EVERY_MS) / 1_000 + 4
const overload = load(sidecar.proxy, CONNECTIONS, seconds, times * capacity)
const at = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
await at(2_000)
const tookMs: number[] = []
let text = ''
for (let i = 0; i < SCRAPES; i += 1) {
  const startedMs = performance.now()
  text = await scrape(sidecar.admin)
  tookMs.push(performance.now() - startedMs)
  await at(EVERY_MS - tookMs[i]!)
}
const { perSecond, answers } = await overload
const sorted = tookMs.toSorted((a, b) => a - b)
const share = (q: number) => (sorted[Math.ceil(q * SCRAPES) - 1] ?? Number.NaN).toFixed(1)
const lag = seriesOf(text).get('nodejs_eventloop_lag_p99_seconds')
console.log(
  `at most ${capacity.toFixed(0)} requests/s; offered ${(times * capacity).toFixed(0)}, begun ${perSecond.toFixed(0)}`,
)
console.log(`answers by status: ${JSON.stringify(answers)}; lag of the event loop (p99): ${lag} s`)
console.log(
  `${SCRAPES} scrapes: median ${share(0.5)} ms, p95 ${share(0.95)} ms, p99 ${share(0.99)} ms, longest ${share(1)} ms`,
)
const late = sorted.filter((ms) => ms >= WITHIN_MS).length
if (late > 0) {
  console.error(`${late} of ${SCRAPES} took ${WITHIN_MS} ms or more`)
  process.exitCode = 1
}
