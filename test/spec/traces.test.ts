/** The code and the specification are held together: what nodes carried out and claimants concluded is what the model says. */

import { describe, test } from 'vitest'
import { areAccepted, isRejected } from './held-traces.ts'

test('each step of twenty simulated histories is a step of the model', () => areAccepted(20, 1_000), 300_000)

describe('a history of a broken build is not one of the model:', () => {
  test.for<[string, string]>([
    ['release-without-owner', 'same_answer'],
    ['minority-outcome-shown', 'shown_is_chosen'],
  ])('%s (%s)', { timeout: 300_000 }, isRejected)
})
