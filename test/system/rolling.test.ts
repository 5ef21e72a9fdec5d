/** The short version of `npm run campaign -- rolling`: every node gets another image, one at a time, and nobody notices. */
import { expect, test } from 'vitest'
import { roll } from '../rolling/run.ts'
import { QUICK } from '../rolling/settings.ts'

test('five nodes are changed one at a time under load: no request fails, none is carried out twice', {
  timeout: 120_000,
}, async () => {
  const report = await roll({ settings: QUICK, votesWithinMs: 30_000, tell: (line) => console.log(line) })
  expect(report.sent.failures).toEqual([])
  expect(report.executedTwice).toEqual([])
  expect(report.rolledInMs).toHaveLength(5)
  // It was load: new requests, duplicates while they ran and long after.
  expect(report.executed).toBeGreaterThan(200)
  expect(report.sent.replayed).toBeGreaterThan(200)
})
