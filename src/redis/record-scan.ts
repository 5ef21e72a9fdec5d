/**
 * A walk over the records of one Redis node, some keys at a time, headers only.
 *
 * Owns nothing but the step: SCAN visits a thousand keys in a millisecond or two of the node, their records are read some at a time, and the
 * caller pauses between two steps.
 */

import type { NodeRecord } from '../core/record/record.ts'
import type { RedisNodes } from './nodes.ts'

export type ScannedRecord = {
  readonly recordKey: string
  readonly record: NodeRecord
  /** The node's own clock at that moment. */
  readonly nodeMs: number
}

/**
 * A record takes a node 5 to 20 µs. What else it is asked waits for the call before, and so does whatever this process does for the decoding of
 * its reply: with a thousand at once both stood still for 15 to 19 ms on a slow machine.
 */
const RECORDS_A_CALL = 100

type Step<T> = { readonly found: readonly T[]; readonly cursor: string }

/**
 * @param index of the node
 * @param cursor `0` to begin; the returned one is `0` at the end
 * @throws Error where the node does not vote now or does not answer
 */
export async function scanRecords(
  nodes: RedisNodes,
  index: number,
  cursor: string,
): Promise<Step<ScannedRecord>> {
  const { node, step } = await keysOf(nodes, index, cursor)
  const found: ScannedRecord[] = []
  for (let from = 0; from < step.keys.length; from += RECORDS_A_CALL) {
    const keys = step.keys.slice(from, from + RECORDS_A_CALL)
    const { snapshots } = await node.inspect(keys, false)
    for (const [at, recordKey] of keys.entries()) {
      const snapshot = snapshots[at]
      if (snapshot === undefined || snapshot === 'damaged') continue
      found.push({ recordKey, record: snapshot.record, nodeMs: snapshot.nodeMs })
    }
  }
  return { found, cursor: step.cursor }
}

/** The same, of which only the keys are of interest. */
export async function scanKeys(nodes: RedisNodes, index: number, cursor: string): Promise<Step<string>> {
  const { step } = await keysOf(nodes, index, cursor)
  return { found: step.keys, cursor: step.cursor }
}

async function keysOf(nodes: RedisNodes, index: number, cursor: string) {
  const member = nodes.members[index]
  if (member === undefined) throw new RangeError(`there is no node ${index}`)
  if (member.state.kind !== 'voting') throw new Error(`${member.node.name} does not vote now`)
  const node = nodes.rejoiningNode(member, member.state.facts)
  return { node, step: await node.keys(cursor) }
}

export type ExpiredClaim = { readonly recordKey: string; readonly fence: number }

/** Claims whose lease is over; none of a node that does not vote: that is told of where its state changes, and the others show its records. */
export async function expiredClaims(
  nodes: RedisNodes,
  index: number,
  cursor: string,
): Promise<Step<ExpiredClaim>> {
  if (nodes.members[index]?.state.kind !== 'voting') return { found: [], cursor: '0' }
  const step = await scanRecords(nodes, index, cursor)
  const found = step.found.flatMap(({ recordKey, record, nodeMs }) => {
    if (record.state !== 'claimed') return []
    const { fence, leaseUntilNodeMs } = record
    return leaseUntilNodeMs <= nodeMs ? [{ recordKey, fence }] : []
  })
  return { found, cursor: step.cursor }
}
