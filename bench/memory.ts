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
import { printGoals } from './support/goal-report.ts'
import { watchMachine } from './support/machine.ts'

const LIMIT_MIB = 384
/** Each in a sidecar of its own. After minutes of load one has more: docs/operations/capacity.md. */
const ROUNDS = 3
const ROWS = [
  { count: 64, bodyBytes: 200, rounds: ROUNDS },
  { count: 900, bodyBytes: 200, rounds: ROUNDS },
  // No goal: that it is not killed.
  { count: 400, bodyBytes: 1_000_000, rounds: 1 },
  { count: 900, bodyBytes: 1_000_000, rounds: 1 },
] as const

const machine = watchMachine()
const idle: number[] = []
const peaks: Record<64 | 900, number[]> = { 64: [], 900: [] }
for (const { count, bodyBytes, rounds } of ROWS)
  for (let round = 0; round < rounds; round += 1) {
    await using servers = await startRedisServers(5, { founded: true })
    const run = await holdInFlight(
      { count, bodyBytes, limitMiB: LIMIT_MIB },
      { FENCEPOST_REDIS_NODES: servers.nodesSetting, ...PATIENT, FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s' },
    )
    const { idleMiB, peakMiB, cgroupPeakMiB = run.lacks, answers, killed } = run
    console.log(JSON.stringify({ count, bodyBytes, idleMiB, peakMiB, cgroupPeakMiB, killed, answers }))
    if (rounds < ROUNDS || count === 400) continue
    idle.push(idleMiB)
    peaks[count].push(peakMiB)
  }
printGoals('memory', { 'memory-idle': idle, 'memory-64': peaks[64], 'memory-900': peaks[900] }, machine)
