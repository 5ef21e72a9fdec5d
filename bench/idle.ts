/**
 * What an idle sidecar asks of its nodes, and what that costs: commands a minute by name, processor time of a node and of the sidecar.
 *
 *     npm run build && TESTED_SIDECAR=$PWD/dist/main.js npm run bench -- idle [seconds, 720] [main.js of another build]
 *
 * Five real nodes, one sidecar, no request. The counts are of the nodes (INFO commandstats, which also counts what scripts call); times
 * are of the kernel, so a busy machine changes them little. Six windows: a large collection of garbage comes every two minutes, and shorter
 * windows measure whether they have one. Another build runs on nodes of its own in the same seconds.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { PATIENT, startSidecar } from '../test/support/sidecar.ts'
import { printGoals } from './support/goal-report.ts'
import { cpuMicrosOf } from './support/load.ts'
import { watchMachine } from './support/machine.ts'
import { median } from './support/rounds.ts'

const [secondsGiven = '720', otherMain] = process.argv.slice(2)
const seconds = Number(secondsGiven)
/** Each a round of the goal. */
const WINDOWS = 6
/** Before it compiling and connecting are still under way, and synthetic claims more often than while all is calm. */
const SETTLING_MS = 90_000

await using running = new AsyncDisposableStack()
const ours = await startIdle()
const other = otherMain === undefined ? undefined : await startIdle(otherMain)
await pause(SETTLING_MS)
const machine = watchMachine()
const before = await Promise.all(ours.watch.map(counts))
const shares: { ours: number; node: number; other: number }[] = []
for (let window = 0; window < WINDOWS; window += 1) shares.push(await shareOfWindow())
const after = await Promise.all(ours.watch.map(counts))
for (const node of [...ours.watch, ...(other?.watch ?? [])]) node.disconnect()

const names = [...new Set(after.flatMap((of) => [...of.keys()]))].sort()
console.log('| command | a minute and node | of a node’s time, µs a minute |\n|---|---|---|')
for (const name of names) {
  const grown = after.map((of, at) => {
    const [then, now] = [before[at]?.get(name), of.get(name)]
    return { calls: (now?.calls ?? 0) - (then?.calls ?? 0), usec: (now?.usec ?? 0) - (then?.usec ?? 0) }
  })
  const mean = (of: 'calls' | 'usec') =>
    (grown.reduce((sum, each) => sum + each[of], 0) / grown.length / seconds) * 60
  if (mean('calls') >= 0.5)
    console.log(`| \`${name}\` | ${mean('calls').toFixed(0)} | ${mean('usec').toFixed(0)} |`)
}
const middle = (of: keyof (typeof shares)[number]) => median(shares.map((one) => one[of])).toFixed(3)
console.log(`sidecar: ${middle('ours')} % of a core; a node, its own timers included: ${middle('node')} %`)
if (other !== undefined) {
  const ratios = shares.map((one) => one.ours / one.other)
  console.log(
    `the other build: ${middle('other')} %; ours over it: ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`,
  )
}
printGoals('idle', { 'idle-processor': shares.map((one) => one.ours) }, machine)

async function startIdle(main?: string) {
  const servers = running.use(await startRedisServers(5, { founded: true }))
  const sidecar = running.use(
    await startSidecar(
      { FENCEPOST_REDIS_NODES: servers.nodesSetting, ...PATIENT, FENCEPOST_LOG_LEVEL: 'info' },
      { startWithinMs: 120_000, ...(main === undefined ? {} : { main }) },
    ),
  )
  const nodes = servers.urls.map((_, index) => servers.at(index).process.pid)
  return { sidecar: sidecar.process.pid, nodes, watch: servers.urls.map((url) => new Redis(url)) }
}

/** In percent of a core. */
async function shareOfWindow() {
  const windowMs = (seconds * 1_000) / WINDOWS
  const used = () => ({
    ours: cpuMicrosOf(ours.sidecar),
    node: ours.nodes.reduce((sum, pid) => sum + cpuMicrosOf(pid), 0) / ours.nodes.length,
    other: other === undefined ? 0 : cpuMicrosOf(other.sidecar),
  })
  const [beganMs, then] = [performance.now(), used()]
  await pause(windowMs)
  const now = used()
  const share = (of: keyof typeof now) => (now[of] - then[of]) / (performance.now() - beganMs) / 10
  return { ours: share('ours'), node: share('node'), other: share('other') }
}

async function counts(node: Redis): Promise<Map<string, { calls: number; usec: number }>> {
  const lines = (await node.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm)
  return new Map(
    [...lines].map(([, name = '', calls, usec]) => [name, { calls: Number(calls), usec: Number(usec) }]),
  )
}
