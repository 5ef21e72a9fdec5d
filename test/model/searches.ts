/** The searches of the model, what each must reach, and the check of one search. */

import { expect } from 'vitest'
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

export type ModelSearch = {
  readonly name: string
  /** A search bounded by its steps has seen every shorter sequence. */
  readonly bounds: Bounds
  /** What must happen on some path: a search that never gets there proves nothing about it. */
  readonly reaches: readonly string[]
  /** More than some seconds: `model.long.test.ts`. */
  readonly long?: true
}

export const SEARCHES: readonly ModelSearch[] = [
  {
    name: 'two claimants, two leases that lapse',
    bounds: { ...least, lapses: 2 },
    reaches: ['takes over', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
  },
  {
    name: 'two claimants, three leases that lapse, one answer lost',
    bounds: { ...least, lapses: 3, lostAnswers: 1 },
    reaches: ['takes over', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
    long: true,
  },
  {
    name: 'two claimants, two leases that lapse, one message executed twice',
    bounds: { ...least, lapses: 2, duplicates: 1 },
    reaches: ['takes over', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
    long: true,
  },
  {
    name: 'two holders that renew, two leases that lapse',
    bounds: { ...least, lapses: 2, renewals: 1 },
    reaches: ['takes over', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
    long: true,
  },
  {
    name: 'two claimants that propose the same token, twice each',
    bounds: { ...least, firstTokens: 'equal', rounds: 2 },
    reaches: ['granted', 'adopted', 'fenced, and shown the winner', 'answered from the record'],
    long: true,
  },
  {
    name: 'three claimants, two leases that lapse: 12 steps',
    bounds: { ...least, claimants: 3, lapses: 2, stepsMax: 12 },
    reaches: ['takes over', 'recorded', 'adopts'],
    long: true,
  },
]

export function breaksNoPromise({ name, bounds, reaches }: ModelSearch): void {
  const { states, transitions, complete, found, reached } = explore(bounds)
  console.log(`${name}: ${states} states, ${transitions} transitions`)
  expect(found, found?.path.join('\n')).toBeUndefined()
  expect(complete).toBe(bounds.stepsMax === Number.POSITIVE_INFINITY)
  for (const one of reaches) expect(reached).toContain(one)
}
