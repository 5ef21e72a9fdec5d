/**
 * Two builds of the sidecar in one run: processor time and median latency of a request before and after a change, in alternating rounds.
 *
 *     npm run build && npm run bench -- builds OTHER/dist/main.js dist/main.js [in flight, 32] [rounds, 9] [requests a round, 4000]
 *
 * Two processes of each run beside each other over the same five nodes and the same application, started in the order
 * before, after, after, before: of two processes of one build the younger took 4 % more or 6 % less (32 and one in flight), whichever
 * build it was. Processor time is what the kernel counts for a process, all of its threads: it says something on a machine that
 * others use, where a rate does not.
 */
import { resolve } from 'node:path'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../test/support/sidecar.ts'
import { cpuMicrosOf, startLoad } from './support/load.ts'
import { besideText, PATIENT_UNDER_LOAD, watchMachine } from './support/machine.ts'
import { startBenchApplication } from './support/peers.ts'
import { type RequestKind, requestKinds, runKind } from './support/request-kinds.ts'
import { writeResults } from './support/results.ts'
import { median, ratio } from './support/rounds.ts'

const [before, after, inFlight = '32', roundsGiven = '9', requestsGiven = '4000'] = process.argv.slice(2)
if (before === undefined || after === undefined)
  throw new Error(
    'usage: npm run bench -- builds OTHER/dist/main.js dist/main.js [in flight] [rounds] [requests]',
  )
const [concurrency, rounds, requests] = [Number(inFlight), Number(roundsGiven), Number(requestsGiven)]
const WARM_UPS = 2
const KINDS = requestKinds(1)

await using servers = await startRedisServers(5, { founded: true })
await using application = await startBenchApplication()
await using load = startLoad()
await using first = await start(before)
await using second = await start(after)
await using third = await start(after)
await using fourth = await start(before)
const builds = { before: [first, fourth], after: [second, third] } as const
const machine = watchMachine()
// Replays are of an outcome that stands: of two first requests one would be refused.
for (const sidecar of [first, second, third, fourth]) await once(sidecar)
type Pairs = { readonly before: number[]; readonly after: number[] }
const measured: Record<string, { readonly micros: Pairs; readonly p50Ms: Pairs }> = {}
for (const [name, job] of Object.entries(KINDS)) {
  const micros: Pairs = { before: [], after: [] }
  const p50Ms: Pairs = { before: [], after: [] }
  for (let round = -WARM_UPS; round < rounds; round += 1) {
    // Each first in turn: the second one meets warm nodes.
    const order = ['before', 'after'] as const
    const sum = { before: { micros: 0, p50Ms: 0 }, after: { micros: 0, p50Ms: 0 } }
    for (const pair of [0, 1] as const)
      for (const build of (round + pair) % 2 === 0 ? order : order.toReversed()) {
        const one = await run(builds[build][pair], job)
        sum[build].micros += one.micros
        sum[build].p50Ms += one.p50Ms
      }
    if (round < 0) continue
    for (const build of order) {
      micros[build].push(sum[build].micros / 2)
      p50Ms[build].push(sum[build].p50Ms / 2)
    }
  }
  measured[name] = { micros, p50Ms }
  console.log(
    `${name.padEnd(14)} ${compared(micros, 1, 'µs')}; p50 ${compared(p50Ms, 3, 'ms')}; ${rounds} pairs`,
  )
}
console.log(besideText(machine.beside()))
writeResults('builds', {}, { concurrency, requests, measured })

function compared({ before, after }: Pairs, digits: number, unit: string): string {
  const { median: middle, min, max } = ratio(after, before)
  const sorted = after.map((one, at) => one / before[at]!).sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))]!.toFixed(3)
  const medians = `${median(before).toFixed(digits)} ${unit} before, ${median(after).toFixed(digits)} after`
  return `${medians}: ${middle.toFixed(3)} × (middle half ${at(0.25)}–${at(0.75)}, all ${min.toFixed(3)}–${max.toFixed(3)})`
}

function start(main: string): Promise<Sidecar> {
  return startSidecar(
    {
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_UPSTREAM: application.url,
      FENCEPOST_LOG_DECISIONS: '0',
      FENCEPOST_TENANT_NEW_RECORDS: '1000000',
      ...PATIENT_UNDER_LOAD,
      FENCEPOST_CLAIM_BUDGET: '5s',
    },
    { main: resolve(main), startWithinMs: 120_000 },
  )
}

async function once({ proxy }: Sidecar): Promise<void> {
  await runKind(load, proxy, KINDS.replays, { requests: 1, concurrency: 1 })
}

async function run(sidecar: Sidecar, job: RequestKind): Promise<{ micros: number; p50Ms: number }> {
  const { pid } = sidecar.process
  const cpuBefore = cpuMicrosOf(pid)
  const done = await runKind(load, sidecar.proxy, job, { requests, concurrency })
  return { micros: (cpuMicrosOf(pid) - cpuBefore) / done.requests, p50Ms: done.p50Ms }
}
