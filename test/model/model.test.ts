/** Every interleaving of a few claimants on three nodes, under the rules of production: no promise is broken in any. */

import { describe, test } from 'vitest'
import { breaksNoPromise, SEARCHES } from './searches.ts'

describe('no promise is broken in any interleaving of', () => {
  test.for(SEARCHES.filter(({ long }) => long !== true))('$name', { timeout: 600_000 }, breaksNoPromise)
})
