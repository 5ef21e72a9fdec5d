/** The scenes and the broken builds as tests, on one stage per file; and which builds every test run takes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { kill, openTrialStage, runTrial } from './kill.ts'
import { MUTANTS, type Mutant } from './mutants.ts'
import type { Stage } from './stage.ts'
import type { TrialName } from './trials.ts'

/** One rule in Lua, and one in the sidecar; `mutants.long.test.ts` takes the others, and every scene. */
const SLICE: readonly string[] = ['release-without-owner', 'no-tenant-in-the-key']

export const [inSlice, others] = [
  MUTANTS.filter(({ name }) => SLICE.includes(name)),
  MUTANTS.filter(({ name }) => !SLICE.includes(name)),
]

export function testsOfMutants(scenes: readonly TrialName[], mutants: readonly Mutant[]): void {
  let stage: Stage
  beforeAll(async () => {
    stage = await openTrialStage()
  })
  afterAll(() => stage[Symbol.asyncDispose](), 60_000)

  describe('the build of production comes through', () => {
    test.for(scenes)('%s', { timeout: 200_000 }, async (name) => {
      expect(await runTrial(stage, name)).toEqual([])
      await stage.ready()
    })
  })

  describe('noticed is a build that', () => {
    test.for(mutants)('$does ($name)', { timeout: 500_000 }, async (mutant) => {
      const by = await kill(stage, mutant)
      expect(by).not.toEqual([])
      console.info(`${mutant.name}: killed by ${by.join(', ')}`)
    })
  })
}
