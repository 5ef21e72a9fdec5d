/** The campaign of `simulation.test.ts`, long enough that everything that must be seen is seen. */

import { expect, test } from 'vitest'
import { simulate } from './simulate.ts'

/** Fixed as there; `npm run simulate -- --from` runs other seeds. */
const from = Number(process.env.FENCEPOST_TEST_SEED ?? 1)

test('20,000 histories break no promise, and everything that must be seen is seen', async () => {
  console.log(`the simulation begins with seed ${from} (FENCEPOST_TEST_SEED)`)
  const { last, stdout } = await simulate('--histories', '20000', '--from', String(from))
  expect(last, stdout).toMatchObject({ histories: 20_000, seed: null, broken: [], unseen: [] })
}, 1_800_000)
