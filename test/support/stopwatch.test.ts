import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Stopwatch } from './stopwatch.ts'

test('it counts what passes while the process runs, and next to nothing of what it stands still', async () => {
  using watch = new Stopwatch()
  await pause(200)
  const ranMs = watch.ranMs
  expect(ranMs).toBeGreaterThan(0)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
  expect(watch.ranMs - ranMs).toBeLessThanOrEqual(50)
})
