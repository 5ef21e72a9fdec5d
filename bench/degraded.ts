/**
 * What failing nodes cost a request: one refused, one hung, two hung, one 50 ms away; and how soon it is refused when
 * three of five hang.
 *
 *     npm run bench -- degraded
 *
 * Each state has five nodes and a sidecar of its own, because a node that was down comes back without a vote for a
 * while; the states take turns. An open loop far below what the machine carries, with unique keys: latency from the
 * intended start.
 */
import { type FaultLink, startFaultLink } from '../test/faults/fault-proxy.ts'
import { type RedisServers, startRedisServers } from '../test/support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../test/support/sidecar.ts'
import { type JobResult, LATE_SHARE_MAX, startLoad } from './support/load.ts'
import { startBenchApplication } from './support/peers.ts'
import { barChart, writePlot, writeResults } from './support/results.ts'
import { median, ratio } from './support/rounds.ts'

const NODES = 5
const PER_SECOND = 150
const SECONDS = 4
const WARM_UPS = 1
const ROUNDS = 5
const FAR_MS = 50

type Stack = { readonly servers: RedisServers; readonly link: FaultLink; readonly sidecar: Sidecar }
type State = {
  readonly name: string
  /** Every answer has it. */
  readonly status: '201' | '503'
  readonly trouble: (stack: Stack) => void | Promise<void>
}

const hung = (count: number) => (stack: Stack) => {
  for (let index = 0; index < count; index += 1) stack.servers.pause(index)
}
const states: readonly State[] = [
  { name: 'healthy', status: '201', trouble: () => {} },
  { name: 'one refused', status: '201', trouble: ({ servers }) => servers.stop(0) },
  { name: 'one hung', status: '201', trouble: hung(1) },
  { name: 'two hung', status: '201', trouble: hung(2) },
  // Half of it each way.
  {
    name: `one ${FAR_MS} ms away`,
    status: '201',
    trouble: ({ link }) => link.set({ latencyMs: FAR_MS / 2 }),
  },
  { name: 'three hung: refused', status: '503', trouble: hung(3) },
]

await using running = new AsyncDisposableStack()
const application = running.use(await startBenchApplication())
const load = running.use(startLoad())
const stacks: Stack[] = []
for (const _ of states) stacks.push(await startStack())
for (const [index, state] of states.entries()) await state.trouble(stacks[index]!)

const measured = states.map(({ name }) => ({ name, rounds: [] as JobResult[] }))
for (let round = -WARM_UPS; round < ROUNDS; round += 1) {
  for (const [index, { name, status }] of states.entries()) {
    const result = await load.run({
      url: stacks[index]!.sidecar.proxy,
      method: 'POST',
      path: '/payments',
      bodyBytes: 200,
      key: { prefix: `degraded-${round}`, count: Number.MAX_SAFE_INTEGER },
      load: { kind: 'open', perSecond: PER_SECOND, seconds: SECONDS },
    })
    if (round < 0) continue
    const others = result.requests - (result.statuses[status] ?? 0)
    if (others > 0) console.log(`${name}: ${JSON.stringify(result.statuses)}, ${status} expected`)
    measured[index]!.rounds.push(result)
  }
}

const healthy = measured[0]!.rounds
console.log(
  `\n${`${PER_SECOND} requests a second, unique keys`.padEnd(38)} p50 ms   p99 ms   max ms   p99 × healthy (min–max)`,
)
for (const { name, rounds } of measured) {
  const mid = (pick: (one: JobResult) => number) => median(rounds.map(pick)).toFixed(2).padStart(8)
  const paired = ratio(
    rounds.map((one) => one.p99Ms),
    healthy.map((one) => one.p99Ms),
  )
  const late = Math.max(...rounds.map((one) => one.lateShare))
  console.log(
    `  ${name.padEnd(34)} ${mid((one) => one.p50Ms)} ${mid((one) => one.p99Ms)} ${mid((one) => one.maxMs)}   ${paired.median.toFixed(2)} (${paired.min.toFixed(2)}–${paired.max.toFixed(2)})${late > LATE_SHARE_MAX ? `  void: ${(late * 100).toFixed(0)} % sent late` : ''}`,
  )
}
writeResults('degraded', {}, measured)
writePlot(
  'degraded',
  barChart('p99 of a protected request', 'ms, median of the rounds, line: smallest to largest', [
    {
      title: `${PER_SECOND} a second`,
      bars: measured.map(({ name, rounds }) => {
        const p99 = rounds.map((one) => one.p99Ms)
        return { label: name, value: median(p99), min: Math.min(...p99), max: Math.max(...p99) }
      }),
    },
  ]),
)
// A suspended process does not act on SIGTERM.
for (const { servers } of stacks) for (let index = 0; index < NODES; index += 1) servers.resume(index)

/** Five nodes, the first of them behind a link, and a sidecar. */
async function startStack(): Promise<Stack> {
  const servers = running.use(await startRedisServers(NODES))
  const link = running.use(await startFaultLink(Number(new URL(servers.urls[0]!).port)))
  const sidecar = running.use(
    await startSidecar({
      FENCEPOST_REDIS_NODES: [`redis://127.0.0.1:${link.port}`, ...servers.urls.slice(1)].join(','),
      FENCEPOST_UPSTREAM: application.url,
      FENCEPOST_LOG_DECISIONS: '0',
    }),
  )
  return { servers, link, sidecar }
}
