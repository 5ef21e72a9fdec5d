/**
 * The sidecar beside what a good engineer would write without it: one page of Fastify, redlock and undici over the same nodes.
 *
 *     npm run build && TESTED_SIDECAR=$PWD/dist/main.js npm run bench -- naive [--rounds N] [--limit MIB]
 *
 * Rounds take turns, and a goal is judged by ratios of paired rounds; processor time is the steadier figure on a busy
 * machine. What the page does not promise stands at its head: bench/peers/naive-quorum.mjs.
 *
 * `--limit`: each program has so much memory, as in a container (384 in the chart), and ours the environment of its image. Node sizes its
 * heap by it, so processor times differ. It needs root.
 */
import { parseArgs } from 'node:util'
import { imageEnvironment } from '../test/support/image-environment.ts'
import { memoryCgroup } from '../test/support/memory-cgroup.ts'
import type { RedisServers } from '../test/support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../test/support/sidecar.ts'
import { startDistantNodes } from './support/distant-nodes.ts'
import { printGoals } from './support/goal-report.ts'
import { alternateHttp, type HttpContender, type HttpMeasured, printHttp } from './support/http-rounds.ts'
import { startLoad } from './support/load.ts'
import { watchMachine } from './support/machine.ts'
import {
  installPeers,
  peerVersion,
  startBenchApplication,
  startFastifyHttpProxy,
  startNaiveQuorum,
} from './support/peers.ts'
import { writeResults } from './support/results.ts'
import { startWarmNodes } from './support/warm-nodes.ts'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, limit: { type: 'string' } },
})
const rounds = Number(values.rounds)
const limitMiB = values.limit === undefined ? undefined : Number(values.limit)
const NODES = 5
const BODY_BYTES = 200
const RECORD_BYTES = 600
const UNIQUE = Number.MAX_SAFE_INTEGER

installPeers()
await using limits = new AsyncDisposableStack()
await using servers = await startWarmNodes(NODES, RECORD_BYTES)
await using application = await startBenchApplication()
await using httpProxy = await startFastifyHttpProxy(application.url, limited())
await using plain = await startNaiveQuorum(application.url, servers.urls, 'plain', limited())
await using pipelined = await startNaiveQuorum(application.url, servers.urls, 'autopipeline', limited())
await using sidecar = await startOver(servers.urls)
await using farServers = await startWarmNodes(NODES, RECORD_BYTES)
await using distant = await startDistantNodes(farServers)
await using farPlain = await startNaiveQuorum(application.url, distant.urls, 'plain', limited())
await using farSidecar = await startOver(distant.urls)
await using load = startLoad()

const pidsOf = (nodes: RedisServers) => nodes.urls.map((_, index) => nodes.at(index).process.pid)
const nodePids = pidsOf(servers)
const farPids = pidsOf(farServers)
const post = (prefix: string, count = UNIQUE) =>
  ({ method: 'POST', path: '/payments', bodyBytes: BODY_BYTES, key: { prefix, count } }) as const
const get = { method: 'GET', path: '/payments', bodyBytes: 0, key: { prefix: '', count: 1 } } as const
const ours = { url: sidecar.proxy, pids: [sidecar.process.pid], nodePids, status: '201' }
const PROXY = '@fastify/http-proxy'

const posts: readonly HttpContender[] = [
  { name: 'fencepost', ...ours, job: post('ours') },
  { name: 'naive', url: plain.url, pids: plain.pids, nodePids, job: post('plain'), status: '201' },
  {
    name: 'naive, autopipelined',
    url: pipelined.url,
    pids: pipelined.pids,
    nodePids,
    job: post('pipelined'),
    status: '201',
  },
  { name: 'fencepost, replays', ...ours, job: post('one', 1) },
  { name: PROXY, url: httpProxy.url, pids: httpProxy.pids, job: post('bare'), status: '201' },
]
const gets: readonly HttpContender[] = [
  { name: 'fencepost, pass-through', ...ours, job: get, status: '200' },
  { name: PROXY, url: httpProxy.url, pids: httpProxy.pids, job: get, status: '200' },
]
/** No lone request needs pipelining. */
const distantPosts: readonly HttpContender[] = [
  {
    name: 'fencepost',
    url: farSidecar.proxy,
    pids: [farSidecar.process.pid],
    nodePids: farPids,
    job: post('far-ours'),
    status: '201',
  },
  {
    name: 'naive',
    url: farPlain.url,
    pids: farPlain.pids,
    nodePids: farPids,
    job: post('far-plain'),
    status: '201',
  },
]

