/** How a node is doing besides its votes: what its server says of its memory and of commands that took long. */

export type NodeStats = {
  readonly memoryUsedBytes: number
  /** Memory of the process by memory of its data; means nothing while there is little of either. */
  readonly memoryFragmentationRatio: number
  /** Keys thrown away for want of memory since its process was started: each may have been a record. */
  readonly evictedKeys: number
  /** Entries of the slow log; NaN where the node's user may not ask. */
  readonly slowlogLength: number
}
