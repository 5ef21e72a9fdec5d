/**
 * The gauges of the nodes' servers, of the sidecar that is elected to collect them.
 *
 * Owns that no other sidecar shows them: of a hundred sidecars ninety-nine would show series that say nothing. Prometheus
 * ends a series with the first scrape that lacks it, so after an election there is one value for each node again.
 */

import type { NodeStats } from '../core/nodes/node-stats.ts'
import type { MakeGauge } from './gauge.ts'

export type NodeStatsGauges = ReturnType<typeof nodeStatsGauges>

/** As the collector gives them. */
type Shown = NodeStats & { readonly slowestNewMs: number }

export function nodeStatsGauges(gauge: MakeGauge) {
  const ofNode = (name: string, help: string) =>
    gauge<'node'>(name, `${help}; only of the sidecar that is elected to ask.`, { node: [] })
  return {
    elected: gauge(
      'fencepost_node_collector_elected',
      '1 where this sidecar asks the nodes for the others.',
      {},
    ),
    byNode: {
      memoryUsedBytes: ofNode('fencepost_redis_node_memory_used_bytes', 'Memory of the data of the node'),
      memoryMaxBytes: ofNode('fencepost_redis_node_memory_max_bytes', 'The `maxmemory` of the node'),
      memoryFragmentationRatio: ofNode(
        'fencepost_redis_node_memory_fragmentation_ratio',
        'Memory of the process of the node by memory of its data',
      ),
      evictedKeys: ofNode(
        'fencepost_redis_node_evicted_keys',
        'Keys that the node threw away since it was started',
      ),
      expiredKeys: ofNode(
        'fencepost_redis_node_expired_keys',
        'Keys of the node whose time was over, since it was started',
      ),
      connectedClients: ofNode('fencepost_redis_node_connected_clients', 'Connections to the node'),
      blockedClients: ofNode(
        'fencepost_redis_node_blocked_clients',
        'Connections to the node that wait in a blocking command',
      ),
      aofLastWriteOk: ofNode(
        'fencepost_redis_node_aof_last_write_ok',
        '1 where the last write of the append-only file of the node succeeded',
      ),
      slowlogLength: ofNode('fencepost_redis_node_slowlog_length', 'Entries of the slow log of the node'),
      slowCommands: ofNode(
        'fencepost_redis_node_slow_commands',
        'Commands that entered the slow log of the node since it was started',
      ),
      slowestNewSeconds: ofNode(
        'fencepost_redis_node_slowest_command_seconds',
        'The longest command that is new in the slow log of the node since the look before, 0 where none is',
      ),
    },
  }
}

/** @param nodeStats undefined while this sidecar is not elected */
export function recordNodeStats(
  gauges: NodeStatsGauges | undefined,
  nodeStats: ReadonlyMap<string, Shown> | undefined,
): void {
  if (gauges === undefined) return
  gauges.elected.set(nodeStats === undefined ? 0 : 1)
  const { byNode } = gauges
  for (const gauge of Object.values(byNode)) gauge.clear()
  for (const [node, { slowestNewMs, ...stats }] of nodeStats ?? []) {
    const shown = { ...stats, slowestNewSeconds: slowestNewMs / 1_000 }
    for (const name of Object.keys(byNode) as (keyof typeof byNode)[])
      if (!Number.isNaN(shown[name])) byNode[name].set({ node }, shown[name])
  }
}
