/** Searches of the specification as tests. */

import { describe, expect, test } from 'vitest'
import type { Search } from './searches.ts'
import { search } from './spin.ts'

export function testsOfSearches(searches: readonly Search[]): void {
  describe('in every state of the record protocol every property holds:', () => {
    test.for(searches.filter(({ breaks }) => breaks === undefined))(
      '$name: $about',
      { timeout: 300_000 },
      async (one) => {
        const { broken, exhaustive, states } = await search(one)
        expect(broken?.story).toBeUndefined()
        expect(exhaustive).toBe(true)
        // A model that got stuck would find no fault either.
        expect(states).toBeGreaterThan(10_000)
      },
    )
  })

  describe('with a rule taken out a property is found broken:', () => {
    test.for(searches.filter(({ breaks }) => breaks !== undefined))(
      '$name: $about ($breaks)',
      { timeout: 300_000 },
      async (one) => {
        const { broken } = await search(one)
        expect(broken?.property).toBe(one.breaks)
        expect(broken?.story.length).toBeGreaterThan(5)
      },
    )
  })
}
