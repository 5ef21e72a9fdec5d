/**
 * Walks over the keys of the nodes for an operator: a bounded share a call, and a cursor for the next.
 *
 *   group 0: node 0 … a majority's worth of nodes, then group 1, …
 *
 * Owns the order and the bound. Two majorities share a node, so a walk over a majority of the nodes has seen every record
 * that a majority has, some of them more than once. A node that can't be read now is skipped, and what only it and nodes
 * beyond the walk show is missed; the verdict on each record is the quorum's.
 */

import type { Clock } from '../core/clock.ts'
import { pause } from '../core/retry.ts'
import { majorityOf } from '../core/units.ts'
import type { SearchStep } from '../http/operator/handlers.ts'
import { OPERATOR_LIMITS } from '../http/operator/schemas.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import { scanKeys, scanRecords } from '../redis/record-scan.ts'

/** Of a thousand keys each. */
const STEPS_MAX = 50
/** A step takes some milliseconds of a node at most; requests get the rest. */
const STEP_PAUSE_MS = 5

type Place = { readonly group: number; readonly node: number; readonly cursor: string }
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
      if (nodes === undefined) return { records: [...found] }
      try {
        const { found: more, cursor } = await visit(nodes, place.node, place.cursor)
        for (const recordKey of more) found.add(recordKey)
        place = cursor === '0' ? nextNode(place, nodes) : { ...place, cursor }
      } catch {
        place = nextNode(place, nodes)
      }
      await pause(clock, STEP_PAUSE_MS)
    }
    const end = groups[place.group] === undefined
    return { records: [...found], ...(end ? {} : { cursor: `${place.group}.${place.node}.${place.cursor}` }) }
  }

  return {
    search: (digits: string, from: string | undefined) =>
      walk(from, async (nodes, index, cursor) => {
        const step = await scanKeys(nodes, index, cursor)
        return { ...step, found: step.found.filter((key) => key.slice(-64).startsWith(digits)) }
      }),
    list: (state: 'live' | 'lapsed', from: string | undefined) =>
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

function placeFrom(text: string | undefined): Place {
  const [group = '0', node = '0', cursor = '0'] = text?.split('.') ?? []
  return { group: Number(group), node: Number(node), cursor }
}

function nextNode({ group, node }: Place, nodes: RedisNodes): Place {
  const last = node + 1 >= majorityOf(nodes.members.length)
  return last ? { group: group + 1, node: 0, cursor: '0' } : { group, node: node + 1, cursor: '0' }
}
