/** What real nodes execute under faults is a run of the model. */

import { expect, test } from 'vitest'
import { parseLine } from './monitor.ts'
import { heldToTheModel } from './run-of-nodes.ts'

test('a line of MONITOR is read to the byte', () => {
  const line = '+1700000000.000123 [0 lua] "SET" "a b" "\\x00\\xff\\\\\\"\\r\\n"'
  expect(parseLine(line)).toEqual({
    atUs: 1_700_000_000_000_123,
    inScript: true,
    words: ['SET', 'a b', '\x00\xff\\"\r\n'],
  })
})

test('each step of five real nodes is a step of the model, while one is killed, one is emptied and one is started again', async () => {
  const { rejected, done, keys, leftOut, steps } = await heldToTheModel()
  expect(rejected).toBeNull()
  // Each fault occurred, and hardly any step was left out.
  expect(
    Object.values(done).every((count) => count > 0),
    JSON.stringify(done),
  ).toBe(true)
  expect(done.granted).toBeGreaterThan(30)
  expect(keys).toBeGreaterThan(25)
  expect(leftOut).toBeLessThan(10)
  expect(steps).toBeGreaterThan(1_000)
})
