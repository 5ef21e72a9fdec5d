// The harness proves itself: it notices builds without one rule, on real nodes, and not the build of production.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { inSlice, testsOfMutants } from './mutant-trials.ts'
import { MUTANTS } from './mutants.ts'

const taken = MUTANTS.flatMap(({ name, file, from, also }) =>
  [{ file, from }, ...(also === undefined ? [] : [also])].map((replaced) => ({ name, ...replaced })),
)

test.for(taken)('the rule that $name takes out stands once in $file', ({ file, from }) => {
  expect(readFileSync(file, 'utf8').split(from)).toHaveLength(2)
})

testsOfMutants(
  inSlice.map(({ trial }) => trial),
  inSlice,
)
