/**
 * The gauges of the nodes' servers, of a sidecar that is set to collect them where it is elected.
 *
 * Owns what the others show: NaN in every series, from the start, so that an election changes no series and a maximum over
 * all pods is what the elected one knows.
 */

import type { NodeVitals } from '../core/nodes/node-vitals.ts'
import type { MakeGauge } from './gauge.ts'

export type VitalsGauges = ReturnType<typeof vitalsGauges>

export function vitalsGauges(gauge: MakeGauge, node: readonly string[]) {
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

/** @param vitals undefined where this sidecar is not elected */
export function recordVitals(
  gauges: VitalsGauges | undefined,
  vitals: ReadonlyMap<string, NodeVitals> | undefined,
): void {
  if (gauges === undefined) return
  gauges.elected.set(vitals === undefined ? 0 : 1)
  for (const node of gauges.nodes) {
    const known = vitals?.get(node)
    for (const name of VITALS) gauges[name].set({ node }, known?.[name] ?? Number.NaN)
  }
}

const VITALS = ['memoryUsedBytes', 'memoryFragmentationRatio', 'evictedKeys', 'slowlogLength'] as const
