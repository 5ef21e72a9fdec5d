/**
 * What an idle sidecar asks of its nodes, and what that costs: commands a minute by name, processor time of a node and of the sidecar.
 *
 *     npm run build && TESTED_SIDECAR=$PWD/dist/main.js npm run bench -- idle [seconds]
 *
 * Five real nodes, one sidecar, no request. The counts are of the nodes (INFO commandstats, which also counts what scripts call); times
 * are of the kernel (/proc/PID/stat), so a busy machine changes them little.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { PATIENT, startSidecar } from '../test/support/sidecar.ts'

const seconds = Number(process.argv[2] ?? 60)
/** Before it compiling, connecting and the first synthetic claims are still under way. */
const SETTLING_MS = 15_000
/** Clock ticks of the kernel: 100 a second on every Linux that Node runs on. */
const TICK_MS = 10

await using servers = await startRedisServers(5, { founded: true })
await using sidecar = await startSidecar({
  FENCEPOST_REDIS_NODES: servers.nodesSetting,
  ...PATIENT,
  FENCEPOST_LOG_LEVEL: 'info',
})
await pause(SETTLING_MS)
const watch = servers.urls.map((url) => new Redis(url))
const pids = await Promise.all(
  watch.map(async (node) => Number(field(await node.info('server'), 'process_id'))),
)
const before = await Promise.all(watch.map(counts))
const cpuBefore = [sidecar.process.pid, ...pids].map(cpuMs)
await pause(seconds * 1_000)
const cpu = [sidecar.process.pid, ...pids].map((pid, at) => cpuMs(pid) - (cpuBefore[at] ?? 0))
const after = await Promise.all(watch.map(counts))
for (const node of watch) node.disconnect()

const [ofSidecar = 0, ...ofNodes] = cpu
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
const share = (ms: number) => `${(ms / seconds / 10).toFixed(2)} % of a core`
console.log(
  `sidecar: ${share(ofSidecar)}; a node: ${share(ofNodes.reduce((sum, ms) => sum + ms, 0) / ofNodes.length)}`,
)

async function counts(node: Redis): Promise<Map<string, { calls: number; usec: number }>> {
  const lines = (await node.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm)
  return new Map(
    [...lines].map(([, name = '', calls, usec]) => [name, { calls: Number(calls), usec: Number(usec) }]),
  )
}

function field(info: string, name: string): string {
  return new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1] ?? ''
}

function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}
