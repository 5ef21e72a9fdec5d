/**
 * What telemetry costs, side by side: sidecars on the same five nodes, loaded in turn in short slices so that all of
 * them see the same machine. One has no telemetry at all, one has all of it: metrics and a scrape a second, 100 lines a
 * second, traces sampled at 1 %; and one all of it where clients send a trace of their own that they do not record.
 *
 *     npm run bench -- telemetry-cost [rounds, default 20] [--write]
 *
 * Two measures: requests a second, and CPU time a request of the sidecar's process, which is what limits throughput and
 * still means something on a machine that others use. Ratios are of slices that followed each other; the median counts.
 * `--write` keeps the numbers in bench/results/telemetry.json.
 */
import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { startCountingApplication } from '../test/support/counting-application.ts'
import { startOtlpReceiver } from '../test/support/otlp-receiver.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { scrape } from '../test/support/series.ts'
import { type Sidecar, startSidecar } from '../test/support/sidecar.ts'
import { printGoals } from './support/goal-report.ts'
import { cpuMicrosOf } from './support/load.ts'
import { watchMachine } from './support/machine.ts'
import { median, ratio } from './support/rounds.ts'

const SLICE_MS = 1_000
const WARM_UP_ROUNDS = 3
const CONCURRENCY = 32
const rounds = Number(process.argv.slice(2).find((arg) => /^\d+$/.test(arg)) ?? 20)

type Side = {
  readonly name: string
  readonly sidecar: Sidecar
  readonly pool: Pool
  readonly watched: boolean
  readonly headers: Readonly<Record<string, string>>
  readonly perSecond: number[]
  readonly cpuMicros: number[]
}

let keys = 0

async function slice(side: Side, counted: boolean): Promise<void> {
  const { sidecar, pool, headers } = side
  const cpuBefore = cpuMicrosOf(sidecar.process.pid)
  const startedMs = performance.now()
  let requests = 0
  const worker = async () => {
    while (performance.now() - startedMs < SLICE_MS) {
      keys += 1
      const own = { ...headers, 'idempotency-key': `bench-${Math.floor(keys / 2)}` }
      const response = await pool.request({ method: 'POST', path: '/payments', headers: own, body: 'x' })
      await response.body.dump()
      requests += 1
    }
  }
  const scraped = side.watched ? scrape(sidecar.admin) : undefined
  await Promise.all([scraped, ...Array.from({ length: CONCURRENCY }, worker)])
  if (!counted) return
  side.perSecond.push((requests / (performance.now() - startedMs)) * 1_000)
  side.cpuMicros.push((cpuMicrosOf(sidecar.process.pid) - cpuBefore) / requests)
}

await using servers = await startRedisServers(5)
await using application = await startCountingApplication()
await using receiver = await startOtlpReceiver()
const shared = { FENCEPOST_REDIS_NODES: servers.nodesSetting, FENCEPOST_UPSTREAM: application.url }
const main = fileURLToPath(new URL('support/deaf-sidecar.ts', import.meta.url))
await using none = await startSidecar(shared, { main })
await using metrics = await startSidecar({ ...shared, FENCEPOST_LOG_DECISIONS: '0' })
await using whole = await startSidecar({
  ...shared,
  ...receiver.env,
  FENCEPOST_TRACE_SAMPLE_RATIO: '0.01',
  OTEL_BSP_SCHEDULE_DELAY: '5000',
})
const unrecorded = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00' }
const sides = [
  { name: 'no telemetry', sidecar: none, watched: false, headers: {} },
  { name: 'metrics alone', sidecar: metrics, watched: false, headers: {} },
  { name: 'all, traces at 1 %', sidecar: whole, watched: true, headers: {} },
  { name: 'all, traces not recorded', sidecar: whole, watched: true, headers: unrecorded },
].map(
  (side): Side => ({
    ...side,
    pool: new Pool(side.sidecar.proxy, { connections: CONCURRENCY }),
    perSecond: [],
    cpuMicros: [],
  }),
)
const machine = watchMachine()
for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
  // Each first in turn: the second one meets warm nodes.
  for (const side of round % 2 === 0 ? sides : sides.toReversed()) await slice(side, round >= 0)
}
const [base] = sides as [Side]
const percent = ({ median: middle, min, max }: ReturnType<typeof ratio>) =>
  [middle, min, max].map((of) => `${((of - 1) * 100).toFixed(1)} %`)
const results = sides.map(({ name, perSecond, cpuMicros }) => ({
  name,
  requestsPerSecond: Math.round(median(perSecond)),
  cpuMicrosPerRequest: Math.round(median(cpuMicros)),
  throughput: percent(ratio(perSecond, base.perSecond)),
  cpu: percent(ratio(cpuMicros, base.cpuMicros)),
}))
for (const { name, requestsPerSecond, cpuMicrosPerRequest, throughput, cpu } of results)
  console.log(
    `${name.padEnd(26)} ${String(requestsPerSecond).padStart(6)} requests/s (${throughput[0]})   ${String(cpuMicrosPerRequest).padStart(5)} µs of CPU a request (${cpu[0]}; smallest ${cpu[1]}, largest ${cpu[2]})`,
  )
const watched = sides.find(({ name }) => name === 'all, traces at 1 %') as Side
printGoals(
  'telemetry-cost',
  { telemetry: watched.cpuMicros.map((micros, round) => (micros / base.cpuMicros[round]! - 1) * 100) },
  machine,
)
if (process.argv.includes('--write')) {
  const file = fileURLToPath(new URL('results/telemetry.json', import.meta.url))
  await writeFile(file, `${JSON.stringify({ rounds, sides: results }, undefined, 2)}\n`)
}
for (const { pool } of sides) await pool.close()
