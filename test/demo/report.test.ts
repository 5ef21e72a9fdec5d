/** The table at the end of the demonstration, computed from the exposition. */
import { expect, test } from 'vitest'
import { type Facts, report } from '../../src/demo/report.ts'

const FACTS: Facts = {
  payments: 1,
  sent: 20,
  tally: {
    created: 1,
    replayed: 19,
    conflicts: 0,
    errors: 0,
    differing: 0,
    lastError: '',
  } as unknown as Facts['tally'],
  charges: new Map([['a', 1]]),
  metrics: '',
  idleMemoryBytes: 1,
  startUpMs: 1,
  stormMs: 1,
}

/** Counts of the buckets 0, 1 and the one of everything, as five nodes have them. */
test.each<[buckets: readonly number[], told: string]>([
  [[0, 0, 50], '2 ×50'],
  [[1, 20, 50], '2 ×30, 1 ×19, 0 ×1'],
  [[0, 20, 20], '1 ×20'],
  [[0, 0, 0], 'no claim was granted'],
])('spare votes of granted claims, all nodes included: %j is %s', ([none, one, all], told) => {
  const metrics = [
    `fencepost_quorum_margin_votes_bucket{le="0"} ${none}`,
    `fencepost_quorum_margin_votes_bucket{le="1"} ${one}`,
    `fencepost_quorum_margin_votes_bucket{le="+Inf"} ${all}`,
    '',
  ].join('\n')
  const row = report({ ...FACTS, metrics })
    .text.split('\n')
    .find((line) => line.includes('quorum margin'))
  expect(row?.trim()).toBe(`quorum margin (spare votes)  ${told}`)
})
