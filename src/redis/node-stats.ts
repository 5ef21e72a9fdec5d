/** Reads one node's server stats: three small commands, for the one sidecar that collects. */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import type { NodeStats } from '../core/nodes/node-stats.ts'
import { within } from '../core/retry.ts'

/** @throws Error where the node is not connected, or does not answer in time */
export async function readNodeStats(client: Redis, deadlineMs: number, clock: Clock): Promise<NodeStats> {
  if (client.status !== 'ready') throw new Error('not connected')
  // Older users of docs/operations/nodes.md may not read it; the rest is useful without.
  const slowlog = client.call('SLOWLOG', 'LEN').catch(() => Number.NaN)
  const replies = Promise.all([client.info('memory'), client.info('stats'), slowlog])
  const [memory, stats, slowlogLength] = await within(
    clock,
    deadlineMs,
    replies,
    `no answer in ${deadlineMs} ms`,
  )
  return {
    memoryUsedBytes: fieldOf(memory, 'used_memory'),
    memoryFragmentationRatio: fieldOf(memory, 'mem_fragmentation_ratio'),
    evictedKeys: fieldOf(stats, 'evicted_keys'),
    slowlogLength: Number(slowlogLength),
  }
}

function fieldOf(info: string, name: string): number {
  const [, text] = new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info) ?? []
  return text === undefined ? Number.NaN : Number(text)
}
