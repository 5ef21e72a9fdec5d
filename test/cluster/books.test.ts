/** What the books of a scenario in a cluster say against it. The cluster itself: `npm run test:cluster`. */
import { expect, test } from 'vitest'
import { faultsIn } from './scenario.ts'
import { mergedTable, tableOf } from './table.ts'
import type { Books } from './traffic-process.ts'

const kept: Books = {
  requests: 100,
  duplicates: 25,
  executed: 100,
  executedTwice: [],
  lost: [],
  failed: {},
  notes: [],
  fewestVotes: 3,
  seconds: 2,
}
const strict = { failedMax: 0, votesMin: 3 }

test.each<[string, Partial<Books>, { failedMax: number; votesMin?: number }, readonly string[]]>([
  ['all is as it has to be', {}, strict, []],
  ['nothing was sent', { requests: 0 }, strict, ['no request was sent']],
  ['a request was executed twice', { executedTwice: ['r-7'] }, strict, ['executed twice: r-7']],
  ['requests were lost', { lost: ['r-1', 'r-2'] }, strict, ['lost: r-1, r-2']],
  [
    'more failed than may',
    { failed: { 'kept 503': 2, 'fresh ECONNREFUSED': 1 } },
    { failedMax: 2 },
    ['3 requests failed at first, and 2 may'],
  ],
  ['as many failed as may', { failed: { 'kept 503': 2 } }, { failedMax: 2 }, []],
  ['two nodes voted', { fewestVotes: 2 }, strict, ['a sidecar saw 2 votes, and 3 are needed']],
  [
    'nobody looked at the votes',
    { fewestVotes: undefined as never },
    strict,
    ['a sidecar saw no votes, and 3 are needed'],
  ],
  ['votes are not the point', { fewestVotes: 0 }, { failedMax: 0 }, []],
])('%s', (_, differs, bounds, faults) => {
  expect(faultsIn({ ...kept, ...differs }, bounds)).toEqual(faults)
})

test('the table tells 503 from other failures, and says what failed', () => {
  const row = {
    name: 'drain',
    what: 'Three nodes.',
    found: '',
    seconds: 12.4,
    books: { ...kept, failed: { 'kept 503': 2, 'fresh ECONNREFUSED': 1 } },
    faults: ['3 requests failed at first, and 2 may'],
  }
  expect(tableOf([row]).split('\n').at(-1)).toBe(
    '| drain | Three nodes. **failed:** 3 requests failed at first, and 2 may | 100 | 2 | 1 | 100 | 0 | 0 | 3 | 12 |',
  )
})

test('a row stays until its scenario is run again, and those of scenarios that are no more go', () => {
  const row = (name: string, found: string) => ({
    ...{ name, what: 'What.', found, seconds: 1, books: undefined, faults: [] },
  })
  const earlier = tableOf([row('drain', 'Before.'), row('gone', 'Before.'), row('notes', 'Before.')])
  const merged = mergedTable(
    earlier,
    [row('drain', 'Now.'), row('page-nodes', 'Now.')],
    [...['notes', 'drain', 'page-nodes', 'page-drills']],
  )
  expect(merged.split('\n').map((line) => line.split(' | ').slice(0, 2).join(' '))).toEqual([
    ...[expect.stringContaining('| scenario'), expect.stringContaining('|---')],
    ...['| notes What. Before.', '| drain What. Now.', '| page-nodes What. Now.'],
  ])
})
