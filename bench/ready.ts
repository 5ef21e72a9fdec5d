/**
 * How long a sidecar takes from its start until it is ready, and its processor time for that, by turns with another build.
 *
 *     npm run build && TESTED_SIDECAR=$PWD/dist/main.js npm run bench -- ready [starts, 9 without] [main.js of another build]
 *
 * Of the compiled program over five founded nodes, started as its image starts it: until `/readyz` answers 200. A busy machine makes
 * the time longer and the processor time a little, so compare builds by the second.
 */
import { startRedisServers } from '../test/support/redis-servers.ts'
import { PATIENT, startSidecar } from '../test/support/sidecar.ts'
import { printGoals } from './support/goal-report.ts'
import { cpuSecondsOf } from './support/load.ts'
import { watchMachine } from './support/machine.ts'
import { startBenchApplication } from './support/peers.ts'
import { writeResults } from './support/results.ts'
import { median } from './support/rounds.ts'

const [startsGiven = '9', other] = process.argv.slice(2)
const starts = Number(startsGiven)
type Start = { readonly seconds: number; readonly cpuMs: number }

await using servers = await startRedisServers(5, { founded: true })
await using application = await startBenchApplication()
const ours: Start[] = []
const theirs: Start[] = []
// The first is not counted: it reads the files of the program from the disk.
await measured()
const machine = watchMachine()
for (let start = 0; start < starts; start += 1) {
  ours.push(await measured())
  if (other !== undefined) theirs.push(await measured(other))
}
const row = (name: string, all: readonly Start[]) =>
  console.log(
    `${name.padEnd(16)} ${(median(all.map(({ seconds }) => seconds)) * 1_000).toFixed(0).padStart(6)} ms until ready, ${median(all.map(({ cpuMs }) => cpuMs)).toFixed(0)} ms of processor time`,
  )
row('this build', ours)
if (other !== undefined) {
  row('the other build', theirs)
  for (const figure of ['seconds', 'cpuMs'] as const) {
    const ratios = ours.map((one, at) => one[figure] / theirs[at]![figure])
    console.log(
      `${figure}: this over the other ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`,
    )
  }
}
printGoals('ready', { ready: ours.map(({ seconds }) => seconds) }, machine)
writeResults('ready', {}, { ours, theirs })

async function measured(main?: string): Promise<Start> {
  const beganMs = performance.now()
  await using sidecar = await startSidecar(
    { FENCEPOST_REDIS_NODES: servers.nodesSetting, FENCEPOST_UPSTREAM: application.url, ...PATIENT },
    { startWithinMs: 120_000, ...(main === undefined ? {} : { main }) },
  )
  await sidecar.process.http(`${sidecar.admin}/readyz`, 200, { everyMs: 1 })
  const seconds = (performance.now() - beganMs) / 1_000
  return { seconds, cpuMs: cpuSecondsOf([sidecar.process.pid]) * 1_000 }
}
