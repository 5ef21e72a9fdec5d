/** `clock.enforce`: while most clocks are further off than tolerated, no claim reaches a node, and everything else does. */
import { expect, test } from 'vitest'
import { SILENT } from '../../../src/core/events.ts'
import { watchNodeClocks } from '../../../src/core/nodes/node-clocks.ts'
import type { NodeAnswer, RecordNode } from '../../../src/core/ports.ts'
import type { RecordCommand } from '../../../src/core/record/record.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const CLAIM = {
  kind: 'claim',
  key: 'k',
  token: 1,
  owner: 'o',
  leaseMs: 1_000,
  fingerprint: 'f',
  keyTtlMs: 1_000,
} as const
const OTHERS: readonly RecordCommand[] = [
  { kind: 'read', key: 'k' },
  { kind: 'release', key: 'k', token: 1, owner: 'o', keyTtlMs: 1_000 },
]

/** Nodes whose clocks are that far ahead; each poll has shown them. */
function watched(aheadMs: readonly number[], enforce: boolean) {
  const clock = new VirtualClock()
  const asked: string[] = []
  const nodes = aheadMs.map(
    (ahead, index): RecordNode => ({
      name: `redis-${index}`,
      execute: async ({ kind }) => {
        asked.push(kind)
        const nodeMs = clock.wallMs() + ahead
        const answer: NodeAnswer =
          kind === 'claim' ? { kind: 'granted', attempt: 1, nodeMs } : { kind: 'released', nodeMs }
        return answer
      },
    }),
  )
  const watch = watchNodeClocks({
    nodes,
    clock,
    events: SILENT,
    suspendMs: () => 10_000,
    maxSkewMs: 50,
    enforce,
    toleratedStepMs: 1_000_000,
  })
  const poll = () => {
    for (const [index, ahead] of aheadMs.entries()) {
      const at = clock.monoMs()
      watch.saw(index, { nodeMs: clock.wallMs() + ahead, sentMonoMs: at, receivedMonoMs: at }, clock.wallMs())
    }
  }
  poll()
  return { watch, asked }
}

test.each<[aheadMs: readonly number[], enforce: boolean, sent: boolean]>([
  [[0, 0, 0], true, true],
  [[50, -50, 50], true, true],
  [[51, 0, 0], true, true],
  [[51, 51, 0], true, false],
  [[-51, 51, 0], true, false],
  [[5_000, 5_000, 5_000], true, false],
  [[5_000, 5_000, 5_000], false, true],
])('clocks ahead by %j ms, enforced %s: a claim is sent %s', async (aheadMs, enforce, sent) => {
  const { watch, asked } = watched(aheadMs, enforce)
  const answers = await Promise.all(watch.nodes.map((node) => node.execute(CLAIM)))
  expect(asked).toEqual(sent ? ['claim', 'claim', 'claim'] : [])
  // Surely not executed, so nothing has to be withdrawn; and no sign of a node that is gone.
  if (!sent)
    for (const answer of answers)
      expect(answer).toMatchObject({ kind: 'unreachable', reason: 'refused', answered: true })
})

test('what a holder sends, and reads, are never refused for a clock', async () => {
  const { watch, asked } = watched([5_000, 5_000, 5_000], true)
  for (const command of OTHERS) await watch.nodes[0]?.execute(command)
  expect(asked).toEqual(OTHERS.map(({ kind }) => kind))
})
