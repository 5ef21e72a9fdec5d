/** Simulates one broken build until a checker notices it; and which builds every test run takes. */

import { expect } from 'vitest'
import { MUTANTS, type Mutant } from './mutants.ts'
import { simulate } from './simulate.ts'

/** One per part of the protocol, noticed within a second or two; `mutants.long.test.ts` takes all others. */
const SLICE: readonly string[] = [
  'complete-without-fence',
  'minority-outcome-shown',
  'quorum-of-two',
  'no-copying',
  'fail-open-unasked',
]

export const [inSlice, others] = [
  MUTANTS.filter(({ name }) => SLICE.includes(name)),
  MUTANTS.filter(({ name }) => !SLICE.includes(name)),
]

export async function isNoticed({ name, killedBy, only, firstSeed = 1 }: Mutant): Promise<void> {
  const among = only === undefined ? [] : ['--only', only]
  const search = ['--from', String(firstSeed), '--histories', '20000', ...among]
  const { last, stdout, stderr } = await simulate('--mutant', name, ...search)
  const { broken, histories } = last as { broken: readonly string[]; histories: number }
  const by = broken.filter((invariant) => killedBy.includes(invariant))
  expect(by, `${stdout.slice(-2_000)}${stderr}`).not.toEqual([])
  console.log(`${name}: killed by ${by.join(', ')} after ${histories} histories`)
}
