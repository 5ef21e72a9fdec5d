import { expect, test } from 'vitest'
import { eventually } from './eventually.ts'

test('what does not come is told by its sentence, and by what was seen last', async () => {
  const never = eventually('the moon', () => 0, { withinMs: 30 })
  await expect(never).rejects.toThrow('waited 30 ms for: the moon; at last it was: 0')
})

// Bug: a shared machine stood still for a minute, and what was waited for had no chance to come.
test('time in which this process had no processor spends no patience', async () => {
  let looks = 0
  const third = () => {
    looks += 1
    const untilMs = performance.now() + 1_000
    while (looks === 1 && performance.now() < untilMs);
    return looks === 3
  }
  await eventually('a third look', third, { withinMs: 500 })
  expect(looks).toBe(3)
})
