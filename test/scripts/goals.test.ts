/** When a benchmark says that a goal is reached, and when it refuses to say. */
import { expect, test } from 'vitest'
import { judge } from '../../bench/support/goals.ts'

const steady = (value: number) => [value - 0.01, value, value, value, value + 0.01]

test.each([
  ['at most', 0.65, steady(0.6), 'reached'],
  ['at most', 0.65, steady(0.65), 'reached'],
  ['at most', 0.65, steady(0.7), 'not reached'],
  ['at least', 2, steady(2.5), 'reached'],
  ['at least', 2, steady(1.5), 'not reached'],
  // One round beside something else says nothing about the others.
  ['at most', 0.65, [...steady(0.6), 9], 'reached'],
  ['at least', 2, [...steady(2.5), 0.1], 'reached'],
  // The middle half stands on both sides of the goal: another run might say the opposite.
  ['at most', 0.65, [0.5, 0.55, 0.6, 0.7, 0.8], 'too noisy to judge'],
  ['at least', 2, [1, 1.5, 2.2, 2.5, 3], 'too noisy to judge'],
] as const)('%s %f, rounds %j: %s', (bound, goal, pairs, verdict) => {
  expect(judge({ bound, goal, pairs })).toMatchObject({ verdict })
})

test('a goal without a round is a mistake of the benchmark', () => {
  expect(() => judge({ bound: 'at most', goal: 1, pairs: [] })).toThrow('at least one round')
})
