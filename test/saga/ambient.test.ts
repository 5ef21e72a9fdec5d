// The process's own clock and timers, as the kit uses them.
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { processClock } from '../../packages/saga/src/ambient.ts'

const DAY_MS = 24 * 3_600_000

test('a timer for longer than Node can wait does not fire at once', async () => {
  let fired = false
  const timer = processClock.timer(30 * DAY_MS, () => {
    fired = true
  })
  // Node takes such a delay for 1 ms: then it would have fired before this later one.
  await pause(1)
  timer.cancel()
  expect(fired).toBe(false)
})
