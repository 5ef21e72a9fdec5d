/**
 * What the memory limit of a container costs in processor time: sidecars of one build by turns, under the chart's limit with
 * young generations of several sizes, and without a limit.
 *
 *     npm run build && TESTED_SIDECAR=$PWD/dist/main.js npm run bench -- container-memory [rounds, 9] [requests a round, 4000]
 *
 * Unique keys, 32 in flight. Collections of garbage are from the sidecar's own metrics. Needs root, for the cgroups.
 */
import { imageEnvironment } from '../test/support/image-environment.ts'
import { memoryCgroup } from '../test/support/memory-cgroup.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../test/support/sidecar.ts'
import { cpuMicrosOf, residentBytesOf, startLoad } from './support/load.ts'
import { besideText, watchMachine } from './support/machine.ts'
import { startBenchApplication } from './support/peers.ts'
import { writeResults } from './support/results.ts'
import { median, ratio } from './support/rounds.ts'

const [roundsGiven = '9', requestsGiven = '4000'] = process.argv.slice(2)
const [rounds, requests] = [Number(roundsGiven), Number(requestsGiven)]
const LIMIT_MIB = 384
const IN_FLIGHT = 32
/** V8 compiles for so many. */
const WARM_UP = 12_000
/** Ratios are over the first. */
const VARIANTS = [
  { name: `${LIMIT_MIB} MiB, as V8 chooses`, limited: true, options: '' },
  { name: `${LIMIT_MIB} MiB, 8`, limited: true, options: '--max-semi-space-size=8' },
  { name: `${LIMIT_MIB} MiB, as the image`, limited: true, options: undefined },
  { name: 'no limit, as V8 chooses', limited: false, options: '' },
] as const

let prefixes = 0
await using running = new AsyncDisposableStack()
const servers = running.use(await startRedisServers(5, { founded: true }))
const application = running.use(await startBenchApplication())
const load = running.use(startLoad())
const machine = watchMachine()
const measured: Measured[] = []
for (const variant of VARIANTS)
  measured.push({ name: variant.name, sidecar: await start(variant), micros: [], small: [], large: [] })

type Measured = {
  readonly name: string
  readonly sidecar: Sidecar
  readonly micros: number[]
  /** Collections of garbage a round. */
  readonly small: number[]
  readonly large: number[]
}

for (const { sidecar } of measured) await run(sidecar, WARM_UP)
for (let round = 0; round < rounds; round += 1)
  for (const { sidecar, micros, small, large } of measured) {
    const before = await collectionsOf(sidecar)
    micros.push(await run(sidecar, requests))
    const after = await collectionsOf(sidecar)
    small.push(after.minor - before.minor)
    large.push(after.major - before.major)
  }

console.log(
  `\n${'limit, MiB of each half'.padEnd(28)} CPU µs   × first (min–max)    small  large collections   resident MiB`,
)
for (const { name, sidecar, micros, small, large } of measured) {
  const over = ratio(micros, measured[0]!.micros)
  const residentMiB = residentBytesOf(sidecar.process.pid) / 2 ** 20
  console.log(
    `${name.padEnd(28)} ${median(micros).toFixed(0).padStart(6)}   ${over.median.toFixed(2)} (${over.min.toFixed(2)}–${over.max.toFixed(2)})   ${median(small).toFixed(0).padStart(6)} ${median(large).toFixed(0).padStart(6)}   ${residentMiB.toFixed(0).padStart(22)}`,
  )
}
console.log(besideText(machine.beside()))
writeResults(
  'container-memory',
  {},
  measured.map(({ sidecar: _, ...figures }) => figures),
)

async function start({ limited, options }: (typeof VARIANTS)[number]): Promise<Sidecar> {
  const cgroup = limited ? memoryCgroup(LIMIT_MIB * 2 ** 20) : undefined
  if (typeof cgroup === 'string') throw new Error(cgroup)
  if (cgroup !== undefined) running.use(cgroup)
  const sidecar = await startSidecar(
    {
      ...imageEnvironment(),
      ...(options === undefined ? {} : { NODE_OPTIONS: options }),
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_UPSTREAM: application.url,
      FENCEPOST_LOG_DECISIONS: '0',
      FENCEPOST_TENANT_NEW_RECORDS: '1000000',
    },
    { startWithinMs: 60_000, ...(cgroup === undefined ? {} : { joins: cgroup.procs }) },
  )
  return running.use(sidecar)
}

/** @returns microseconds of the sidecar's processor time for each request */
async function run({ proxy, process: { pid } }: Sidecar, count: number): Promise<number> {
  const before = cpuMicrosOf(pid)
  const { statuses } = await load.run({
    url: proxy,
    method: 'POST',
    path: '/payments',
    bodyBytes: 200,
    key: { prefix: `container-${prefixes++}`, count: Number.MAX_SAFE_INTEGER },
    load: { kind: 'closed', requests: count, concurrency: IN_FLIGHT },
  })
  if (statuses['201'] !== count) throw new Error(`answers other than 201: ${JSON.stringify(statuses)}`)
  return (cpuMicrosOf(pid) - before) / count
}

async function collectionsOf({ admin }: Sidecar): Promise<{ minor: number; major: number }> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const of = (kind: string) =>
    Number(new RegExp(`nodejs_gc_duration_seconds_count\\{kind="${kind}"\\} (\\d+)`).exec(text)?.[1] ?? 0)
  return { minor: of('minor'), major: of('major') }
}
