import { expect, test } from 'vitest'
import { NOTHING_COPIED, type Quarantine } from '../../../src/core/nodes/enrolment-rules.ts'
import { ToldCount } from '../../../src/core/nodes/told-count.ts'

const shown = (nonce: string, told?: number): Quarantine => ({
  runId: 'run',
  nonce,
  sinceNodeMs: 0,
  origin: 'forgot',
  progress: NOTHING_COPIED,
  ...(told === undefined ? {} : { told }),
})

test('a node that shows fewer calls than were known when it was asked lacks what the later ones told it', () => {
  const count = new ToldCount()
  count.learn('n1', 3)
  count.asked()(shown('n1', 2))
  expect([count.isLacking('n1'), count.isLacking('n2'), count.isLacking(undefined)]).toEqual([
    true,
    false,
    false,
  ])
  expect(count.known('n1')).toBe(3)
})

test('what another process told it counts as well', () => {
  const count = new ToldCount()
  count.asked()(shown('n1', 5))
  expect(count.known('n1')).toBe(5)
  count.asked()(shown('n1'))
  expect(count.isLacking('n1')).toBe(true)
})

test('calls that come while a look is under way prove nothing', () => {
  const count = new ToldCount()
  const saw = count.asked()
  count.learn('n1', 2)
  saw(shown('n1', 1))
  expect(count.isLacking('n1')).toBe(false)
  expect(count.known('n1')).toBe(2)
})

test('each quarantine counts for itself', () => {
  const count = new ToldCount()
  count.learn('n1', 3)
  count.asked()(shown('n2'))
  count.asked()(undefined)
  expect([count.known('n1'), count.known('n2'), count.isLacking('n2')]).toEqual([0, 0, false])
})
