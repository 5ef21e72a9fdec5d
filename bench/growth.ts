/**
 * What a request costs as the work grows: requests in flight, records kept, nodes, sidecars, and bytes of a body.
 *
 *     npm run bench -- growth [in-flight] [records] [nodes] [sidecars] [bodies]      all of them without a name
 *
 * Every step is measured against its own first step, which is measured again beside it in the same round.
 */
import { Redis } from 'ioredis'
import type { Leases } from '../src/core/ports.ts'
import { type RedisServers, startRedisServers } from '../test/support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../test/support/sidecar.ts'
import { type Job, type JobResult, residentBytesOf, startLoad } from './support/load.ts'
import { connectLeases } from './support/our-leases.ts'
import { type Server, startBenchApplication } from './support/peers.ts'
import { type Line, lineChart, writePlot, writeResults } from './support/results.ts'
import { closedLoop, median, ratio } from './support/rounds.ts'

const ROUNDS = 3
const RECORD_ROUNDS = 5
/**
 * Nodes and load share this machine: a queue of thousands on five nodes and two cores must not look like a lost quorum.
 */
const PATIENT = {
  FENCEPOST_NODE_DEADLINE: '2s',
  FENCEPOST_CLAIM_BUDGET: '10s',
  FENCEPOST_LEASE: '100s',
  FENCEPOST_HEADERS_TIMEOUT: '60s',
}

await using application = await startBenchApplication()
await using load = startLoad()
let prefixes = 0
let kept = 0

const results: Record<string, object[]> = {}
const lines: Line[] = []
const wanted = new Set(process.argv.slice(2))
const sections = { 'in-flight': inFlight, records, nodes, sidecars, bodies }
for (const [name, section] of Object.entries(sections)) {
  if (wanted.size === 0 || wanted.has(name)) await section()
}
writeResults('growth', {}, results)
writePlot(
  'growth',
  lineChart(
    'Median latency as the work grows',
    { x: 'requests in flight, or thousands of records', y: 'ms', logX: true },
    lines,
  ),
)

async function inFlight(): Promise<void> {
  await using stack = await startStack(5)
  await steps('requests in flight', [1, 10, 100, 1_000, 10_000], async (count) => {
    const result = await once(stack.sidecar, Math.max(2_000, Math.min(count * 4, 20_000)), count)
    const residentMiB = residentBytesOf(stack.sidecar.process.pid) / 2 ** 20
    return { ...result, residentMiB }
  })
}

/**
 * Beside nodes that keep a few thousand records, by turns. Claims of this process write the others, five times as fast
 * as through a sidecar, with the same records; the count is compared with that of the nodes.
 */
async function records(): Promise<void> {
  await using few = await startStack(5)
  await using many = await startStack(5)
  await using ours = await connectLeases(many.servers.urls)
  const client = new Redis(many.servers.urls[0]!)
  const bytesBefore = await usedMemory(client)
  const points: [number, number][] = []
  console.log(`\n${'records kept'.padEnd(20)} p50 ms   with few   × few (min–max)`)
  results['records kept'] = []
  for (const count of [10_000, 100_000, 1_000_000]) {
    await keep(ours.leases, count - (await client.dbsize()))
    const rounds: { few: JobResult; many: JobResult }[] = []
    for (let round = -1; round < RECORD_ROUNDS; round += 1) {
      const one = { few: await once(few.sidecar, 600, 1), many: await once(many.sidecar, 600, 1) }
      if (round >= 0) rounds.push(one)
    }
    const keysOnNode = await client.dbsize()
    const bytesPerRecord = ((await usedMemory(client)) - bytesBefore) / keysOnNode
    const [ofMany, ofFew] = [rounds.map((one) => one.many.p50Ms), rounds.map((one) => one.few.p50Ms)]
    const paired = ratio(ofMany, ofFew)
    console.log(
      `  ${String(count).padEnd(18)} ${median(ofMany).toFixed(2).padStart(6)} ${median(ofFew).toFixed(2).padStart(10)}   ${paired.median.toFixed(2)} (${paired.min.toFixed(2)}–${paired.max.toFixed(2)})   keys on a node ${keysOnNode}, bytes a record ${bytesPerRecord.toFixed(0)}`,
    )
    results['records kept'].push({ count, rounds, keysOnNode, bytesPerRecord })
    points.push([count / 1_000, median(ofMany)])
  }
  lines.push({ label: 'thousands of records kept', points })
  client.disconnect()
}

/** As many records as the application's answers leave. */
async function keep(leases: Leases, count: number): Promise<void> {
  const outcome = {
    kind: 'response',
    status: 201,
    headers: [['content-type', 'application/json']],
    body: Buffer.alloc(200, 'x'),
    completedAtWallMs: 0,
  } as const
  await closedLoop(Math.max(0, count), 128, async () => {
    kept += 1
    const claimed = await leases.claim({
      key: `dedup:bench:bench:v1:${String(kept).padStart(64, '0')}`,
      fingerprint: '0'.repeat(64),
      leaseMs: 100_000,
      retentionMs: 86_400_000,
      budgetMs: 10_000,
    })
    if (claimed.kind !== 'granted') throw new Error(`a claim was ${claimed.kind}`)
    const done = await leases.complete(claimed.lease, outcome)
    if (done.kind !== 'recorded') throw new Error(`a completion was ${done.kind}`)
  })
}

