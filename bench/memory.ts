/**
 * The memory of a sidecar: idle, with small requests in flight, and under a flood of large ones, within the limit of the chart.
 *
 *     npm run build && TESTED_SIDECAR=$PWD/dist/main.js npm run bench -- memory
 *
 * Of the program that is built, as the image has it: the sources need more. Five real nodes; the application holds every request. Where this machine has no cgroups that may be written to, only the memory of
 * the process is measured, and the table says so.
 */
import { holdInFlight } from '../test/exhaustion/memory.ts'
import { startRedisServers } from '../test/support/redis-servers.ts'
import { PATIENT } from '../test/support/sidecar.ts'

const LIMIT_MIB = 384
const ROWS = [
  { count: 64, bodyBytes: 200 },
  { count: 900, bodyBytes: 200 },
  { count: 400, bodyBytes: 1_000_000 },
  { count: 900, bodyBytes: 1_000_000 },
] as const

for (const { count, bodyBytes } of ROWS) {
  await using servers = await startRedisServers(5)
  const run = await holdInFlight(
    { count, bodyBytes, limitMiB: LIMIT_MIB },
    { FENCEPOST_REDIS_NODES: servers.nodesSetting, ...PATIENT, FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s' },
  )
  const { idleMiB, peakMiB, cgroupPeakMiB = run.lacks, answers, killed } = run
  console.log(JSON.stringify({ count, bodyBytes, idleMiB, peakMiB, cgroupPeakMiB, killed, answers }))
}
