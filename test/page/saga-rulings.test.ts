/** What the page lets an operator decide about a saga: the same as the saga kit does. */
import { expect, test } from 'vitest'
import { sagaRulings } from '../../src/page/saga-rulings.ts'

// Bug: the page offered neither for a saga that messages drive, unless it was parked or running: a running one with a dead step "goes on by
// itself", and one whose steps here are done could be turned back by the command line alone.
test.each([
  ['runner', 'parked', 0, true, true],
  ['runner', 'running', 0, false, true],
  ['runner', 'compensating', 0, false, false],
  ['runner', 'completed', 0, false, false],
  ['messages', 'parked', 0, true, true],
  ['messages', 'running', 1, true, true],
  ['messages', 'running', 0, false, true],
  ['messages', 'completed', 0, false, true],
  ['messages', 'compensating', 1, true, true],
  ['messages', 'compensated', 0, false, false],
] as const)('driven by %s, %s, with %i dead letters', (drivenBy, status, dead, canRetry, canCompensate) => {
  const { retry, compensate } = sagaRulings({ drivenBy, status, deadLetters: Array(dead).fill({}) })
  expect([retry === undefined, compensate === undefined]).toEqual([canRetry, canCompensate])
})
