// What the operator of a run chooses: a run in which it never did a thing is invalid.
import { expect, test } from 'vitest'
import { decisionAbout } from './load.ts'

const EACH = [0, 0.34, 0.67, 0.99]

/** With dice from 0 up to 1. */
function chosen(state: string, ...done: readonly string[]): readonly string[] {
  return [...new Set(EACH.map((dice) => decisionAbout(state, new Set(done), dice)))]
}

test('what an operator has never done to a live claim comes first', () => {
  expect(chosen('live', 'operator-complete', 'operator-forget')).toEqual(['operator-end'])
  expect(chosen('live', 'operator-end', 'operator-forget')).toEqual(['operator-complete'])
})

test('what it has done of everything is left to chance, and only a live claim is ended', () => {
  const all = ['operator-end', 'operator-complete', 'operator-forget']
  expect(chosen('live', ...all)).toEqual(all)
  expect(chosen('done')).toEqual(all.slice(1))
  expect(chosen('done', ...all)).toEqual(all.slice(1))
})
