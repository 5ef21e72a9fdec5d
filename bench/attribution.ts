/**
 * Where the processor time of one request goes: a table that adds up to the whole, or says that it does not.
 *
 *     npm run build && TESTED_SIDECAR=$PWD/dist/main.js npm run bench -- attribution [in flight, 32] [rounds, 5] [unique | replays | pass-through]
 *
 * Rounds with the profiler of V8 and rounds without it take turns, so that what the profiler costs shows. The whole is the kernel's count
 * for all threads but the profiler's own. The rows are the profile of the main thread and the kernel's count of the others; what is left
 * of the whole is the remainder.
 */
import { readdirSync, readFileSync } from 'node:fs'
import type { Profiler } from 'node:inspector'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { startSidecar } from '../test/support/sidecar.ts'
import { attribute, attributionOf, REMAINDER_SHARE_MAX } from './support/attribution.ts'
import { openInspector } from './support/inspector.ts'
import { startLoad, type ThreadTimes, threadTimes } from './support/load.ts'
import { besideText, PATIENT_UNDER_LOAD, watchMachine } from './support/machine.ts'
import { startBenchApplication } from './support/peers.ts'
import { type RequestKind, requestKinds, runKind } from './support/request-kinds.ts'
import { writeResults } from './support/results.ts'
import { mean } from './support/rounds.ts'
import { sourcePlaces } from './support/source-places.ts'

const REQUESTS = 3_000
/** More often the profiler costs as much as what it measures. */
const SAMPLE_EVERY_MICROS = 500
/** Rounds until V8 has compiled what there is to compile. */
const WARM_UPS = 4
/** Threads that exist because it is measured. */
const OF_THE_PROFILER = /^(v8:ProfEvntProc|SignalInspector)$/

const KINDS: Readonly<Record<string, RequestKind>> = requestKinds(1_000)

const [inFlight = '32', roundsGiven = '5', kind = 'unique'] = process.argv.slice(2)
const [concurrency, rounds, job] = [Number(inFlight), Number(roundsGiven), KINDS[kind]]
if (job === undefined)
  throw new Error(`the third argument is one of ${Object.keys(KINDS).join(', ')}, not ${kind}`)

let said = ''
await using servers = await startRedisServers(5, { founded: true })
await using application = await startBenchApplication()
await using sidecar = await startSidecar(
  {
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: application.url,
    FENCEPOST_TENANT_NEW_RECORDS: '1000000',
    ...PATIENT_UNDER_LOAD,
    NODE_OPTIONS: '--inspect=127.0.0.1:0',
  },
  {
    startWithinMs: 120_000,
    onOutput: (text) => {
      if (said.length < 4_096) said += text
    },
  },
)
const { pid } = sidecar.process
await using load = startLoad()
await using inspector = await openInspector(said)
await inspector.post('Profiler.enable')
await inspector.post('Profiler.setSamplingInterval', { interval: SAMPLE_EVERY_MICROS })
const placeOf = sourcePlaces()

type Thread = ThreadTimes & { readonly name: string }
type Round = { readonly whole: number; readonly parts: ReadonlyMap<string, number> }
const profiled: Round[] = []
const bare: number[] = []
for (let warmUp = 0; warmUp < WARM_UPS; warmUp += 1) await run()
const machine = watchMachine()
for (let round = 0; round < rounds; round += 1) {
  bare.push(wholeOf(await run()))
  profiled.push(await runProfiled())
}
report()

/** What each thread used for one request. */
async function run(): Promise<ReadonlyMap<string, Thread>> {
  const before = threads()
  const { requests } = await runKind(load, sidecar.proxy, job!, { requests: REQUESTS, concurrency })
  return new Map(
    [...threads()].map(([id, { name, ranMicros, waitedMicros }]) => {
      const then = before.get(id)
      return [
        id,
        {
          name,
          ranMicros: (ranMicros - (then?.ranMicros ?? 0)) / requests,
          waitedMicros: (waitedMicros - (then?.waitedMicros ?? 0)) / requests,
        },
      ]
    }),
  )
}

async function runProfiled(): Promise<Round> {
  await inspector.post('Profiler.start')
  const used = await run()
  const { profile } = await inspector.post<{ profile: Profiler.Profile }>('Profiler.stop')
  const main = used.get(String(pid))!
  // The profile's clock also runs while another program has the core: the part of that which the kernel counts is taken out evenly.
  const ranShare = main.ranMicros / (main.ranMicros + main.waitedMicros)
  const parts = new Map<string, number>()
  for (const [category, micros] of attribute(profile, placeOf))
    parts.set(category, (micros / REQUESTS) * ranShare)
  for (const [id, { name, ranMicros }] of used) {
    if (id === String(pid) || OF_THE_PROFILER.test(name)) continue
    const row = /V8Worker/.test(name) ? 'threads of V8: garbage collection and compiling' : 'other threads'
    parts.set(row, (parts.get(row) ?? 0) + ranMicros)
  }
  return { whole: wholeOf(used), parts }
}

function report(): void {
  // Means, because those of the rows add up to that of the whole as the rows of each round do; medians need not.
  const whole = mean(profiled.map((round) => round.whole))
  const names = [...new Set(profiled.flatMap(({ parts }) => [...parts.keys()]))]
  const each = (name: string) => profiled.map(({ parts }) => parts.get(name) ?? 0)
  const { rows, remainderMicros, addsUp } = attributionOf(
    new Map(names.map((name) => [name, mean(each(name))])),
    whole,
  )
  console.log(`${kind}, ${concurrency} in flight, ${rounds} rounds of ${REQUESTS} requests\n`)
  console.log('| for what | µs a request | smallest–largest round | share |\n|---|---|---|---|')
  for (const { name, micros, share } of rows) {
    const all = each(name)
    console.log(
      `| ${name} | ${micros.toFixed(1)} | ${Math.min(...all).toFixed(1)}–${Math.max(...all).toFixed(1)} | ${(share * 100).toFixed(1)} % |`,
    )
  }
  console.log(
    `| remainder: what the rows miss of the whole | ${remainderMicros.toFixed(1)} | | ${((remainderMicros / whole) * 100).toFixed(1)} % |`,
  )
  console.log(`| **the whole, as the kernel counts it** | ${whole.toFixed(1)} | | 100 % |`)
  console.log(
    `\nwithout the profiler ${mean(bare).toFixed(1)} µs (${Math.min(...bare).toFixed(1)}–${Math.max(...bare).toFixed(1)}) in rounds by turns`,
  )
  console.log(
    addsUp
      ? `the rows add up to the whole within ${REMAINDER_SHARE_MAX * 100} %`
      : `the rows do NOT add up to the whole within ${REMAINDER_SHARE_MAX * 100} %: do not use this table`,
  )
  console.log(besideText(machine.beside()))
  writeResults(`attribution-${kind}-${concurrency}`, {}, { rows, whole, remainderMicros, addsUp, bare })
  if (!addsUp) process.exitCode = 1
}

function wholeOf(used: ReadonlyMap<string, Thread>): number {
  return [...used.values()]
    .filter(({ name }) => !OF_THE_PROFILER.test(name))
    .reduce((sum, { ranMicros }) => sum + ranMicros, 0)
}

/** With their names: the profiler's own ends with the profile. */
function threads(): ReadonlyMap<string, Thread> {
  return new Map(
    readdirSync(`/proc/${pid}/task`).map((id) => [id, { name: nameOf(id), ...threadTimes(pid, id) }]),
  )
}

/** Of a thread that has ended: empty. */
function nameOf(id: string): string {
  try {
    return readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8').trim()
  } catch {
    return ''
  }
}
