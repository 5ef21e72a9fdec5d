/**
 * Collects the stats of all nodes now and then, while this sidecar is elected to.
 *
 * One sidecar collects for all: one request per pod would cost the nodes more than it tells. Owns the latest stats:
 * none where it is not elected, and none of a node that did not answer the last time.
 */

import type { Clock } from '../core/clock.ts'
import type { NodeStats } from '../core/nodes/node-stats.ts'
import { paused } from './sweeper.ts'

export type NodeStatsSource = {
  readonly name: string
  /** Rejects where the node can't be reached. */
  read(): Promise<NodeStats>
}

export type NodeCollector = {
  /** By name of the node; undefined where another sidecar is elected. */
  nodeStats(): ReadonlyMap<string, NodeStats> | undefined
  /** Collects again and again until it is over. */
  collect(over: AbortSignal): Promise<void>
}

/** @param everyMs 0: never */
export function createNodeCollector(
  sources: readonly NodeStatsSource[],
  everyMs: number,
  clock: Clock,
): NodeCollector {
  let known: ReadonlyMap<string, NodeStats> | undefined

  async function lookOnce(): Promise<ReadonlyMap<string, NodeStats>> {
    const looks = await Promise.allSettled(sources.map((source) => source.read()))
    return new Map(
      looks.flatMap((look, index) => {
        const name = sources[index]?.name
        return look.status === 'fulfilled' && name !== undefined ? [[name, look.value] as const] : []
      }),
    )
  }

  return {
    nodeStats: () => known,
    collect: async (over) => {
      if (everyMs === 0) return
      while (!over.aborted) {
        const looked = await lookOnce()
        if (!over.aborted) known = looked
        await paused(clock, everyMs, over)
      }
      known = undefined
    },
  }
}
