/**
 * Whether a node has room for new claims.
 *
 * A granted claim has to be completed, and its outcome is the larger part of a record. So new claims stop while there
 * is still room for the outcomes of the granted ones; a node answers from its memory however full it is.
 *
 * Owns this judgement as a pure function, and its words. What a full node does with a command is `record-rules.ts`.
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
