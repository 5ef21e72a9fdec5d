/** The simulation proves itself: with one rule of the protocol taken out, it finds a broken promise. All but `mutants.test.ts` has. */

import { describe, test } from 'vitest'
import { isNoticed, others } from './kill.ts'

describe('within 20,000 histories a checker notices that a rule is missing:', () => {
  test.for(others)('$rule ($name)', { timeout: 600_000 }, isNoticed)
})
