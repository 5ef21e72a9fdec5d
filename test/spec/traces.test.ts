/** The code agrees with the specification: what nodes executed and claimants concluded is a run of the model. */

import { describe, test } from 'vitest'
import { areAccepted, isRejected } from './held-traces.ts'

test('each step of twenty simulated histories is a step of the model', () => areAccepted(20, 1_000), 300_000)

describe('a history of a broken build is not one of the model:', () => {
  test.for<[string, string]>([
    ['release-without-owner', 'same_answer'],
    ['minority-outcome-shown', 'shown_is_chosen'],
  ])('%s (%s)', { timeout: 300_000 }, isRejected)
})
