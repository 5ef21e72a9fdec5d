/**
 * What a hot key costs: bursts of a hundred duplicates over three sidecars, of which the application may see one.
 *
 *     npm run bench -- hot-key [the main program of another build, by turns with this one]
 *
 * The application takes 50 ms. Measured: how often it was called, and when the duplicates had its answer, from the
 * moment it was given; and of the nodes, how often they were called and their processor time for a burst. On a route that
 * waits one duplicate of each sidecar claims for its others; with `coordinate` they take turns.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Redis } from 'ioredis'
import { Pool } from 'undici'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { startSidecar } from '../test/support/sidecar.ts'
import { printGoals } from './support/goal-report.ts'
import { watchMachine } from './support/machine.ts'
import { barChart, writePlot, writeResults } from './support/results.ts'
import { median } from './support/rounds.ts'
import { serverCpuMicrosOf } from './support/server-cpu.ts'

const SIDECARS = 3
const DUPLICATES = 100
const WORK_MS = 50
const WARM_UPS = 3
const BURSTS = 20
const ROUTES = ['wait', 'coordinate'] as const

type Build = 'this build' | 'the other build'

type Burst = {
  readonly calls: number
  readonly statuses: Readonly<Record<string, number>>
  /** Of each duplicate: from the end of the application's work to its answer, smallest first. */
  readonly afterMs: readonly number[]
  /** Of all nodes together. */
  readonly nodesCpuMs: number
  readonly nodeCalls: number
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
const other = process.argv[2]
const BUILDS: readonly Build[] = other === undefined ? ['this build'] : ['the other build', 'this build']
const pools: Record<Build, Pool[]> = { 'the other build': [], 'this build': [] }
for (const build of BUILDS) {
  for (let index = 0; index < SIDECARS; index += 1) {
    const sidecar = running.use(
      await startSidecar(
        {
          FENCEPOST_REDIS_NODES: servers.nodesSetting,
          FENCEPOST_UPSTREAM: `http://127.0.0.1:${(application.address() as AddressInfo).port}`,
          FENCEPOST_CONFIG: file,
          FENCEPOST_LOG_DECISIONS: '0',
        },
        build === 'the other build' && other !== undefined ? { main: resolve(other) } : {},
      ),
    )
    pools[build].push(new Pool(sidecar.proxy, { connections: DUPLICATES, pipelining: 1 }))
  }
}
const nodes = servers.urls.map((url) => new Redis(url))

const machine = watchMachine()
const rows = BUILDS.flatMap((build) =>
  ROUTES.map((route) => ({ build, route, name: `${route}, ${build}`, bursts: [] as Burst[] })),
)
for (let index = -WARM_UPS; index < BURSTS; index += 1) {
  // Each first in turn.
  for (const { build, route, bursts } of index % 2 === 0 ? rows : rows.toReversed()) {
    const one = await burst(pools[build], route, `"hot-${BUILDS.indexOf(build)}-${route}-${index}"`)
    if (index >= 0) bursts.push(one)
  }
}

console.log(
  `\n${`${DUPLICATES} duplicates over ${SIDECARS} sidecars`.padEnd(44)} calls of the application   answered after its end, ms: median   last (median, largest of ${BURSTS} bursts)   of the nodes a burst: ms of processor, calls   answers`,
)
const lastsOf = (bursts: readonly Burst[]) => bursts.map(({ afterMs }) => afterMs.at(-1) ?? Number.NaN)
for (const { name, bursts: all } of rows) {
  const most = Math.max(...all.map((one) => one.calls))
  const half = median(all.map(({ afterMs }) => afterMs[Math.floor(afterMs.length / 2)] ?? Number.NaN))
  const lasts = lastsOf(all)
  const statuses: Record<string, number> = {}
  for (const one of all)
    for (const [status, count] of Object.entries(one.statuses))
      statuses[status] = (statuses[status] ?? 0) + count
  const cpuMs = median(all.map((one) => one.nodesCpuMs)).toFixed(1)
  const nodeCalls = median(all.map((one) => one.nodeCalls))
  console.log(
    `  onContention: ${name.padEnd(28)} ${String(most).padStart(24)} ${half.toFixed(1).padStart(38)} ${`${median(lasts).toFixed(1)}, ${Math.max(...lasts).toFixed(1)}`.padStart(32)} ${`${cpuMs}, ${nodeCalls}`.padStart(40)}   ${JSON.stringify(statuses)}`,
  )
}
printGoals(
  'hot-key',
  {
    'hot-key-last': lastsOf(
      rows.find(({ build, route }) => build === 'this build' && route === 'wait')?.bursts ?? [],
    ),
  },
  machine,
)
writeResults('hot-key', {}, rows)
writePlot(
  'hot-key',
  barChart(
    'The last of a hundred duplicates, after the application had answered',
    'ms, line: smallest to largest',
    [
      {
        title: `${SIDECARS} sidecars, ${BURSTS} bursts`,
        bars: rows.map(({ name, bursts }) => {
          const lasts = lastsOf(bursts)
          const label = `onContention: ${name}`
          return { label, value: median(lasts), min: Math.min(...lasts), max: Math.max(...lasts) }
        }),
      },
    ],
  ),
)
for (const pool of Object.values(pools).flat()) await pool.close()
for (const node of nodes) node.disconnect()
application.close()
rmSync(folder, { recursive: true })

async function burst(sidecars: readonly Pool[], route: string, key: string): Promise<Burst> {
  const before = { cpuMicros: await serverCpuMicrosOf(nodes), calls: await nodeCallsSoFar() }
  const statuses: Record<string, number> = {}
  const answeredMs = await Promise.all(
    Array.from({ length: DUPLICATES }, async (_, index) => {
      const headers = { 'idempotency-key': key, 'content-type': 'application/json' }
      const response = await sidecars[index % SIDECARS]!.request({
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
  const nodesCpuMs = ((await serverCpuMicrosOf(nodes)) - before.cpuMicros) / 1_000
  const nodeCalls = (await nodeCallsSoFar()) - before.calls
  return { calls: call.count, statuses, afterMs, nodesCpuMs, nodeCalls }
}

/** Of the script, by all sidecars; those that are not under load look at the nodes, too. */
async function nodeCallsSoFar(): Promise<number> {
  const infos = await Promise.all(nodes.map((node) => node.info('commandstats')))
  return infos.reduce((sum, info) => sum + Number(/cmdstat_evalsha:calls=(\d+)/.exec(info)?.[1] ?? 0), 0)
}
