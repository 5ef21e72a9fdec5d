/** The simulation proves itself: without one rule of the protocol it finds a broken promise. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { MUTANTS as OF_SIDECARS } from '../faults/mutants.ts'
import { inSlice, isNoticed } from './kill.ts'
import { MUTANTS } from './mutants.ts'

test.for(MUTANTS)('the rule that $name takes out stands once in $file', ({ file, from }) => {
  expect(readFileSync(file, 'utf8').split(from)).toHaveLength(2)
})

/** Bug: three pages had three numbers, all of them of before. */
test('the README says how many builds are broken', () => {
  const page = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
  expect(page).toContain(`${MUTANTS.length} builds of the core and ${OF_SIDECARS.length} of the whole`)
})

test('docs/internals/simulation.md has a row for each mutant', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/internals/simulation.md'), 'utf8')
  const [, table = ''] = /^\| mutant \|.*\n((?:\|.*\n)+)/m.exec(page) ?? []
  const rows = [...table.matchAll(/^\| `([a-z-]+)`/gm)].map(([, name]) => name)
  expect(rows.sort()).toEqual(MUTANTS.map(({ name }) => name).sort())
})

describe('within 20,000 histories a checker notices that a rule is missing:', () => {
  test.for(inSlice)('$rule ($name)', { timeout: 600_000 }, isNoticed)
})