type Figure = (round: HttpMeasured['rounds'][number]) => number
const cpu: Figure = (round) => round.cpuMicros
const nodeCpu: Figure = (round) => round.nodeCpuMicros
const p50: Figure = (round) => round.p50Ms
const throughput: Figure = (round) => round.perSecond

function pairs(
  measured: readonly HttpMeasured[],
  figure: Figure,
  name: string,
  over: string,
): readonly number[] {
  const of = (contender: string) => measured.find((one) => one.name === contender)!.rounds.map(figure)
  const theirs = of(over)
  return of(name).map((value, round) => value / theirs[round]!)
}

const machine = watchMachine()
const shape = (concurrency: number) =>
  ({ kind: 'closed', requests: concurrency === 1 ? 1_500 : 8_000, concurrency }) as const
// A pod runs for days, and V8 compiles for the first 20,000 requests of a process. One replay's outcome has to stand first.
const warmed = (contenders: readonly HttpContender[], requests: number, concurrency: number) =>
  alternateHttp(load, contenders, { kind: 'closed', requests, concurrency }, { rounds: 0, warmUps: 1 })
await warmed(posts, 1, 1)
await warmed([...posts, ...distantPosts], 20_000, 32)
const lone = await alternateHttp(load, posts, shape(1), { rounds })
printHttp('POST, one in flight', lone, 'naive')
const distantLone = await alternateHttp(load, distantPosts, shape(1), { rounds })
printHttp(`POST, one in flight, nodes ${distant.roundTripMs.toFixed(2)} ms away`, distantLone, 'naive')
const busy = await alternateHttp(load, posts, shape(32), { rounds })
printHttp('POST, 32 in flight', busy, 'naive, autopipelined')
const passed = await alternateHttp(load, gets, shape(32), { rounds })
printHttp('GET, 32 in flight', passed, PROXY)

const NAIVE = 'naive, autopipelined'
printGoals(
  'naive',
  {
    'processor-32': pairs(busy, cpu, 'fencepost', NAIVE),
    'processor-lone': pairs(lone, cpu, 'fencepost', 'naive'),
    'p50-lone': pairs(lone, p50, 'fencepost', 'naive'),
    'p50-lone-distant': pairs(distantLone, p50, 'fencepost', 'naive'),
    'nodes-processor-32': pairs(busy, nodeCpu, 'fencepost', NAIVE),
    'unique-over-proxy': pairs(busy, throughput, 'fencepost', PROXY),
    'replays-over-proxy': pairs(busy, throughput, 'fencepost, replays', PROXY),
    'pass-through-over-proxy': pairs(passed, throughput, 'fencepost, pass-through', PROXY),
  },
  machine,
)
writeResults('naive', { [PROXY]: peerVersion(PROXY), fastify: peerVersion('fastify') }, [
  { title: 'POST, one in flight', measured: lone },
  { title: 'POST, one in flight, distant nodes', measured: distantLone },
  { title: 'POST, 32 in flight', measured: busy },
  { title: 'GET, 32 in flight', measured: passed },
])

function startOver(nodes: readonly string[]): Promise<Sidecar> {
  const joins = limited()
  return startSidecar(
    {
      ...(joins === undefined ? {} : imageEnvironment()),
      FENCEPOST_REDIS_NODES: nodes.join(','),
      FENCEPOST_UPSTREAM: application.url,
      FENCEPOST_LOG_DECISIONS: '0',
      FENCEPOST_TENANT_NEW_RECORDS: '1000000',
    },
    joins === undefined ? {} : { joins },
  )
}

/** A cgroup for one more process, where memory is limited. */
function limited(): string | undefined {
  if (limitMiB === undefined) return undefined
  const cgroup = memoryCgroup(limitMiB * 2 ** 20)
  if (typeof cgroup === 'string') throw new Error(cgroup)
  return limits.use(cgroup).procs
}
