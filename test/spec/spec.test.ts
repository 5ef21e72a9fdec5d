/** The specification under spec/, searched by Spin: nothing breaks it, and without one of its rules something does. */

import { describe, expect, test } from 'vitest'
import { SEARCHES } from './searches.ts'
import { search } from './spin.ts'

const short = SEARCHES.filter(({ long }) => long !== true)

describe('in every state of the record protocol every property holds:', () => {
  test.for(short.filter(({ breaks }) => breaks === undefined))(
    '$name: $about',
    { timeout: 300_000 },
    async (one) => {
      const { broken, exhaustive, states } = await search(one)
      expect(broken?.story).toBeUndefined()
      expect(exhaustive).toBe(true)
      // A model that got stuck would find nothing either.
      expect(states).toBeGreaterThan(10_000)
    },
  )
})

describe('with a rule taken out a property is found broken:', () => {
  test.for(short.filter(({ breaks }) => breaks !== undefined))(
    '$name: $about ($breaks)',
    { timeout: 300_000 },
    async (one) => {
      const { broken } = await search(one)
      expect(broken?.property).toBe(one.breaks)
      expect(broken?.story.length).toBeGreaterThan(5)
    },
  )
})
