// A run repeats from its seed. `run.long.test.ts` tests that it ends.
import { expect, test } from 'vitest'
import { FAULTS } from './faults.ts'
import { turnsOf } from './sequence.ts'

/** The order of a run, and the first throws of each fault, where each turn throws `asks` times. */
function sequence(seed: number, asks: number): readonly string[] {
  const turns = turnsOf(seed, FAULTS)
  return Array.from({ length: 2 * FAULTS.length }, () => {
    const { fault, fraction } = turns.next().value ?? {}
    const first = fraction?.()
    for (let more = 1; more < asks; more += 1) fraction?.()
    return `${fault?.id} ${first}`
  })
}

test('the order of the faults and the dice of each depend on the seed alone', () => {
  expect(sequence(20261122, 1)).toEqual(sequence(20261122, 9))
  expect(sequence(20261122, 1)).not.toEqual(sequence(20261123, 1))
  const ids = sequence(1, 1)
    .slice(0, FAULTS.length)
    .map((one) => one.split(' ')[0])
  expect(ids.toSorted()).toEqual(FAULTS.map(({ id }) => id).toSorted())
})
