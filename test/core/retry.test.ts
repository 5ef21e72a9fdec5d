import { expect, test } from 'vitest'
import { retryAfterMsOf } from '../../src/core/retry.ts'

const LEASE_MS = 30_000

// A second is the smallest step of Retry-After, and what an expired lease leaves is free at once.
test.each<[heldForMs: number | undefined, leftMs: number, retryAfterMsOf: number]>([
  [undefined, LEASE_MS, LEASE_MS],
  [-40, LEASE_MS, 1_000],
  [0, LEASE_MS, 1_000],
  [700, LEASE_MS, 1_400],
  [3_000, LEASE_MS - 3_000, 6_000],
  [14_000, 16_000, 16_000],
  [600_000, 25_000, 25_000],
  [29_900, 100, 100],
])(
  'a claim that is %s ms old, whose lease has %s ms left, is asked for again after %s ms',
  (heldForMs, retryAfterMs, expected) => {
    expect(retryAfterMsOf({ retryAfterMs, ...(heldForMs === undefined ? {} : { heldForMs }) })).toBe(expected)
  },
)
