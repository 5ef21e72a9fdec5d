// The harness proves itself: builds with one rule taken out, on real nodes, are noticed; the build of production is not.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { kill, MUTANTS, openTrialStage, runTrial } from './mutants.ts'
import type { Stage } from './stage.ts'
import { TRIALS, type TrialName } from './trials.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openTrialStage()
}, 120_000)
afterAll(() => stage[Symbol.asyncDispose](), 60_000)

describe('the build of production comes through', () => {
  test.for(Object.keys(TRIALS) as TrialName[])('%s', { timeout: 90_000 }, async (name) => {
    expect(await runTrial(stage, name)).toEqual([])
    await stage.ready()
  })
})

describe('noticed is a build that', () => {
  test.for(MUTANTS)('$does ($name)', { timeout: 180_000 }, async (mutant) => {
    const by = await kill(stage, mutant)
    expect(by).not.toEqual([])
    console.info(`${mutant.name}: killed by ${by.join(', ')}`)
  })
})
