/** When a benchmark says that a goal is reached, and when it refuses to say. */
import { expect, test } from 'vitest'
import { judge } from '../../bench/support/verdict.ts'

const steady = (value: number) => [value - 0.01, value, value, value, value + 0.01]
const NOISE = 'not judged: the noise is larger than the difference'

test.each([
  ['at most', 0.65, steady(0.6), 'reached'],
  ['at most', 0.65, steady(0.65), 'reached'],
  ['at most', 0.65, steady(0.7), 'not reached'],
  ['at least', 2, steady(2.5), 'reached'],
  ['at least', 2, steady(2), 'reached'],
  ['at least', 2, steady(1.5), 'not reached'],
  // One round beside something else says nothing about the others.
  ['at most', 0.65, [...steady(0.6), 9], 'reached'],
  ['at least', 2, [...steady(2.5), 0.1], 'reached'],
  // The middle half stands on both sides of the goal: another run might say the opposite.
  ['at most', 0.65, [0.5, 0.55, 0.6, 0.7, 0.8], NOISE],
  ['at most', 0.65, [0.5, 0.6, 0.7, 0.75, 0.8], NOISE],
  ['at least', 2, [1, 1.5, 2.2, 2.5, 3], NOISE],
  ['at least', 2, [1, 1.5, 1.8, 2.5, 3], NOISE],
  // The same spread farther from the goal decides.
  ['at most', 1, [0.5, 0.55, 0.6, 0.7, 0.8], 'reached'],
  ['at most', 0.4, [0.5, 0.55, 0.6, 0.7, 0.8], 'not reached'],
  // Rounds without a spread, or without a figure.
  ['at most', 1, [], 'not judged: 0 rounds, at least 3 are needed'],
  ['at most', 1, [0.1, 0.1], 'not judged: 2 rounds, at least 3 are needed'],
  ['at most', 1, [0.1, 0.1, 0.1], 'reached'],
  ['at most', 1, [0.1, Number.NaN, 0.1], 'not judged: a round has no figure'],
  ['at most', 1, [0.1, 0.1, Number.POSITIVE_INFINITY], 'not judged: a round has no figure'],
] as const)('%s %f, rounds %j: %s', (bound, goal, rounds, expected) => {
  const { verdict } = judge({ bound, goal }, rounds)
  expect(verdict.kind === 'not judged' ? `${verdict.kind}: ${verdict.because}` : verdict.kind).toBe(expected)
})

test('the figure is the median, and its spread the middle half', () => {
  expect(judge({ bound: 'at most', goal: 1 }, [9, 1, 3, 2, 4])).toMatchObject({
    median: 3,
    lower: 2,
    upper: 4,
    rounds: 5,
  })
})
