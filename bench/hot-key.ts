/**
 * What a hot key costs: bursts of a hundred duplicates over three sidecars, of which the application may see one.
 *
 *     npm run bench -- hot-key
 *
 * The application takes 50 ms. Measured: how often it was called, and when the duplicates had its answer, from the
 * moment it was given. On a route that waits each sidecar's waiters try for themselves; with `coordinate` they take
 * turns.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'undici'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { startSidecar } from '../test/support/sidecar.ts'
import { printGoals } from './support/goal-report.ts'
import { watchMachine } from './support/machine.ts'
import { barChart, writePlot, writeResults } from './support/results.ts'
import { median } from './support/rounds.ts'

const SIDECARS = 3
const DUPLICATES = 100
const WORK_MS = 50
const WARM_UPS = 3
const BURSTS = 20
const ROUTES = ['wait', 'coordinate'] as const

type Burst = {
  readonly calls: number
  readonly statuses: Readonly<Record<string, number>>
  /** Of each duplicate: from the end of the application's work to its answer, smallest first. */
  readonly afterMs: readonly number[]
}

const calls = new Map<string, { count: number; endedMs: number }>()
const application = createServer((req, res) => {
  const key = String(req.headers['idempotency-key'])
  const call = calls.get(key) ?? { count: 0, endedMs: 0 }
  calls.set(key, call)
  call.count += 1
  req.resume()
  setTimeout(() => {
    call.endedMs = performance.now()
    res.writeHead(201, { 'content-type': 'application/json' }).end('{"status":"captured"}')
  }, WORK_MS)
})
await new Promise<void>((resolve) => application.listen(0, '127.0.0.1', resolve))
const folder = mkdtempSync(join(tmpdir(), 'fencepost-hot-key-'))
const file = join(folder, 'fencepost.yaml')
writeFileSync(
  file,
  `routes:\n${ROUTES.map(
    (route) => `  - name: ${route}
    match: { methods: [POST], paths: ["/${route}"] }
    mode: header
    onContention: ${route}
    wait: { max: 30s, waiters: 1000 }
`,
  ).join('')}`,
)

await using running = new AsyncDisposableStack()
const servers = running.use(await startRedisServers(5))
const pools: Pool[] = []
for (let index = 0; index < SIDECARS; index += 1) {
  const sidecar = running.use(
    await startSidecar({
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_UPSTREAM: `http://127.0.0.1:${(application.address() as AddressInfo).port}`,
      FENCEPOST_CONFIG: file,
      FENCEPOST_LOG_DECISIONS: '0',
    }),
  )
  pools.push(new Pool(sidecar.proxy, { connections: DUPLICATES, pipelining: 1 }))
}

const machine = watchMachine()
const bursts: Record<(typeof ROUTES)[number], Burst[]> = { wait: [], coordinate: [] }
for (let index = -WARM_UPS; index < BURSTS; index += 1) {
  for (const route of ROUTES) {
    const one = await burst(route, `"hot-${route}-${index}"`)
    if (index >= 0) bursts[route].push(one)
  }
}

console.log(
  `\n${`${DUPLICATES} duplicates over ${SIDECARS} sidecars`.padEnd(34)} calls of the application   answered after its end, ms: median   last (median, largest of ${BURSTS} bursts)   answers`,
)
for (const route of ROUTES) {
  const all = bursts[route]
  const most = Math.max(...all.map((one) => one.calls))
  const half = median(all.map(({ afterMs }) => afterMs[Math.floor(afterMs.length / 2)] ?? Number.NaN))
  const lasts = all.map(({ afterMs }) => afterMs.at(-1) ?? Number.NaN)
  const statuses: Record<string, number> = {}
  for (const one of all)
    for (const [status, count] of Object.entries(one.statuses))
      statuses[status] = (statuses[status] ?? 0) + count
  console.log(
    `  onContention: ${route.padEnd(18)} ${String(most).padStart(24)} ${half.toFixed(1).padStart(42)} ${`${median(lasts).toFixed(1)}, ${Math.max(...lasts).toFixed(1)}`.padStart(32)}   ${JSON.stringify(statuses)}`,
  )
}
printGoals(
  'hot-key',
  { 'hot-key-last': bursts.wait.map(({ afterMs }) => afterMs.at(-1) ?? Number.NaN) },
  machine,
)
writeResults('hot-key', {}, bursts)
writePlot(
  'hot-key',
  barChart(
    'The last of a hundred duplicates, after the application had answered',
    'ms, line: smallest to largest',
    [
      {
        title: `${SIDECARS} sidecars, ${BURSTS} bursts`,
        bars: ROUTES.map((route) => {
          const lasts = bursts[route].map(({ afterMs }) => afterMs.at(-1) ?? Number.NaN)
          const label = `onContention: ${route}`
          return { label, value: median(lasts), min: Math.min(...lasts), max: Math.max(...lasts) }
        }),
      },
    ],
  ),
)
for (const pool of pools) await pool.close()
application.close()
rmSync(folder, { recursive: true })

async function burst(route: string, key: string): Promise<Burst> {
  const statuses: Record<string, number> = {}
  const answeredMs = await Promise.all(
    Array.from({ length: DUPLICATES }, async (_, index) => {
      const headers = { 'idempotency-key': key, 'content-type': 'application/json' }
      const response = await pools[index % SIDECARS]!.request({
        method: 'POST',
        path: `/${route}`,
        headers,
        body: '{"amount":100}',
      })
      await response.body.dump()
      statuses[response.statusCode] = (statuses[response.statusCode] ?? 0) + 1
      return performance.now()
    }),
  )
  const call = calls.get(key)
  if (call === undefined) throw new Error(`the application was never called with ${key}`)
  const afterMs = answeredMs.map((at) => at - call.endedMs).sort((a, b) => a - b)
  return { calls: call.count, statuses, afterMs }
}
