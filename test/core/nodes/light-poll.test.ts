/** When a light poll of a node that votes suffices: it is the same process, under the same incarnation, and another process keeps its heartbeat. */

import { expect, test } from 'vitest'
import { HEARTBEAT_EVERY_MS } from '../../../src/core/nodes/continuity.ts'
import { nextPollMs, suffices } from '../../../src/core/nodes/light-polls.ts'
import type { LightPoll } from '../../../src/core/nodes/member.ts'

const KNOWN = { runId: 'a1', incarnation: '1:a1:n:5', cluster: { id: 'c', quarantineMs: 60_000 } }
const FRESH: LightPoll = {
  nodeMs: 9_000,
  incarnation: KNOWN.incarnation,
  quarantineMs: 60_000,
  heartbeat: { runId: 'a1', nodeMs: 8_900 },
}

test.each<[what: string, lightPoll: LightPoll, is: boolean]>([
  ['a fresh heartbeat', FRESH, true],
  ['a heartbeat that is due', { ...FRESH, nodeMs: 8_900 + HEARTBEAT_EVERY_MS }, false],
  [
    'a heartbeat of a time to come: its clock was set back',
    { ...FRESH, nodeMs: 8_900 - HEARTBEAT_EVERY_MS },
    false,
  ],
  ['a heartbeat of another process', { ...FRESH, heartbeat: { runId: 'b2', nodeMs: 8_900 } }, false],
  ['a heartbeat without a time', { ...FRESH, heartbeat: { runId: 'a1', nodeMs: Number.NaN } }, false],
  ['no heartbeat', { ...FRESH, heartbeat: undefined }, false],
  ['another incarnation', { ...FRESH, incarnation: '1:a1:m:7' }, false],
  ['a longer quarantine: a sidecar with longer leases joined', { ...FRESH, quarantineMs: 90_000 }, false],
  ['no incarnation', { ...FRESH, incarnation: undefined }, false],
])('%s', (_, lightPoll, is) => {
  expect(suffices(lightPoll, KNOWN)).toBe(is)
})

test.each([
  { lightPollsAreEnough: false, fraction: 0, ms: 750 },
  { lightPollsAreEnough: false, fraction: 0.5, ms: 1_000 },
  { lightPollsAreEnough: false, fraction: 1, ms: 1_250 },
  { lightPollsAreEnough: true, fraction: 0, ms: 1_312.5 },
  { lightPollsAreEnough: true, fraction: 0.5, ms: 1_750 },
  { lightPollsAreEnough: true, fraction: 1, ms: 2_187.5 },
])(
  'where polls are 1 s apart: light ones are enough: $lightPollsAreEnough, the fraction $fraction: the next is in $ms ms',
  (row) => {
    expect(nextPollMs(1_000, row.lightPollsAreEnough, row.fraction)).toBe(row.ms)
  },
)
