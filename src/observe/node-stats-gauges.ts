/**
 * The gauges of the nodes' servers, for a sidecar that collects them while elected.
 *
 * Owns what other sidecars export: NaN in every series from the start, so that an election changes no series and a
 * maximum over all pods is the elected sidecar's value.
 */

import type { NodeStats } from '../core/nodes/node-stats.ts'
import type { MakeGauge } from './gauge.ts'

export type NodeStatsGauges = ReturnType<typeof nodeStatsGauges>

export function nodeStatsGauges(gauge: MakeGauge, node: readonly string[]) {
  const unknown = Number.NaN
  return {
    nodes: node,
    elected: gauge(
      'fencepost_node_collector_elected',
      '1 where this sidecar asks the nodes for the others.',
      {},
    ),
    memoryUsedBytes: gauge(
      'fencepost_redis_node_memory_used_bytes',
      'Memory of the data of the node; NaN where this sidecar does not ask.',
      { node },
      unknown,
    ),
    memoryFragmentationRatio: gauge(
      'fencepost_redis_node_memory_fragmentation_ratio',
      'Memory of the process of the node by memory of its data; NaN where this sidecar does not ask.',
      { node },
      unknown,
    ),
    evictedKeys: gauge(
      'fencepost_redis_node_evicted_keys',
      'Keys that the node threw away since it was started; NaN where this sidecar does not ask.',
      { node },
      unknown,
    ),
    slowlogLength: gauge(
      'fencepost_redis_node_slowlog_length',
      'Entries of the slow log of the node; NaN where this sidecar does not ask.',
      { node },
      unknown,
    ),
  }
}

/** @param nodeStats undefined while this sidecar is not elected */
export function recordNodeStats(
  gauges: NodeStatsGauges | undefined,
  nodeStats: ReadonlyMap<string, NodeStats> | undefined,
): void {
  if (gauges === undefined) return
  gauges.elected.set(nodeStats === undefined ? 0 : 1)
  for (const node of gauges.nodes) {
    const known = nodeStats?.get(node)
    for (const name of NODE_STATS) gauges[name].set({ node }, known?.[name] ?? Number.NaN)
  }
}

const NODE_STATS = ['memoryUsedBytes', 'memoryFragmentationRatio', 'evictedKeys', 'slowlogLength'] as const
