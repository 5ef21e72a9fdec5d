/** Copies that are sent at once, and the one more that is asked where all were refused. */
import { expect, test } from 'vitest'
import { race } from '../../src/probe/race.ts'
import { type Copy, judge, type Result } from '../../src/probe/verdict.ts'

const [G, n, x]: Copy[] = ['granted', 'refused', 'failed']

test.each<[copies: (Copy | undefined)[], next: Copy | undefined, result: Result, asked: number]>([
  [[G, n, n], n, 'ok', 3],
  [[G, G, n], n, 'false_negative', 3],
  [[n, n, x], G, 'error', 3],
  // Nobody holds it, so that all were refused proves nothing.
  [[n, n, n], G, 'error', 4],
  [[n, n, n], n, 'false_positive', 4],
  [[n, n, n], x, 'error', 4],
])('%j, and then %s: %s', async (copies, next, result, asked) => {
  const answers = [...copies, next]
  const seen = await race(
    copies.length,
    async (copy) => ({ copy: answers[copy] as Copy }),
    (all) => judge(all.map(({ copy }) => copy)),
  )
  expect(seen).toMatchObject({ result })
  expect(seen.asked.length).toBe(asked)
  expect(seen.detail !== undefined).toBe(next === G && asked === 4)
})
