/** A rolling change of nodes as a test: no request fails, none is executed twice. */
import { expect } from 'vitest'
import { roll } from './run.ts'
import { QUICK } from './settings.ts'

export async function isUnnoticed(nodes: readonly number[], requestsMin: number): Promise<void> {
  const report = await roll({
    settings: QUICK,
    votesWithinMs: 30_000,
    nodes,
    tell: (line) => console.log(line),
  })
  expect(report.sent.failures).toEqual([])
  expect(report.executedTwice).toEqual([])
  expect(report.rolledInMs).toHaveLength(nodes.length)
  // It was load: new requests, duplicates while they ran and long after.
  expect(report.executed).toBeGreaterThan(requestsMin)
  expect(report.sent.replayed).toBeGreaterThan(requestsMin)
}
