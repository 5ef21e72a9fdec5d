/**
 * What a request allocates, and how much of that outlives collections of the young generation, in two builds, and in which files: a change that makes
 * requests dearer by a few hundred bytes shows here, on a busy machine too, where no comparison of times would show it.
 *
 * What is under way while young objects are collected outlives that: with 32 requests in flight 3 to 5 % of what they allocate. What outlives it
 * beyond that is kept by something old, and costs more than what is collected at once.
 *
 *     npm run build && npm run bench -- garbage OTHER/dist/main.js dist/main.js [in flight, 32] [requests a round, 6000]
 *
 * V8 samples each process' allocations, those that were collected since included. Of one build two processes differ by 1 to 2 %.
 */
import type { HeapProfiler } from 'node:inspector'
import { resolve } from 'node:path'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { startSidecar } from '../test/support/sidecar.ts'
import { openInspector } from './support/inspector.ts'
import { startLoad } from './support/load.ts'
import { PATIENT_UNDER_LOAD } from './support/machine.ts'
import { startBenchApplication } from './support/peers.ts'
import { type RequestKind, requestKinds, runKind } from './support/request-kinds.ts'
import { writeResults } from './support/results.ts'
import { sourcePlaces } from './support/source-places.ts'

const [before, after, inFlight = '32', requestsGiven = '6000'] = process.argv.slice(2)
if (before === undefined || after === undefined)
  throw new Error(
    'usage: npm run bench -- garbage OTHER/dist/main.js dist/main.js [in flight] [requests a round]',
  )
const [concurrency, requests] = [Number(inFlight), Number(requestsGiven)]
/** Until V8 has compiled what there is to compile: code that is not compiled allocates more. */
const WARM_UP_REQUESTS = 20_000
const ROUNDS = 3
/** A sample for so many bytes on average. */
const SAMPLE_EVERY_BYTES = 4_096
/** Of the files whose difference is largest. */
const FILES_SHOWN = 12
const SAMPLED = {
  allocated: { includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true },
  outlived: { includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: false },
} as const
type Sampled = keyof typeof SAMPLED

await using servers = await startRedisServers(5, { founded: true })
await using application = await startBenchApplication()
await using load = startLoad()
await using first = await open(before)
await using second = await open(after)
const placeOf = sourcePlaces()
const measured: Record<string, { readonly before: number; readonly after: number }> = {}
for (const [name, kind] of Object.entries(requestKinds(1_000))) {
  for (const build of [first, second]) await run(build.url, kind, WARM_UP_REQUESTS)
  for (const sampled of ['allocated', 'outlived'] as const) {
    const was = new Map<string, number>()
    const is = new Map<string, number>()
    // By turns: how many commands travel in one call depends on how busy the machine is.
    for (let round = 0; round < ROUNDS; round += 1) {
      addTo(was, await first.sample(sampled, () => run(first.url, kind, requests)))
      addTo(is, await second.sample(sampled, () => run(second.url, kind, requests)))
    }
    report(`${name}, ${sampled}`, was, is)
  }
}
writeResults('garbage', {}, { concurrency, requests, measured })

type Node = HeapProfiler.SamplingHeapProfileNode

async function open(main: string) {
  let said = ''
  const sidecar = await startSidecar(
    {
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_UPSTREAM: application.url,
      FENCEPOST_TENANT_NEW_RECORDS: '1000000',
      ...PATIENT_UNDER_LOAD,
      NODE_OPTIONS: '--inspect=127.0.0.1:0',
    },
    {
      main: resolve(main),
      startWithinMs: 120_000,
      onOutput: (text) => {
        if (said.length < 4_096) said += text
      },
    },
  )
  const inspector = await openInspector(said)
  return {
    url: sidecar.proxy,
    /** What is allocated while `work` goes on. */
    sample: async (sampled: Sampled, work: () => Promise<void>): Promise<Node> => {
      const flags = { samplingInterval: SAMPLE_EVERY_BYTES, ...SAMPLED[sampled] }
      await inspector.post('HeapProfiler.startSampling', flags)
      await work()
      const stopped = await inspector.post<{ profile: HeapProfiler.SamplingHeapProfile }>(
        'HeapProfiler.stopSampling',
      )
      return stopped.profile.head
    },
    async [Symbol.asyncDispose]() {
      await inspector[Symbol.asyncDispose]()
      await sidecar[Symbol.asyncDispose]()
    },
  }
}

async function run(url: string, kind: RequestKind, count: number): Promise<void> {
  await runKind(load, url, kind, { requests: count, concurrency })
}

/** Bytes of a request, by file. */
function addTo(bytes: Map<string, number>, node: Node): void {
  const place = placeOf(node.callFrame) || '(V8)'
  bytes.set(place, (bytes.get(place) ?? 0) + node.selfSize / (requests * ROUNDS))
  for (const child of node.children) addTo(bytes, child)
}

type Bytes = ReadonlyMap<string, number>

function report(kind: string, was: Bytes, is: Bytes): void {
  const sum = (of: Bytes) => [...of.values()].reduce((all, one) => all + one, 0)
  measured[kind] = { before: sum(was), after: sum(is) }
  const ratio = (sum(is) / sum(was)).toFixed(3)
  console.log(`\n${kind}: ${sum(was).toFixed(0)} bytes before, ${sum(is).toFixed(0)} after: ${ratio} ×`)
  const changes = [...new Set([...was.keys(), ...is.keys()])]
    .map((place) => ({ place, bytes: (is.get(place) ?? 0) - (was.get(place) ?? 0) }))
    .sort((a, b) => Math.abs(b.bytes) - Math.abs(a.bytes))
  for (const { place, bytes } of changes.slice(0, FILES_SHOWN))
    console.log(`  ${`${bytes > 0 ? '+' : ''}${bytes.toFixed(0)}`.padStart(7)}  ${place}`)
}
