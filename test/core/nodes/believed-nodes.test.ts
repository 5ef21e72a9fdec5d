/** What a node shows past its end: no answer of its, whoever has the wrong clock. */

import { expect, test } from 'vitest'
import type { CoreEvent } from '../../../src/core/events.ts'
import { believedNodes } from '../../../src/core/nodes/believed-nodes.ts'
import type { NodeAnswer } from '../../../src/core/ports.ts'
import { encodeOutcome } from '../../../src/core/record/stored-outcome.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const END_MS = 1_000_000
const HOUR_MS = 3_600_000
const bytes = encodeOutcome({ kind: 'result', result: 'paid', completedAtWallMs: 0 }, 7, {
  atMs: END_MS,
  toleratedMs: 500,
})

/** @param clocks of five nodes, all of which show the outcome; the answers come in their order */
async function heard(ownMs: number, clocks: readonly number[]) {
  const events: CoreEvent[] = []
  const clock = new VirtualClock(ownMs)
  const known = { acceptedToken: 7, attempt: 1, fingerprint: 'f', outcome: bytes }
  const { nodes } = believedNodes(
    clocks.map((nodeMs, at) => ({
      name: `node-${at}`,
      execute: async (): Promise<NodeAnswer> => ({
        kind: 'completed',
        fence: 7,
        promised: false,
        ...known,
        nodeMs,
      }),
    })),
    { clock, events: { publish: (event) => void events.push(event) } },
  )
  const kinds: string[] = []
  for (const node of nodes) kinds.push((await node.execute({ kind: 'read', key: 'k' })).kind)
  return { believed: kinds.map((kind) => kind === 'completed'), events }
}

const [ALL, NONE] = [
  [true, true, true, true, true],
  [false, false, false, false, false],
]
const [IN_TIME, OVER] = [END_MS + 500, END_MS + 501]

test.each<[what: string, ownMs: number, clocks: readonly number[], believed: readonly boolean[]]>([
  ['until it is tolerated no more', IN_TIME, Array(5).fill(IN_TIME), ALL],
  ['and no longer', OVER, Array(5).fill(OVER), NONE],
  ['one node that says that it is earlier is not believed', OVER, [0, OVER, OVER, OVER, OVER], NONE],
  // Its own answer is the only one that goes by its clock.
  ['nor one that says that it is later', 0, [OVER + HOUR_MS, 0, 0, 0, 0], [false, true, true, true, true]],
  [
    'our own clock alone decides nothing once two nodes have answered',
    OVER + HOUR_MS,
    [0, 0, 0, 0, 0],
    [false, true, true, true, true],
  ],
  ['a clock of ours that is behind lets none live on', 0, Array(5).fill(OVER), NONE],
])('an outcome that says when it ends: %s', async (_, ownMs, clocks, believed) => {
  expect((await heard(ownMs, clocks)).believed).toEqual(believed)
})

test('who shows it is named, with how long it has been over', async () => {
  const { events } = await heard(OVER + 9_000, Array(5).fill(OVER + 9_000))
  expect(events[4]).toEqual({
    kind: 'outcome_damaged',
    recordKey: 'k',
    node: 'node-4',
    reason: 'it shows an outcome that was over 10 s ago',
  })
})
