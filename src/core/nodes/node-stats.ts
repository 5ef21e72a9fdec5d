/** How a node does besides its votes: its server's figures of memory, clients and slow commands. */

/** NaN where the node does not say, or its user may not ask. */
export type NodeStats = {
  readonly memoryUsedBytes: number
  /** `maxmemory`; NaN where it has none. */
  readonly memoryMaxBytes: number
  /** Memory of the process by memory of its data; meaningless while there is little of either. */
  readonly memoryFragmentationRatio: number
  /** Keys evicted since its process started: each may have been a record. */
  readonly evictedKeys: number
  /** Keys whose time was over, since its process started. */
  readonly expiredKeys: number
  readonly connectedClients: number
  readonly blockedClients: number
  /** 1 where the last write of its append-only file succeeded; NaN where it keeps none. */
  readonly aofLastWriteOk: number
  readonly slowlogLength: number
  /** Entries that its slow log ever had since its process started. */
  readonly slowCommands: number
}

/** One entry of a node's slow log. Without arguments: they are keys and owners. */
export type SlowCommand = {
  readonly command: string
  readonly durationMs: number
  /** By the node's clock, in whole seconds. */
  readonly atWallMs: number
}

export type NodeLook = {
  readonly stats: NodeStats
  /** The newest ones, newest first. An id grows by one with each entry, from 0 at the start of the node's process. */
  readonly slowCommands: readonly (SlowCommand & { readonly id: number })[]
}
