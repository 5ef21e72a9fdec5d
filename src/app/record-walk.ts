/**
 * Walks over the keys of the nodes for an operator: a bounded share a call, and a cursor for the next.
 *
 *   group 0: node 0, 1, … until a majority of them is read, then group 1, …
 *
 * Owns the order and the bound. Two majorities share a node, so a walk over a majority of the nodes has seen every record
 * that a majority has, some of them more than once. In the place of a node that can't be read now comes the next one; a walk that
 * is left with fewer than a majority of a group says at its end that it is short. The verdict on each record is the quorum's.
 */

import type { Clock } from '../core/clock.ts'
import { pause } from '../core/retry.ts'
import { majorityOf } from '../core/units.ts'
import type { SearchStep } from '../http/operator/finding.ts'
import { OPERATOR_LIMITS } from '../http/operator/schemas.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import { scanKeys, scanRecords } from '../redis/record-scan.ts'

/** Of a thousand keys each. */
const STEPS_MAX = 50
/** A step takes some milliseconds of a node at most; requests get the rest. */
const STEP_PAUSE_MS = 5

/** `after`: of the step from this cursor, the keys up to this one are on an earlier page. */
type Place = {
  readonly group: number
  readonly node: number
  /** Nodes of this group that were read to their end. */
  readonly read: number
  /** Of an earlier group too few were. */
  readonly short: boolean
  readonly cursor: string
  readonly after: string
}
type Visit = (
  nodes: RedisNodes,
  index: number,
  cursor: string,
) => Promise<{ readonly found: readonly string[]; readonly cursor: string }>

export function walkOver(groups: readonly RedisNodes[], clock: Clock) {
  async function walk(from: string | undefined, visit: Visit): Promise<SearchStep> {
    const found = new Set<string>()
    let place = placeFrom(from)
    for (let step = 0; step < STEPS_MAX && found.size < OPERATOR_LIMITS.listMax; step += 1) {
      const nodes = groups[place.group]
      if (nodes === undefined) break
      try {
        const { after } = place
        const { found: visited, cursor } = await visit(nodes, place.node, place.cursor)
        const more = [...visited].sort().filter((recordKey) => recordKey > after)
        // A step has up to a thousand keys and more, a page fewer: what does not fit begins the next page.
        const taken = more.slice(0, OPERATOR_LIMITS.listMax - found.size)
        for (const recordKey of taken) found.add(recordKey)
        if (taken.length < more.length) place = { ...place, after: taken.at(-1) ?? after }
        else place = cursor === '0' ? nextNode(place, 1, nodes) : { ...place, cursor, after: '' }
      } catch {
        place = nextNode(place, 0, nodes)
      }
      await pause(clock, STEP_PAUSE_MS)
    }
    const records = [...found]
    if (groups[place.group] !== undefined) return { records, cursor: textOf(place) }
    return { records, ...(place.short ? { incomplete: true } : {}) }
  }

  return {
    search: (digits: string, from: string | undefined) =>
      walk(from, async (nodes, index, cursor) => {
        const step = await scanKeys(nodes, index, cursor)
        return { ...step, found: step.found.filter((key) => key.slice(-64).startsWith(digits)) }
      }),
    list: (state: 'live' | 'expired', from: string | undefined) =>
      walk(from, async (nodes, index, cursor) => {
        const step = await scanRecords(nodes, index, cursor)
        const found = step.found.flatMap(({ recordKey, record, nodeMs }) =>
          record.state === 'claimed' && record.leaseUntilNodeMs > nodeMs === (state === 'live')
            ? [recordKey]
            : [],
        )
        return { found, cursor: step.cursor }
      }),
  }
}

/** `group.node.read.short.cursor`, and in the midst of a step the key that it goes on after. */
function textOf({ group, node, read, short, cursor, after }: Place): string {
  const place = `${group}.${node}.${read}.${short ? 1 : 0}.${cursor}`
  return after === '' ? place : `${place}.${Buffer.from(after).toString('base64url')}`
}

function placeFrom(text: string | undefined): Place {
  const [group = '0', node = '0', read = '0', short = '0', cursor = '0', after = ''] = text?.split('.') ?? []
  return {
    group: Number(group),
    node: Number(node),
    read: Number(read),
    short: short === '1',
    cursor,
    after: Buffer.from(after, 'base64url').toString(),
  }
}

/** @param read 1 where this node was read to its end */
function nextNode(place: Place, read: 0 | 1, { members }: RedisNodes): Place {
  const { group, node, short } = place
  const all = place.read + read
  const enough = all >= majorityOf(members.length)
  const start = { cursor: '0', after: '' }
  if (!enough && node + 1 < members.length) return { group, node: node + 1, read: all, short, ...start }
  return { group: group + 1, node: 0, read: 0, short: short || !enough, ...start }
}