async function nodes(): Promise<void> {
  await steps('nodes', [3, 5, 7], async (count) => {
    await using stack = await startStack(count)
    await once(stack.sidecar, 2_000, 32)
    // Awaited here: the stack ends with this scope.
    return await once(stack.sidecar, 6_000, 32)
  })
}

async function sidecars(): Promise<void> {
  await steps('sidecars', [1, 2, 3, 4], async (count) => {
    await using stack = await startStack(5)
    await using others = await asMany(count - 1, () => serve(stack.servers))
    await using loads = await asMany(count, async () => startLoad())
    const all = [stack.sidecar, ...others.all]
    const together = (requests: number) =>
      Promise.all(all.map((one, index) => loads.all[index]!.run(job(one, 200, requests / count, 32))))
    await together(1_500)
    const each = await together(6_000)
    return { ...each[0]!, perSecond: each.reduce((sum, one) => sum + one.perSecond, 0) }
  })
}

async function bodies(): Promise<void> {
  await using stack = await startStack(5)
  await steps('bytes of a body', [100, 1_000, 10_000, 100_000, 1_000_000], async (bytes) =>
    // Some 150 MB of each size.
    load.run(job(stack.sidecar, bytes, Math.min(1_500, 150_000_000 / bytes), 8)),
  )
}

/** Runs every step in turn, several times over, and prints medians and the ratio to the first step. */
async function steps<M extends JobResult>(
  what: string,
  sizes: readonly number[],
  measure: (size: number) => Promise<M>,
): Promise<void> {
  const taken = new Map<number, M[]>(sizes.map((size) => [size, []]))
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const size of sizes) taken.get(size)!.push(await measure(size))
  }
  console.log(`\n${what.padEnd(20)} per second   p50 ms   p99 ms   p50 × first`)
  const p50 = (size: number) => median(taken.get(size)!.map((one) => one.p50Ms))
  results[what] = sizes.map((size) => {
    const of = taken.get(size)!
    const perSecond = median(of.map((one) => one.perSecond))
    const p99Ms = median(of.map((one) => one.p99Ms))
    const more = Object.entries(of.at(-1)!).filter(([name]) => /^residentMiB$/.test(name))
    console.log(
      `  ${String(size).padEnd(18)} ${perSecond.toFixed(0).padStart(10)} ${p50(size).toFixed(2).padStart(8)} ${p99Ms.toFixed(2).padStart(8)} ${(p50(size) / p50(sizes[0]!)).toFixed(2).padStart(10)}   ${more.map(([name, value]) => `${name} ${Number(value).toFixed(0)}`).join(', ')}`,
    )
    return { size, rounds: of }
  })
  if (what === 'requests in flight')
    lines.push({ label: what, points: sizes.map((size) => [size, p50(size)]) })
}

async function once(sidecar: Sidecar, requests: number, concurrency: number): Promise<JobResult> {
  return load.run(job(sidecar, 200, requests, concurrency))
}

function job(sidecar: Sidecar, bodyBytes: number, requests: number, concurrency: number): Job {
  prefixes += 1
  return {
    url: sidecar.proxy,
    method: 'POST',
    path: '/payments',
    bodyBytes,
    key: { prefix: `growth-${prefixes}`, count: Number.MAX_SAFE_INTEGER },
    load: { kind: 'closed', requests, concurrency },
  }
}

async function startStack(
  count: number,
): Promise<AsyncDisposable & { readonly servers: RedisServers; readonly sidecar: Sidecar }> {
  await using stack = new AsyncDisposableStack()
  const servers = stack.use(await startRedisServers(count))
  const sidecar = stack.use(await serve(servers))
  const kept = stack.move()
  return { servers, sidecar, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}

function serve(servers: RedisServers): Promise<Sidecar> {
  return startSidecar({
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: (application as Server).url,
    FENCEPOST_LOG_DECISIONS: '0',
    FENCEPOST_MAX_IN_FLIGHT: '20000',
    FENCEPOST_TENANT_IN_FLIGHT: '20000',
    FENCEPOST_TENANT_NEW_RECORDS: '1000000',
    FENCEPOST_BODY_LIMIT: '2MiB',
    ...PATIENT,
  })
}

async function asMany<T extends AsyncDisposable>(
  count: number,
  start: () => Promise<T>,
): Promise<AsyncDisposable & { readonly all: readonly T[] }> {
  await using stack = new AsyncDisposableStack()
  const all: T[] = []
  for (let index = 0; index < count; index += 1) all.push(stack.use(await start()))
  const kept = stack.move()
  return { all, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}

async function usedMemory(client: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1])
}
