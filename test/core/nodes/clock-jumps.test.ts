/** A jump of its clock makes a node forget what it promised under an incarnation of before the jump, and only that. */

import { expect, test } from 'vitest'
import { isForgotten } from '../../../src/core/nodes/clock-samples.ts'
import { incarnationFor } from '../../../src/core/nodes/rejoin-rules.ts'

/** Between two polls a second apart the node's clock advanced by 71 s, to 171,000. */
const JUMP = { fromMonoMs: 5_000, untilMonoMs: 6_000, aheadMs: 70_000, nodeMs: 171_000 }
/** A sidecar that was suspended for two minutes sees the same jump and can not tell when it happened. */
const LATE = { ...JUMP, fromMonoMs: 0, untilMonoMs: 120_000, nodeMs: 290_000 }

test.each([
  ['seen before the jump', JUMP, 5_500, 90_000, true],
  ['seen before the jump, whatever time it names', JUMP, 5_500, 170_900, true],
  ['of before the jump, first seen after it', JUMP, 6_000, 100_400, true],
  ['of a minute before the jump, first seen long after it', JUMP, 60_000, 40_000, true],
  ['of after the jump', JUMP, 6_000, 170_900, false],
  ['of the first moment after the jump', JUMP, 6_000, 170_000, false],
  ['of a later rejoin', JUMP, 90_000, 250_000, false],
  ['of either side, where the gap is longer than the jump', LATE, 120_000, 200_000, false],
  ['of before anything that the gap can hide', LATE, 120_000, 160_000, true],
])('an incarnation %s', (_, jump, firstSeenMonoMs, joinedNodeMs, forgotten) => {
  expect(isForgotten(incarnationFor('run', 'nonce', joinedNodeMs), firstSeenMonoMs, jump)).toBe(forgotten)
})

test('an incarnation without a time counts as one of after the jump where it was first seen after it', () => {
  expect(isForgotten('1:run:nonce', 6_000, JUMP)).toBe(false)
  expect(isForgotten('1:run:nonce', 5_999, JUMP)).toBe(true)
})
