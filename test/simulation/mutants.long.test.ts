/** The simulation proves itself: without one rule of the protocol it finds a broken promise. All other mutants. */

import { describe, test } from 'vitest'
import { isNoticed, others } from './kill.ts'

describe('within 20,000 histories a checker notices that a rule is missing:', () => {
  test.for(others)('$rule ($name)', { timeout: 1_200_000 }, isNoticed)
})
