import fc from 'fast-check'
import { expect, test } from 'vitest'
import { suggestedLeaseMs } from '../../../src/core/claims/lease.ts'
import { driftMs } from '../../../src/core/clock.ts'

test.each<[p99Ms: number, nodeDeadlineMs: number, leaseMs: number]>([
  // The example of docs/operations/capacity.md.
  [4_000, 1, 12_125],
  [4_000, 80, 12_205],
  // Faster than the nodes may be slow: 20 of their deadlines.
  [10, 80, 1_600],
  [0, 5, 100],
])('work of %i ms at p99 and nodes of %i ms need a lease of %i ms', (p99Ms, deadlineMs, leaseMs) => {
  expect(suggestedLeaseMs(p99Ms, deadlineMs)).toBe(leaseMs)
})

test('what a holder may count on is three times the p99 and a round trip, and hardly more is taken than that', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 3_600_000 }),
      fc.integer({ min: 5, max: 10_000 }),
      (p99Ms, nodeMs) => {
        const leaseMs = suggestedLeaseMs(p99Ms, nodeMs)
        const needed = 3 * p99Ms + nodeMs
        expect(leaseMs - driftMs(leaseMs)).toBeGreaterThanOrEqual(needed)
        expect(leaseMs).toBeLessThanOrEqual(Math.max(needed * 1.011 + 5, 20 * nodeMs + 5))
      },
    ),
  )
})
