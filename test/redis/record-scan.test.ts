/** How a node's records are read: the walk itself meets real nodes in `coordination.test.ts`. */
import { expect, test } from 'vitest'
import type { NodeRecord } from '../../src/core/record/record.ts'
import type { RedisNodes } from '../../src/redis/nodes.ts'
import { scanRecords } from '../../src/redis/record-scan.ts'

const RECORD = { state: 'released' } as unknown as NodeRecord

function nodesWith(keys: readonly string[], snapshotOf: (key: string) => unknown) {
  const calls: number[] = []
  const node = {
    keys: async () => ({ keys, cursor: '7' }),
    inspect: async (asked: readonly string[]) => {
      calls.push(asked.length)
      return { voting: true, snapshots: asked.map(snapshotOf) }
    },
  }
  const member = { node: { name: 'node-0' }, state: { kind: 'voting', facts: {} } }
  return { nodes: { members: [member], rejoiningNode: () => node } as unknown as RedisNodes, calls }
}

// Bug: all records of a step were read in one call. A node stood still for 15 to 19 ms meanwhile, and the sidecar for as long over its reply.
test('the records of a step are read a hundred at a time, and all of them', async () => {
  const keys = Array.from({ length: 250 }, (_, index) => `dedup:shop:${index}`)
  const { nodes, calls } = nodesWith(keys, () => ({ record: RECORD, ttlMs: 1, nodeMs: 5 }))
  const { found, cursor } = await scanRecords(nodes, 0, '0')
  expect(calls).toEqual([100, 100, 50])
  expect(found).toEqual(keys.map((recordKey) => ({ recordKey, record: RECORD, nodeMs: 5 })))
  expect(cursor).toBe('7')
})

test('a record that is gone by then, or is damaged, is left out', async () => {
  const snapshots = new Map<string, unknown>([
    ['a', { record: RECORD, ttlMs: 1, nodeMs: 5 }],
    ['b', undefined],
    ['c', 'damaged'],
    ['d', { record: RECORD, ttlMs: 1, nodeMs: 5 }],
  ])
  const { nodes } = nodesWith([...snapshots.keys()], (key) => snapshots.get(key))
  const { found } = await scanRecords(nodes, 0, '0')
  expect(found.map(({ recordKey }) => recordKey)).toEqual(['a', 'd'])
})

test('where a step finds no key, the node is asked for no record', async () => {
  const { nodes, calls } = nodesWith([], () => undefined)
  expect(await scanRecords(nodes, 0, '0')).toEqual({ found: [], cursor: '7' })
  expect(calls).toEqual([])
})
