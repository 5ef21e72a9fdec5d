/**
 * What telemetry costs, side by side: two sidecars on the same five nodes, one with logs, scrapes and traces sampled at
 * 1 %, one with nothing but its metrics, asked in turn in short slices so that both see the same machine.
 *
 *     node bench/telemetry-cost.ts [seconds a side, default 20]
 *
 * Prints requests a second and CPU time a request of both, and the same for scrapes while more requests come than are
 * taken. CPU time a request is what limits throughput on a busy machine, and is less noisy than throughput on a shared one.
 * Counting itself can't be switched off: it is timed by itself.
 */
import { Pool } from 'undici'
import type { CoreEvent } from '../src/core/events.ts'
import { countEvents } from '../src/observe/counting.ts'
import { createMetrics } from '../src/observe/metrics.ts'
import { startCountingApplication } from '../test/support/counting-application.ts'
import { startOtlpReceiver } from '../test/support/otlp-receiver.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { scrape, seriesOf } from '../test/support/series.ts'
import { type Sidecar, startSidecar } from '../test/support/sidecar.ts'

const SLICE_MS = 2_000
const CONCURRENCY = 32
const seconds = Number(process.argv[2] ?? 20)

type Side = {
  readonly name: string
  readonly sidecar: Sidecar
  readonly pool: Pool
  readonly scraped: boolean
  requests: number
  ms: number
  cpuSeconds: number
}

let keys = 0

async function slice(side: Side): Promise<void> {
  const cpuBefore = await cpuOf(side.sidecar)
  const startedMs = performance.now()
  const scrapes = side.scraped ? setInterval(() => void scrape(side.sidecar.admin), 1_000) : undefined
  const worker = async () => {
    while (performance.now() - startedMs < SLICE_MS) {
      keys += 1
      const headers = { 'idempotency-key': `bench-${Math.floor(keys / 2)}` }
      const response = await side.pool.request({ method: 'POST', path: '/payments', headers, body: 'x' })
      await response.body.dump()
      side.requests += 1
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  clearInterval(scrapes)
  side.ms += performance.now() - startedMs
  side.cpuSeconds += (await cpuOf(side.sidecar)) - cpuBefore
}

async function cpuOf({ admin }: Sidecar): Promise<number> {
  return seriesOf(await scrape(admin)).get('process_cpu_seconds_total') ?? Number.NaN
}

await using servers = await startRedisServers(5)
await using application = await startCountingApplication()
await using receiver = await startOtlpReceiver()
const shared = { FENCEPOST_REDIS_NODES: servers.nodesSetting, FENCEPOST_UPSTREAM: application.url }
await using bare = await startSidecar({ ...shared, FENCEPOST_LOG_DECISIONS: '0' })
await using whole = await startSidecar({
  ...shared,
  ...receiver.env,
  FENCEPOST_TRACE_SAMPLE_RATIO: '0.01',
  OTEL_BSP_SCHEDULE_DELAY: '5000',
})
const sides: Side[] = [
  { name: 'metrics only', sidecar: bare, scraped: false },
  { name: 'logs, scrapes, traces at 1 %', sidecar: whole, scraped: true },
].map((side) => ({
  ...side,
  pool: new Pool(side.sidecar.proxy, { connections: CONCURRENCY }),
  requests: 0,
  ms: 0,
  cpuSeconds: 0,
}))
// Until the code is compiled and the connections are there.
for (const side of sides) await slice(side)
for (const side of sides) Object.assign(side, { requests: 0, ms: 0, cpuSeconds: 0 })
for (let done = 0; done < (seconds * 1_000) / SLICE_MS; done += 1) {
  // In turn first: whoever comes second meets nodes that are warm.
  for (const side of done % 2 === 0 ? sides : sides.toReversed()) await slice(side)
}
for (const { name, requests, ms, cpuSeconds } of sides) {
  const perSecond = ((requests / ms) * 1_000).toFixed(0)
  const cpu = ((cpuSeconds / requests) * 1e6).toFixed(0)
  console.log(
    `${name.padEnd(30)} ${perSecond.padStart(6)} requests/s   ${cpu.padStart(6)} µs of CPU a request`,
  )
}
const [a, b] = sides as [Side, Side]
const share = (of: number) => `${(of * 100).toFixed(1)} %`
console.log(
  `throughput: ${share(b.requests / b.ms / (a.requests / a.ms) - 1)}; CPU a request: ${share(b.cpuSeconds / b.requests / (a.cpuSeconds / a.requests) - 1)}`,
)

timeCounting(a)
await scrapeUnderOverload()
for (const { pool } of sides) await pool.close()

/** The events of one request that is carried out, counted many times. */
function timeCounting(side: Side): void {
  const nodes = Array.from({ length: 5 }, (_, index) => `redis-${index}`)
  const metrics = createMetrics({
    version: '',
    nodeVersion: '',
    nodes,
    required: 3,
    routes: ['r'],
  })
  const count = countEvents(metrics, 3, () => undefined)
  const answered = nodes.flatMap((node): CoreEvent[] => [
    { kind: 'node_answered', node, command: 'claim', answer: 'granted', durationMs: 1 },
    { kind: 'node_answered', node, command: 'complete', answer: 'recorded', durationMs: 1 },
  ])
  const round = {
    kind: 'round_settled',
    carried: true,
    answered: 5,
    votes: 5,
    margin: 2,
    durationMs: 1,
  } as const
  const events: CoreEvent[] = [
    ...answered,
    { ...round, command: 'claim' },
    { ...round, command: 'complete' },
    { kind: 'claim_ended', result: 'granted', recordKey: 'k', rounds: 1, durationMs: 1 },
    { kind: 'lease_began', recordKey: 'k', token: 1 },
    { kind: 'lease_ended', recordKey: 'k', token: 1, ended: 'completed', heldMs: 1, remainingMs: 1 },
    {
      kind: 'decided',
      entrypoint: 'proxy',
      decision: 'acquired',
      detail: 'created',
      route: 'r',
      status: 201,
      durationMs: 1,
      keyHash: 'k',
    },
  ]
  const times = 20_000
  for (let i = 0; i < times; i += 1) for (const event of events) count(event)
  const startedMs = performance.now()
  for (let i = 0; i < times; i += 1) for (const event of events) count(event)
  const us = ((performance.now() - startedMs) / times) * 1_000
  const cpu = (side.cpuSeconds / side.requests) * 1e6
  console.log(
    `counting the ${events.length} events of one request: ${us.toFixed(1)} µs, ${share(us / cpu)} of its CPU`,
  )
}

async function scrapeUnderOverload(): Promise<void> {
  application.hold()
  const pool = new Pool(whole.proxy, { connections: 1_500 })
  const requests = Array.from({ length: 1_500 }, (_, i) =>
    pool
      .request({ method: 'POST', path: '/payments', headers: { 'idempotency-key': `over-${i}` }, body: 'x' })
      .then((response) => response.body.dump())
      .catch(() => {}),
  )
  const tookMs: number[] = []
  for (let i = 0; i < 40; i += 1) {
    const startedMs = performance.now()
    await scrape(whole.admin)
    tookMs.push(performance.now() - startedMs)
  }
  application.letGo()
  await Promise.all(requests)
  await pool.close()
  tookMs.sort((x, y) => x - y)
  console.log(
    `scrape with 1,500 requests at a limit of 1,024: median ${tookMs[20]?.toFixed(1)} ms, longest of 40 ${tookMs.at(-1)?.toFixed(1)} ms`,
  )
}
