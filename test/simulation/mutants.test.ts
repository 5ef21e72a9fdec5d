/** The simulation proves itself: without one rule of the protocol it finds a broken promise. */

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { inSlice, isNoticed } from './kill.ts'
import { MUTANTS } from './mutants.ts'

test.for(MUTANTS)('the rule that $name takes out stands once in $file', ({ file, from }) => {
  expect(readFileSync(file, 'utf8').split(from)).toHaveLength(2)
})

describe('within 20,000 histories a checker notices that a rule is missing:', () => {
  test.for(inSlice)('$rule ($name)', { timeout: 600_000 }, isNoticed)
})
