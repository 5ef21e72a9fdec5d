/** Lapsed claims as one Redis node shows them: some keys at a time, headers only. */

import type { RedisNodes } from './nodes.ts'
import { scanRecords } from './record-scan.ts'

export type LapsedClaim = { readonly recordKey: string; readonly fence: number }

/**
 * @param index of the node
 * @param cursor `0` to begin; the returned one is `0` at the end
 * @returns none of a node that does not vote: that is told of where its state changes, and the others show its records
 * @throws Error where the node does not answer
 */
export async function lapsedClaims(
  nodes: RedisNodes,
  index: number,
  cursor: string,
): Promise<{ readonly found: readonly LapsedClaim[]; readonly cursor: string }> {
  if (nodes.members[index]?.state.kind !== 'voting') return { found: [], cursor: '0' }
  const step = await scanRecords(nodes, index, cursor)
  const found = step.found.flatMap(({ recordKey, record, nodeMs }) => {
    if (record.state !== 'claimed') return []
    const { fence, leaseUntilNodeMs } = record
    return leaseUntilNodeMs <= nodeMs ? [{ recordKey, fence }] : []
  })
  return { found, cursor: step.cursor }
}
