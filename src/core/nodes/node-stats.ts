/** How a node does besides its votes: its server's figures of memory and slow commands. */

export type NodeStats = {
  readonly memoryUsedBytes: number
  /** Memory of the process by memory of its data; meaningless while there is little of either. */
  readonly memoryFragmentationRatio: number
  /** Keys evicted since its process started: each may have been a record. */
  readonly evictedKeys: number
  /** Entries of the slow log; NaN where the node's user may not read it. */
  readonly slowlogLength: number
}
