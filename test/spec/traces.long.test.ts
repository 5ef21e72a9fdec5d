/**
 * The code agrees with the specification: what nodes executed and claimants concluded is a run of the model. All but
 * the slice in `traces.test.ts`.
 */

import { describe, test } from 'vitest'
import { areAccepted, isRejected } from './held-traces.ts'

test(
  'each step of a hundred simulated histories is a step of the model',
  () => areAccepted(100, 5_000),
  300_000,
)

describe('a history of a broken build is not one of the model:', () => {
  test.for<[string, string, number?]>([
    ['renew-past-larger-fence', 'same_answer'],
    ['release-forgets-fence', 'same_record'],
    ['release-forgets-attempt', 'same_record'],
    ['claim-below-fence', 'same_answer'],
    ['claim-over-live-lease', 'same_answer'],
    ['attempt-not-counted', 'same_attempt'],
    ['mismatch-ignored', 'same_answer'],
    ['quorum-of-two', 'granted_by_majority'],
    ['quarantined-answers-count', 'granted_by_majority', 20],
  ])('%s (%s)', { timeout: 300_000 }, isRejected)
})
