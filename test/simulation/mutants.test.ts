/** The simulation proves itself: with one rule of the protocol taken out, it finds a broken promise. */

import { describe, expect, test } from 'vitest'
import { MUTANTS } from './mutants.ts'
import { simulate } from './simulate.ts'

describe('taken out, it is missed by a checker within 20,000 histories:', () => {
  test.for(MUTANTS)('$rule ($name)', { timeout: 600_000 }, async ({ name, killedBy, only }) => {
    const among = only === undefined ? [] : ['--only', only]
    const { last, stdout, stderr } = await simulate('--mutant', name, '--histories', '20000', ...among)
    const { broken, histories } = last as { broken: readonly string[]; histories: number }
    const by = broken.filter((invariant) => killedBy.includes(invariant))
    expect(by, `${stdout.slice(-2_000)}${stderr}`).not.toEqual([])
    console.log(`${name}: killed by ${by.join(', ')} after ${histories} histories`)
  })
})
