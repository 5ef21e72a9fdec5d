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

/*
 * A granted claim has to be completed, and its outcome is the larger part of a record: new claims stop while there is still room for the
 * outcomes of the granted ones. A node answers from its memory however full it is.
 */

export type NodeMemory = {
  /** As Redis compares it with its limit: without what it does not count. */
  readonly usedBytes: number
  /** `maxmemory`; 0 where there is none. */
  readonly limitBytes: number
}

/** How much of its limit a node uses; undefined where it has none. */
export function shareOfMemory({ usedBytes, limitBytes }: NodeMemory): number | undefined {
  return limitBytes > 0 ? usedBytes / limitBytes : undefined
}

/** @param shareMax of the limit, which new claims may fill */
export function takesNewClaims(memory: NodeMemory, shareMax: number): boolean {
  return (shareOfMemory(memory) ?? 0) < shareMax
}

/** For the operator who has to make room. */
export function describeMemory({ usedBytes, limitBytes }: NodeMemory, shareMax: number): string {
  const used = `${usedBytes} of ${limitBytes} bytes of maxmemory are used`
  return `${used} (${percent(usedBytes / limitBytes)}), and new claims stop at ${percent(shareMax)}`
}

function percent(share: number): string {
  return `${Math.round(share * 1_000) / 10} %`
}
