// What one node does with those who stand in a line.
import { expect, test } from 'vitest'
import { ALIVE_MAX_MS, type Line, type Standing, standIn } from '../../../src/core/claims/line.ts'

const NOW = 1_000_000
const [A, B] = ['a'.repeat(16), 'b'.repeat(16)]
const says = (process: string, more: Partial<Standing> = {}): Standing => ({
  process,
  first: 0,
  last: 0,
  draws: 0,
  openTo: 0,
  aliveMs: 2_000,
  ...more,
})

/** The line after all of them have spoken, at one moment each. */
function lineOf(...spoken: readonly Standing[]): Line | undefined {
  return spoken.reduce<Line | undefined>((line, standing) => standIn(line, standing, NOW).line, undefined)
}

test('whoever comes is told the largest number, and who is first of the others', () => {
  const line = lineOf(says(A, { first: 3, last: 7 }), says(B, { first: 5, last: 6 }))
  const { answer } = standIn(line, says('c'.repeat(16), { draws: 2 }), NOW)
  expect(answer).toEqual({ highest: 7, ahead: { number: 3, process: A }, openTo: 0, nodeMs: NOW })
})

test('who draws stands behind everybody until its number is known', () => {
  const line = lineOf(says(A, { first: 3, last: 7 }), says(B, { draws: 2 }))
  expect(line?.places.get(B)).toEqual({ first: 8, last: 9, untilNodeMs: NOW + 2_000 })
})

test('of two with one number the smaller name is first', () => {
  const line = lineOf(says(B, { first: 4, last: 4 }), says(A, { first: 4, last: 4 }))
  expect(standIn(line, says('c'.repeat(16)), NOW).answer.ahead).toEqual({ number: 4, process: A })
})

test('a process says all of itself each time; with nothing to say it leaves, and the last one ends the line', () => {
  const one = lineOf(says(A, { first: 1, last: 9 }), says(A, { first: 8, last: 9 }), says(B, { draws: 1 }))
  expect(one?.places.get(A)).toMatchObject({ first: 8, last: 9 })
  expect(standIn(one, says(A), NOW).line?.places.has(A)).toBe(false)
  expect(standIn(standIn(one, says(A), NOW).line, says(B), NOW).line).toBeUndefined()
})

test('who is not heard of for so long is gone, and so is who stands too far in the future', () => {
  const line = lineOf(says(A, { first: 1, last: 1 }))
  const look = (atMs: number) => standIn(line, says(B, { draws: 1 }), atMs).answer.ahead
  expect(look(NOW + 1_999)).toEqual({ number: 1, process: A })
  expect(look(NOW + 2_000)).toBeUndefined()
  expect(look(NOW - ALIVE_MAX_MS)).toBeUndefined()
})

test('numbers up to the one that is open need no turn, and new ones lie above it', () => {
  const line = lineOf(says(A, { first: 2, last: 5 }), says(B, { first: 3, last: 3, openTo: 9 }))
  expect(standIn(line, says(A, { first: 2, last: 5 }), NOW).answer).toMatchObject({ highest: 9, openTo: 9 })
})
