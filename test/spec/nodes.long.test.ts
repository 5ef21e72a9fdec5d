/** What real nodes execute with a broken script is not a run of the model. */

import { expect, test } from 'vitest'
import { heldToTheModel } from './run-of-nodes.ts'

test.for([['release-without-owner'], ['unconditional-completion']])(
  'a run of real nodes with a broken script is not one of the model: %s',
  { timeout: 180_000 },
  async ([mutant]) => {
    const { rejected } = await heldToTheModel('--mutant', mutant ?? '')
    expect(rejected?.property).toBe('same_record')
  },
)
