/**
 * The sidecar under mixed load for a long time: memory, event-loop delay and file descriptors should be flat.
 *
 *     npm run bench -- soak [minutes, default 30]
 *
 * The mix is 90 % unique keys, 9 % replays and 1 % another body under a known key, at a steady rate far below the most
 * that the machine carries. Records are kept for a minute, so that what they take levels off. Flat means: the mean of
 * the last quarter is within a tenth of that of the second quarter (the first one is warming up); else the exit code is
 * 1.
 */
import { Pool } from 'undici'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { scrape, seriesOf } from '../test/support/series.ts'
import { startSidecar } from '../test/support/sidecar.ts'
import { startBenchApplication } from './support/peers.ts'
import { lineChart, writePlot, writeResults } from './support/results.ts'

const PER_SECOND = 300
const TICK_MS = 10
const SAMPLE_MS = 5_000
const SLACK = 0.1
const minutes = Number(process.argv[2] ?? 30)

const WATCHED = {
  'heap used, MiB': (of: Map<string, number>) => of.get('nodejs_heap_size_used_bytes')! / 2 ** 20,
  'resident memory, MiB': (of: Map<string, number>) => of.get('process_resident_memory_bytes')! / 2 ** 20,
  'event-loop delay p99, ms': (of: Map<string, number>) =>
    of.get('nodejs_eventloop_lag_p99_seconds')! * 1_000,
  'file descriptors': (of: Map<string, number>) => of.get('process_open_fds')!,
}

await using servers = await startRedisServers(5)
await using application = await startBenchApplication()
await using sidecar = await startSidecar({
  FENCEPOST_REDIS_NODES: servers.nodesSetting,
  FENCEPOST_UPSTREAM: application.url,
  FENCEPOST_LOG_DECISIONS: '1',
  FENCEPOST_RETENTION: '60s',
  FENCEPOST_CLIENT_RETRY_WINDOW: '30s',
  FENCEPOST_LEASE: '5s',
  FENCEPOST_UPSTREAM_TIMEOUT: '10s',
  FENCEPOST_TOTAL_HOLD: '20s',
})
const pool = new Pool(sidecar.proxy, { connections: 128 })

const statuses: Record<string, number> = {}
const samples: { atSeconds: number; values: Record<string, number> }[] = []
const under = new Set<Promise<void>>()
const startedMs = performance.now()
let sent = 0

async function request(serial: number): Promise<void> {
  const turn = serial % 100
  // 0 to 8: a replay of an earlier one; 9: its key with another body.
  const key = turn < 10 ? `soak-${Math.max(0, serial - 1_000 + 50 - turn)}` : `soak-${serial}`
  const body = JSON.stringify({ amount: turn === 9 ? 2 : 1 })
  const headers = { 'idempotency-key': key, 'content-type': 'application/json' }
  const name = await pool
    .request({ method: 'POST', path: '/payments', headers, body })
    .then(async (response) => {
      await response.body.dump()
      return String(response.statusCode)
    })
    .catch((error: Error) => error.message)
  statuses[name] = (statuses[name] ?? 0) + 1
}

async function sample(): Promise<void> {
  const series = seriesOf(await scrape(sidecar.admin))
  const values = Object.fromEntries(Object.entries(WATCHED).map(([name, read]) => [name, read(series)]))
  samples.push({ atSeconds: (performance.now() - startedMs) / 1_000, values })
}

const sampling = setInterval(() => void sample(), SAMPLE_MS)
await new Promise<void>((resolve) => {
  const sending = setInterval(() => {
    const elapsedMs = performance.now() - startedMs
    for (; sent < (elapsedMs / 1_000) * PER_SECOND; sent += 1) {
      const one = request(sent).finally(() => under.delete(one))
      under.add(one)
    }
    if (elapsedMs < minutes * 60_000) return
    clearInterval(sending)
    resolve()
  }, TICK_MS)
})
clearInterval(sampling)
await Promise.all(under)
await pool.close()

console.log(`${sent} requests in ${minutes} minutes; answers: ${JSON.stringify(statuses)}`)
const quarter = (index: number) =>
  samples.slice((samples.length * index) / 4, (samples.length * (index + 1)) / 4)
for (const name of Object.keys(WATCHED)) {
  const mean = (of: typeof samples) => of.reduce((sum, one) => sum + one.values[name]!, 0) / of.length
  const [early, late] = [mean(quarter(1)), mean(quarter(3))]
  const flat = late <= early * (1 + SLACK) + 1
  console.log(
    `  ${name.padEnd(28)} second quarter ${early.toFixed(1)}, last ${late.toFixed(1)}: ${flat ? 'flat' : 'GROWS'}`,
  )
  if (!flat) process.exitCode = 1
}
writeResults('soak', {}, { minutes, statuses, samples })
for (const [index, name] of Object.keys(WATCHED).entries()) {
  const points = samples.map((one) => [Math.round(one.atSeconds) / 60, one.values[name]!] as const)
  writePlot(
    `soak-${index + 1}`,
    lineChart(`Soak: ${name}`, { x: 'minutes', y: name }, [{ label: name, points }]),
  )
}
