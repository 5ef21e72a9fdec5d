/**
 * What telemetry does for one request, timed by itself: the sixteen events of an executed request, its trace and its
 * headers, through every subscriber of a sidecar; and one scrape.
 *
 *     npm run bench -- telemetry-parts
 *
 * CPU time of this process, the least of many rounds: the result is the same on a busy machine, where
 * bench/telemetry-cost.ts needs a quiet one. What it leaves out is what telemetry costs others, such as a larger heap.
 */
import process from 'node:process'
import { openTelemetry } from '../src/app/telemetry.ts'
import { loadConfig } from '../src/config/load.ts'
import type { CoreEvent, Events } from '../src/core/events.ts'
import { SILENT } from '../src/core/events.ts'
import { type Tracing, UNTRACED } from '../src/core/tracing.ts'
import { systemClock } from '../src/system/clock.ts'
import { systemRandom } from '../src/system/random.ts'
import { startOtlpReceiver } from '../test/support/otlp-receiver.ts'

const ROUNDS = 40
const REQUESTS = 2_000
/** As in bench/telemetry-cost.ts on two quiet cores: the log writes 100 lines a second of so many decisions. */
const REQUESTS_A_SECOND = 2_600

const NODES = Array.from({ length: 5 }, (_, index) => `redis-${index}`)
const RECORD_KEY = `dedup:default:default:v1:${'ab'.repeat(32)}`
const HEADERS = [
  ['Host', 'shop.example'],
  ['Content-Type', 'application/json'],
  ['Idempotency-Key', '4711'],
  ['Accept', '*/*'],
  ['User-Agent', 'bench'],
] as const

function eventsOf(token: number): CoreEvent[] {
  const of = { recordKey: RECORD_KEY, token, durationMs: 1 }
  const round = {
    kind: 'round_settled',
    recordKey: RECORD_KEY,
    majorityReached: true,
    answered: 5,
    votes: 5,
    margin: 2,
    durationMs: 1,
  } as const
  return [
    ...NODES.map(
      (node) =>
        ({ kind: 'node_answered', node, command: 'claim', answer: 'granted', durationMs: 1 }) as const,
    ),
    { ...round, command: 'claim' },
    { kind: 'claim_ended', result: 'granted', rounds: 1, answered: 3, ...of },
    { kind: 'lease_began', recordKey: RECORD_KEY, token },
    ...NODES.map(
      (node) =>
        ({ kind: 'node_answered', node, command: 'complete', answer: 'recorded', durationMs: 1 }) as const,
    ),
    { ...round, command: 'complete' },
    { kind: 'outcome_offered', result: 'recorded', recordKey: RECORD_KEY, token: 5, durationMs: 1 },
    {
      kind: 'lease_ended',
      recordKey: RECORD_KEY,
      token,
      attempt: 1,
      fingerprint: 'f',
      ended: 'completed',
      heldMs: 1,
      remainingMs: 1,
    },
    {
      kind: 'decided',
      entrypoint: 'proxy',
      decision: 'acquired',
      detail: 'created',
      route: 'unsafe-with-key',
      status: 201,
      durationMs: 1,
      keyHash: 'ab'.repeat(32),
      tenant: 'default',
      lockId: `${'ab'.repeat(8)}-${token}`,
      token,
      attempt: 1,
    },
  ]
}

function one(token: number, events: Events, tracing: Tracing, traceparent: string | undefined): void {
  const header = (name: string) => (name === 'traceparent' ? traceparent : undefined)
  const request = tracing.request({
    method: 'POST',
    route: 'unsafe-with-key',
    scheme: () => 'http',
    host: () => undefined,
    protocolVersion: '1.1',
    header,
  })
  request.run(() => {
    for (const event of eventsOf(token)) events.publish(event)
    tracing.outgoing(traceparent === undefined ? HEADERS : [...HEADERS, ['traceparent', traceparent]])
  })
  request.ended(201)
}

await using receiver = await startOtlpReceiver()
Object.assign(process.env, receiver.env, { OTEL_BSP_SCHEDULE_DELAY: '5000' })
const env = {
  FENCEPOST_REDIS_NODES: 'embedded',
  FENCEPOST_PROXY_LISTEN: 'off',
  FENCEPOST_TRACING: 'on',
  FENCEPOST_TRACE_SAMPLE_RATIO: '0.01',
}
const loaded = loadConfig(env, () => '')
if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
/** Requests come as fast as this process makes them, and the seconds of the log pass as if they came at their rate. */
let requests = 0
const clock = { ...systemClock, monoMs: () => (requests / REQUESTS_A_SECOND) * 1_000 }
await using telemetry = await openTelemetry(loaded.config, {
  version: 'bench',
  nodeVersion: process.versions.node,
  instance: 'bench',
  logTo: { write: () => {} },
  clock,
  random: systemRandom,
  nodeNames: NODES,
  nodeCount: NODES.length,
  required: 3,
})
const unrecorded = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'
const contenders = {
  silent: () => one(requests, SILENT, UNTRACED, undefined),
  whole: () => one(requests, telemetry.events, telemetry.tracing, undefined),
  unrecorded: () => one(requests, telemetry.events, telemetry.tracing, unrecorded),
}
const micros: Record<keyof typeof contenders, number[]> = { silent: [], whole: [], unrecorded: [] }
for (let round = -5; round < ROUNDS; round += 1) {
  for (const name of ['silent', 'whole', 'unrecorded'] as const) {
    const cpu = process.cpuUsage()
    for (let i = 0; i < REQUESTS; i += 1) {
      requests += 1
      contenders[name]()
    }
    const { user, system } = process.cpuUsage(cpu)
    if (round >= 0) micros[name].push((user + system) / REQUESTS)
    // Recorded spans are sent between rounds.
    await new Promise((resolve) => setImmediate(resolve))
  }
}
const least = (name: keyof typeof contenders) => Math.min(...micros[name])
const silent = least('silent')
console.log(`one request, traces sampled at 1 %: ${(least('whole') - silent).toFixed(1)} µs of CPU`)
console.log(
  `one request of a trace that its caller does not record: ${(least('unrecorded') - silent).toFixed(1)} µs`,
)
const watched = {
  phase: 'serving',
  nodes: NODES.map((name) => ({ name, address: name, state: 'voting' as const })),
  agreed: true,
  standstills: [],
  inFlight: 1,
  bodyBytes: 0,
  bodyLimitBytes: 1,
  leasesReserved: 0,
  writeBackPending: 0,
  sweeping: undefined,
  sagas: undefined,
  nodeStats: undefined,
  certificates: [],
} as const
const scrapes: number[] = []
for (let i = 0; i < 200; i += 1) {
  const cpu = process.cpuUsage()
  await telemetry.scrape(watched, 'application/openmetrics-text')
  const { user, system } = process.cpuUsage(cpu)
  scrapes.push((user + system) / 1_000)
}
console.log(`one scrape: ${scrapes.toSorted((a, b) => a - b)[100]?.toFixed(2)} ms of CPU`)
