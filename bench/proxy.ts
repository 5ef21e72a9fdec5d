/**
 * The sidecar as a proxy, beside bare proxies in front of the same application: unique keys, replays and pass-through.
 *
 *     npm run bench -- proxy
 *
 * Closed loops for throughput; then open loops at 25, 50 and 75 % of the throughput that each reached, for latency from
 * the intended start. Everything runs on this machine: only ratios mean anything.
 */
import { startSidecar } from '../test/support/sidecar.ts'
import { alternateHttp, type HttpContender, type HttpMeasured, printHttp } from './support/http-rounds.ts'
import { startLoad } from './support/load.ts'
import {
  installPeers,
  peerVersion,
  startBenchApplication,
  startEnvoy,
  startFastifyHttpProxy,
  startHaproxy,
  startNginx,
} from './support/peers.ts'
import { barChart, writePlot, writeResults } from './support/results.ts'
import { median } from './support/rounds.ts'
import { startWarmNodes } from './support/warm-nodes.ts'

const BODY_BYTES = 200
/** Of an answer of the application. */
const RECORD_BYTES = 600
const OPEN_SECONDS = 3
const UNIQUE = Number.MAX_SAFE_INTEGER

installPeers()
await using servers = await startWarmNodes(5, RECORD_BYTES)
await using application = await startBenchApplication()
await using httpProxy = await startFastifyHttpProxy(application.url)
await using nginx = await startNginx(application.url)
await using haproxy = await startHaproxy(application.url)
await using envoy = await startEnvoy(application.url)
await using sidecar = await startSidecar({
  FENCEPOST_REDIS_NODES: servers.nodesSetting,
  FENCEPOST_UPSTREAM: application.url,
  // Every decision of a busy loop would be a line; lines are sampled under load anyway.
  FENCEPOST_LOG_DECISIONS: '0',
  FENCEPOST_TENANT_NEW_RECORDS: '1000000',
})
await using load = startLoad()

const post = (prefix: string, count: number) =>
  ({ method: 'POST', path: '/payments', bodyBytes: BODY_BYTES, key: { prefix, count } }) as const
const get = { method: 'GET', path: '/payments', bodyBytes: 0, key: { prefix: '', count: 1 } } as const
const nodePids = servers.urls.map((_, index) => servers.at(index).process.pid)
const fencepost = { url: sidecar.proxy, pids: [sidecar.process.pid], nodePids }
const bare = { ...post('bare', UNIQUE), key: { prefix: 'bare', count: UNIQUE } }

const HTTP_PROXY = '@fastify/http-proxy'
const posts: readonly HttpContender[] = [
  { name: 'fencepost, unique keys', ...fencepost, job: post('unique', UNIQUE), status: '201' },
  { name: 'fencepost, replays of one key', ...fencepost, job: post('one', 1), status: '201' },
  { name: 'fencepost, replays of 10,000 keys', ...fencepost, job: post('many', 10_000), status: '201' },
  { name: HTTP_PROXY, url: httpProxy.url, pids: httpProxy.pids, job: bare, status: '201' },
  { name: 'nginx', url: nginx.url, pids: nginx.pids, job: bare, status: '201' },
  { name: 'HAProxy', url: haproxy.url, pids: haproxy.pids, job: bare, status: '201' },
  { name: 'Envoy', url: envoy.url, pids: envoy.pids, job: bare, status: '201' },
  { name: 'the application itself', url: application.url, pids: application.pids, job: bare, status: '201' },
]
const gets: readonly HttpContender[] = [
  { name: 'fencepost, pass-through', ...fencepost, job: get, status: '200' },
  { name: HTTP_PROXY, url: httpProxy.url, pids: httpProxy.pids, job: get, status: '200' },
]

// Each of the 10,000 keys is executed once before its replays are measured.
await load.run({
  url: sidecar.proxy,
  ...post('many', 10_000),
  load: { kind: 'closed', requests: 10_000, concurrency: 16 },
})

const results: { title: string; measured: readonly HttpMeasured[] }[] = []
const record = (title: string, measured: readonly HttpMeasured[]) => {
  printHttp(title, measured, HTTP_PROXY)
  results.push({ title, measured })
}
for (const concurrency of [1, 32, 256]) {
  const shape = { kind: 'closed', requests: concurrency === 1 ? 2_000 : 10_000, concurrency } as const
  record(`POST, ${concurrency} in flight`, await alternateHttp(load, posts, shape))
  record(`GET, ${concurrency} in flight`, await alternateHttp(load, gets, shape))
}

const compared = posts.filter(({ name }) => name.startsWith('fencepost') || name === HTTP_PROXY)
const reached = results.find(({ title }) => title === 'POST, 32 in flight')!.measured
for (const share of [0.25, 0.5, 0.75]) {
  const measured: HttpMeasured[] = []
  for (const contender of compared) {
    const own = median(
      reached.find(({ name }) => name === contender.name)!.rounds.map((one) => one.perSecond),
    )
    const shape = { kind: 'open', perSecond: own * share, seconds: OPEN_SECONDS } as const
    measured.push(...(await alternateHttp(load, [contender], shape, { rounds: 3, warmUps: 1 })))
  }
  record(`POST, open loop at ${share * 100} % of its own`, measured)
}

writeResults(
  'proxy',
  { '@fastify/http-proxy': peerVersion('@fastify/http-proxy'), fastify: peerVersion('fastify') },
  results,
)
writePlot(
  'proxy',
  barChart(
    'Requests a second in a closed loop',
    'median of the rounds, line: smallest to largest',
    results
      .filter(({ title }) => title.includes('in flight'))
      .map(({ title, measured }) => ({
        title,
        bars: measured.map(({ name, rounds }) => {
          const perSecond = rounds.map((one) => one.perSecond)
          return {
            label: name,
            value: median(perSecond),
            min: Math.min(...perSecond),
            max: Math.max(...perSecond),
          }
        }),
      })),
  ),
)
