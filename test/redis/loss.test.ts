/** A loss that is declared while one of the waiting nodes goes away. */

import { expect, test } from 'vitest'
import { declareLoss } from '../../src/core/nodes/shown-nodes.ts'
import type { RedisNodes } from '../../src/redis/nodes.ts'

/** Three nodes that forgot, of which these take the declaration; the others do not answer. */
function waiting(answering: readonly number[]) {
  const members = [0, 1, 2].map((at) => ({
    node: { name: `redis-${at}` },
    state: { kind: 'quarantined', facts: { at } },
  }))
  return {
    members,
    options: {},
    cluster: () => ({ id: 'c1', quarantineMs: 1_000 }),
    rejoiningNode: (_: unknown, { at }: { at: number }) => ({
      declare: async () => {
        if (!answering.includes(at)) throw new Error(`redis-${at} gave no answer within 1000 ms`)
        return true
      },
    }),
  } as unknown as RedisNodes
}

test.each([
  [[0, 1, 2], { kind: 'declared', clusterId: 'c1', nodes: ['redis-0', 'redis-1', 'redis-2'] }],
  [[0, 2], { kind: 'declared', clusterId: 'c1', nodes: ['redis-0', 'redis-2'] }],
  [[], { kind: 'too_few', answering: 0, required: 2 }],
])('where nodes %j take it, the command says which did', async (answering, expected) => {
  expect(await declareLoss(waiting(answering), 'c1', 'ann')).toEqual(expected)
})
