/** Lapsed claims as one Redis node shows them: some keys at a time, headers only. */

import type { RedisNodes } from './nodes.ts'

export type LapsedClaim = { readonly recordKey: string; readonly fence: number }

/**
 * @param index of the node
 * @param cursor `0` to begin; the returned one is `0` at the end
 * @throws Error where the node does not vote now or does not answer
 */
export async function lapsedClaims(
  nodes: RedisNodes,
  index: number,
  cursor: string,
): Promise<{ readonly found: readonly LapsedClaim[]; readonly cursor: string }> {
  const member = nodes.members[index]
  if (member?.state.kind !== 'voting') throw new Error(`node ${index} does not vote now`)
  const node = nodes.enrolmentNode(member, member.state.facts)
  const step = await node.keys(cursor)
  if (step.keys.length === 0) return { found: [], cursor: step.cursor }
  const { snapshots } = await node.inspect(step.keys, false)
  const found = step.keys.flatMap((recordKey, at) => {
    const snapshot = snapshots[at]
    if (snapshot === undefined || snapshot === 'damaged' || snapshot.record.state !== 'claimed') return []
    const { fence, leaseUntilNodeMs } = snapshot.record
    return leaseUntilNodeMs <= snapshot.nodeMs ? [{ recordKey, fence }] : []
  })
  return { found, cursor: step.cursor }
}
