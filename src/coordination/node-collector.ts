/**
 * Collects the stats of all nodes now and then, while this sidecar is elected to.
 *
 * One sidecar collects for all: one request per pod would cost the nodes more than it tells. Owns the latest stats:
 * none where it is not elected, and none of a node that did not answer the last time. Owns, too, which entries of a
 * node's slow log are new: each is reported once by the sidecar that is elected, and a newly elected one begins with
 * those of the last minute.
 */

import type { Clock } from '../core/clock.ts'
import type { NodeLook, NodeStats, SlowCommand } from '../core/nodes/node-stats.ts'
import { paused } from './sweeper.ts'

export type NodeStatsSource = {
  readonly name: string
  /** Rejects where the node can't be reached. */
  read(): Promise<NodeLook>
}

export type CollectedStats = NodeStats & {
  /** The longest command that is new in the slow log since the look before; 0 where none is. */
  readonly slowestNewMs: number
}

/** An elected sidecar reports older entries of the slow log no more: its predecessor did. */
const FIRST_LOOK_BACK_MS = 60_000

/**
 * @param everyMs 0: never
 * @param onSlow gets each new entry of a slow log, oldest first
 */
export function createNodeCollector(
  sources: readonly NodeStatsSource[],
  everyMs: number,
  clock: Clock,
  onSlow: (node: string, slow: SlowCommand) => void,
) {
  let known: ReadonlyMap<string, CollectedStats> | undefined
  /** By node: the id of the newest entry that was reported. */
  const newest = new Map<string, number>()

  function newIn(node: string, { slowCommands, stats }: NodeLook): NodeLook['slowCommands'] {
    const before = newest.get(node)
    const latest = slowCommands[0]?.id ?? -1
    if (!Number.isNaN(stats.slowCommands)) newest.set(node, latest)
    // Ids begin anew with the node's process.
    if (before === undefined || latest < before)
      return slowCommands.filter(({ atWallMs }) => atWallMs >= clock.wallMs() - FIRST_LOOK_BACK_MS)
    return slowCommands.filter(({ id }) => id > before)
  }

  async function lookOnce(): Promise<ReadonlyMap<string, CollectedStats>> {
    const looks = await Promise.allSettled(sources.map((source) => source.read()))
    return new Map(
      looks.flatMap((look, index) => {
        const name = sources[index]?.name
        if (look.status !== 'fulfilled' || name === undefined) return []
        const slow = newIn(name, look.value)
        for (const { id: _, ...one } of slow.toReversed()) onSlow(name, one)
        const slowestNewMs = Number.isNaN(look.value.stats.slowCommands)
          ? Number.NaN
          : Math.max(0, ...slow.map(({ durationMs }) => durationMs))
        return [[name, { ...look.value.stats, slowestNewMs }] as const]
      }),
    )
  }

  return {
    /** By name of the node; undefined where another sidecar is elected. */
    nodeStats: () => known,
    /** Again and again until it is over. */
    collect: async (over: AbortSignal) => {
      if (everyMs === 0) return
      newest.clear()
      while (!over.aborted) {
        const looked = await lookOnce()
        if (!over.aborted) known = looked
        await paused(clock, everyMs, over)
      }
      known = undefined
    },
  }
}
