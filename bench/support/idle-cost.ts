/**
 * What one more idle sidecar costs each node: the processor time of five nodes with a fleet of idle sidecars, less that with none, by the
 * number of them.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { TestProcess } from '../../test/support/processes.ts'
import { startRedisServers } from '../../test/support/redis-servers.ts'
import { cpuMicrosOf } from './load.ts'
import { median } from './rounds.ts'

const FLEET = fileURLToPath(new URL('./idle-fleet-process.ts', import.meta.url))
const WINDOWS = 6
const WINDOW_MS = 10_000
/** Until the last one of the fleet has joined, and was calm for so long that it claims once a minute (`core/health/readiness.ts`). */
const SETTLING_MS = 90_000

export type IdleCost = {
  /** Percent of a core that a node takes with no sidecar at all. */
  readonly alonePercent: number
  /** One figure a window: percent of a core of a node, for each idle sidecar. */
  readonly percentEach: readonly number[]
  /** Polls of a node, a minute and sidecar: sidecars that are short of processor time poll less often, and cost less than they do. */
  readonly pollsAMinute: number
}

/** A light poll follows the poll before it after 1.3 to 2.2 s (`core/nodes/light-polls.ts`). */
export const LOOKS_A_MINUTE_MIN = 27

export async function measureIdleCost(sidecars: number): Promise<IdleCost> {
  await using servers = await startRedisServers(5, { founded: true })
  const nodes = servers.urls.map((_, index) => servers.at(index).process.pid)
  const alone = await windows(nodes)
  await using fleet = new TestProcess(process.execPath, [FLEET, String(sidecars), servers.nodesSetting], {
    name: `${sidecars} idle sidecars`,
  })
  await fleet.line(/idle sidecars run$/, { withinMs: 600_000 })
  await pause(SETTLING_MS)
  const polls = await pollsOf(servers.urls[0]!)
  const beganMs = performance.now()
  const together = await windows(nodes)
  const minutes = (performance.now() - beganMs) / 60_000
  const alonePercent = median(alone)
  return {
    alonePercent,
    percentEach: together.map((node) => (node - alonePercent) / sidecars),
    pollsAMinute: ((await pollsOf(servers.urls[0]!)) - polls) / minutes / sidecars,
  }
}

/**
 * Each full poll reads the node's configuration, and nothing else does. Each light poll reads its time, and so does each script.
 */
async function pollsOf(url: string): Promise<number> {
  const client = new Redis(url)
  const info = await client.info('commandstats')
  client.disconnect()
  const calls = (name: string) =>
    Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(info)?.[1] ?? 0)
  return calls('config\\|get') + Math.max(0, calls('time') - calls('eval') - calls('evalsha'))
}

/** In percent of a core: the mean of the nodes. */
async function windows(nodes: readonly number[]): Promise<readonly number[]> {
  const used = () => nodes.reduce((sum, pid) => sum + cpuMicrosOf(pid), 0) / nodes.length
  const shares: number[] = []
  for (let window = 0; window < WINDOWS; window += 1) {
    const [beganMs, then] = [performance.now(), used()]
    await pause(WINDOW_MS)
    shares.push((used() - then) / (performance.now() - beganMs) / 10)
  }
  return shares
}
