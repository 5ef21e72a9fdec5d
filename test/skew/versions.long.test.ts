/** The short version of `npm run test:skew`. The slice beside it tries the same tables on two sidecars of this tree. */
import { expect, test } from 'vitest'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { compareVersions } from './compare.ts'
import { type EarlierBuild, earlierBuild, earlierVersion } from './earlier-version.ts'

const { name } = earlierVersion()

test(`beside ${name}, on the same nodes, there and back: nothing is executed twice, nothing recorded is lost`, {
  timeout: 600_000,
}, async () => {
  const earlier: EarlierBuild = await earlierBuild()
  const { failures, invalid, counts } = await compareVersions({
    earlier,
    ownMain: MAIN_PROGRAM,
    seed: 20261123,
    operations: 80,
    tell: (line) => console.log(line),
  })
  expect(failures).toEqual([])
  expect(invalid).toEqual([])
  // It was load, and everything was tried: an empty table would prove nothing.
  expect(counts.operations).toBeGreaterThan(400)
  expect(counts.askedAgain).toBeGreaterThan(50)
  expect(counts.crossings).toBeGreaterThan(60)
  expect(counts.clientCalls).toBe(14)
  expect(counts.sagaSteps).toBe(11)
})
