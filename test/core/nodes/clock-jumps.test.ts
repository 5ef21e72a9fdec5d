/** What a node has forgotten by a jump of its clock: what it promised under an epoch of before, and nothing of after. */
import { expect, test } from 'vitest'
import { isForgotten } from '../../../src/core/nodes/clock-jumps.ts'
import { epochFor } from '../../../src/core/nodes/enrolment-rules.ts'

/** Between two looks a second apart the node's clock went on by 71 s, to 171,000. */
const LEAP = { fromMonoMs: 5_000, untilMonoMs: 6_000, aheadMs: 70_000, nodeMs: 171_000 }
/** Somebody who stood still for two minutes sees the same jump, and can't tell when it was. */
const LATE = { ...LEAP, fromMonoMs: 0, untilMonoMs: 120_000, nodeMs: 290_000 }

test.each([
  ['seen before the jump', LEAP, 5_500, 90_000, true],
  ['seen before the jump, whatever time it carries', LEAP, 5_500, 170_900, true],
  ['of before the jump, and seen only after it', LEAP, 6_000, 100_400, true],
  ['of before the jump by a minute, and seen long after it', LEAP, 60_000, 40_000, true],
  ['of after the jump', LEAP, 6_000, 170_900, false],
  ['of the first moment after the jump', LEAP, 6_000, 170_000, false],
  ['of a later enrolment', LEAP, 90_000, 250_000, false],
  ['of either side, as far as a gap longer than the jump tells', LATE, 120_000, 200_000, false],
  ['of before all that the gap could hide', LATE, 120_000, 160_000, true],
])('an epoch %s', (_, jump, firstSeenMonoMs, enrolledNodeMs, forgotten) => {
  expect(isForgotten(epochFor('run', 'nonce', enrolledNodeMs), firstSeenMonoMs, jump)).toBe(forgotten)
})

test('an epoch that carries no time is taken for one of after the jump where it was first seen after it', () => {
  expect(isForgotten('1:run:nonce', 6_000, LEAP)).toBe(false)
  expect(isForgotten('1:run:nonce', 5_999, LEAP)).toBe(true)
})
