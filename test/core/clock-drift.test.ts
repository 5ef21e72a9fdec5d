import { expect, test } from 'vitest'
import { driftMs } from '../../src/core/clock.ts'

test.each([
  [30_000, 302],
  [1_000, 12],
  [100, 3],
  [1, 3],
])('of %i ms, %i ms are kept for drift and for the granularity of expiry', (leaseMs, drift) => {
  expect(driftMs(leaseMs)).toBe(drift)
})
