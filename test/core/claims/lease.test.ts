import { expect, test } from 'vitest'
import { keyHashOf, lockIdOf, remainingMs, validityFrom } from '../../../src/core/claims/lease.ts'
import { now } from '../../../src/core/clock.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

test('validity runs from before the first message', () => {
  expect(validityFrom({ monoMs: 1_000, wallMs: 5_000 }, 30_000)).toEqual({
    validUntilMonoMs: 30_698,
    validUntilWallMs: 34_698,
  })
})

test('a lease shorter than its drift is over before it begins', () => {
  const at = { monoMs: 0, wallMs: 0 }
  expect(remainingMs(validityFrom(at, 2), at)).toBeLessThan(0)
})

test.each([
  ['no time passed', 0, 0, 29_698],
  ['time passed', 10_000, 0, 19_698],
  ['the wall clock was set forward', 0, 29_000, 698],
  ['the wall clock was set back', 10_000, -3_600_000, 19_698],
  ['it is over by both clocks', 30_000, 0, -302],
])('where %s, the clock that has less left decides', async (_, passedMs, steppedMs, left) => {
  const clock = new VirtualClock()
  const lease = validityFrom(now(clock), 30_000)
  await clock.advance(passedMs)
  clock.stepWall(steppedMs)
  expect(remainingMs(lease, now(clock))).toBe(left)
})

// Bug: lines about the lease of the sweeper had `key_hash: dedup::office:sw`, as if the last 64 characters of its name were a hash.
test.each([
  [`dedup:shop:prod:v1:${'0123456789abcdef'.repeat(4)}`, '0123456789abcdef'],
  [`dedup:shop:prod:v1:entity:${'0123456789abcdef'.repeat(4)}`, '0123456789abcdef'],
  [`dedup::decision:dedup:shop:prod:v1:${'0123456789abcdef'.repeat(4)}`, '0123456789abcdef'],
  ['0123456789abcdef'.repeat(4), '0123456789abcdef'],
  ['0123456789abcdef', '0123456789abcdef'],
  ['dedup::office:sweeper', 'dedup::office:sweeper'],
])('the record %s is found by %s', (key, shown) => {
  expect(keyHashOf(key)).toBe(shown)
  expect(lockIdOf({ key, token: 5 })).toBe(`${shown}-5`)
})
