/** Every interleaving of a few claimants on three nodes, under the rules of production: no promise is broken in any. */

import { describe, expect, test } from 'vitest'
import { type Bounds, explore } from './explore.ts'

const least: Bounds = {
  claimants: 2,
  rounds: 1,
  firstTokens: 'rising',
  duplicates: 0,
  lostAnswers: 0,
  lapses: 0,
  renewals: 0,
  stepsMax: Number.POSITIVE_INFINITY,
}

/** Where a search is bounded by its steps, everything shorter has been seen. */
const SEARCHES: readonly {
  readonly name: string
  readonly bounds: Bounds
  readonly reaches: readonly string[]
}[] = [
  {
    name: 'two claimants, three leases that lapse, one answer lost',
    bounds: { ...least, lapses: 3, lostAnswers: 1 },
    reaches: ['takes over', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
  },
  {
    name: 'two claimants, two leases that lapse, one message executed twice',
    bounds: { ...least, lapses: 2, duplicates: 1 },
    reaches: ['takes over', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
  },
  {
    name: 'two holders that renew, two leases that lapse',
    bounds: { ...least, lapses: 2, renewals: 1 },
    reaches: ['takes over', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
  },
  {
    name: 'two claimants that propose the same token, twice each',
    bounds: { ...least, firstTokens: 'equal', rounds: 2 },
    reaches: ['granted', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
  },
  {
    name: 'three claimants, two leases that lapse: 12 steps',
    bounds: { ...least, claimants: 3, lapses: 2, stepsMax: 12 },
    reaches: ['takes over', 'recorded', 'adopts'],
  },
]

describe('in every interleaving of', () => {
  let sum = 0
  test.for(SEARCHES)('$name', { timeout: 600_000 }, ({ name, bounds, reaches }) => {
    const { states, transitions, complete, found, reached } = explore(bounds)
    sum += states
    console.log(`${name}: ${states} states, ${transitions} transitions, ${sum} states so far`)
    expect(found, found?.path.join('\n')).toBeUndefined()
    expect(complete).toBe(bounds.stepsMax === Number.POSITIVE_INFINITY)
    for (const one of reaches) expect(reached).toContain(one)
  })
})
