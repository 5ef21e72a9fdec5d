import { expect, test } from 'vitest'
import {
  admit,
  type Breaker,
  type BreakerRules,
  CLOSED,
  report,
} from '../../../src/core/nodes/quorum-breaker.ts'

const RULES: BreakerRules = { failures: 3, failingForMs: 0, openMs: 100, openMaxMs: 350 }
const LASTING: BreakerRules = { ...RULES, failingForMs: 1_000 }

const failing = (failures: number, failingSinceMonoMs = 0): Breaker => ({
  kind: 'closed',
  failures,
  failingSinceMonoMs,
})
const open = (untilMonoMs: number, trips = 0): Breaker => ({ kind: 'open', untilMonoMs, trips })
const halfOpen = (trips = 0): Breaker => ({ kind: 'half_open', trips })

test.each<[before: Breaker, atMs: number, admitted: string, after: Breaker]>([
  [CLOSED, 0, 'yes', CLOSED],
  [failing(2), 0, 'yes', failing(2)],
  [open(100), 99, 'no', open(100)],
  // The first call after the open time is the probe; all others are refused until it is answered.
  [open(100, 2), 100, 'probe', halfOpen(2)],
  [halfOpen(), 100, 'no', halfOpen()],
])('%j is asked at %i: %s, then %j', (before, atMs, admitted, after) => {
  expect(admit(before, atMs)).toEqual({ admitted, breaker: after })
})

// One row: the state before, how the call was admitted, whether it was answered, when, by which rules; the state after.
test.each<[Breaker, 'yes' | 'probe', boolean, number, BreakerRules, Breaker]>([
  [CLOSED, 'yes', true, 5, RULES, CLOSED],
  [CLOSED, 'yes', false, 5, RULES, failing(1, 5)],
  [failing(2, 5), 'yes', true, 9, RULES, CLOSED],
  [failing(2, 5), 'yes', false, 9, RULES, open(9 + 50)],
  // Many failures in a moment are not yet an outage where the rules demand that it lasts.
  [failing(9, 5), 'yes', false, 900, LASTING, failing(10, 5)],
  [failing(10, 5), 'yes', false, 1_005, LASTING, open(1_055)],
  // A call from before it opened no longer counts.
  [open(100), 'yes', true, 50, RULES, open(100)],
  [open(100), 'yes', false, 50, RULES, open(100)],
  [halfOpen(), 'yes', true, 100, RULES, halfOpen()],
  // The probe decides: closed, or open for twice as long, up to a limit.
  [halfOpen(), 'probe', true, 100, RULES, CLOSED],
  [halfOpen(0), 'probe', false, 100, RULES, open(200, 1)],
  [halfOpen(1), 'probe', false, 100, RULES, open(275, 2)],
  [halfOpen(7), 'probe', false, 100, RULES, open(275, 8)],
])('%j, asked as %s, answered %s at %i by %j: %j', (before, asked, answered, atMs, rules, after) => {
  // The fraction 0 is the shortest time: half of the ceiling.
  expect(report(before, asked, answered, atMs, 0, rules)).toEqual(after)
})

test('breakers that opened together probe at different times, never later than their limit', () => {
  const untils = [0, 0.25, 0.5, 0.999].map((fraction) => {
    const after = report(halfOpen(20), 'probe', false, 0, fraction, RULES)
    return after.kind === 'open' ? after.untilMonoMs : 0
  })
  expect(new Set(untils).size).toBe(4)
  expect(Math.max(...untils)).toBeLessThanOrEqual(350)
})
