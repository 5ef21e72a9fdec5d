/** When a glance at a node that votes suffices: it is the same process, under the same epoch, and another process keeps its heartbeat. */

import { expect, test } from 'vitest'
import { HEARTBEAT_EVERY_MS } from '../../../src/core/nodes/continuity.ts'
import { nextLookMs, suffices } from '../../../src/core/nodes/glances.ts'
import type { Glance } from '../../../src/core/nodes/member.ts'

const KNOWN = { runId: 'a1', epoch: '1:a1:n:5', cluster: { id: 'c', quarantineMs: 60_000 } }
const FRESH: Glance = {
  nodeMs: 9_000,
  epoch: KNOWN.epoch,
  quarantineMs: 60_000,
  heartbeat: { runId: 'a1', nodeMs: 8_900 },
}

test.each<[what: string, glance: Glance, is: boolean]>([
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
  ['another epoch', { ...FRESH, epoch: '1:a1:m:7' }, false],
  ['a longer quarantine: a sidecar with longer leases joined', { ...FRESH, quarantineMs: 90_000 }, false],
  ['no epoch', { ...FRESH, epoch: undefined }, false],
])('%s', (_, glance, is) => {
  expect(suffices(glance, KNOWN)).toBe(is)
})

test.each([
  { glancesAreEnough: false, fraction: 0, ms: 750 },
  { glancesAreEnough: false, fraction: 0.5, ms: 1_000 },
  { glancesAreEnough: false, fraction: 1, ms: 1_250 },
  { glancesAreEnough: true, fraction: 0, ms: 1_312.5 },
  { glancesAreEnough: true, fraction: 0.5, ms: 1_750 },
  { glancesAreEnough: true, fraction: 1, ms: 2_187.5 },
])(
  'where looks are 1 s apart: glances are enough: $glancesAreEnough, the fraction $fraction: the next is in $ms ms',
  (row) => {
    expect(nextLookMs(1_000, row.glancesAreEnough, row.fraction)).toBe(row.ms)
  },
)
