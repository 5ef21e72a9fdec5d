import { expect, test } from 'vitest'
import {
  advanced,
  hasJoined,
  type Membership,
  mayGetRecords,
  NOTHING_COPIED,
  nextRejoinStep,
  type Quarantine,
  quarantineMsFor,
  type RejoinStep,
  type RejoinView,
} from '../../../src/core/nodes/rejoin-rules.ts'

const quarantine = (more: Partial<Quarantine> = {}): Quarantine => ({
  runId: 'me',
  nonce: 'n',
  sinceNodeMs: 1_000,
  origin: 'forgot',
  progress: NOTHING_COPIED,
  ...more,
})
const over = (more: Partial<RejoinView> = {}): RejoinView => ({
  quarantine: quarantine(),
  nodeMs: 31_000,
  firstSeenNodeMs: 1_000,
  observedForMs: 30_000,
  quarantineMs: 30_000,
  toleratedStepMs: 1_000,
  voting: ['a', 'b', 'c'],
  others: [],
  required: 3,
  ...more,
})
const copied = (done: string[], source?: { runId: string; cursor: string }) =>
  quarantine({ progress: { done, copied: 7, ...(source === undefined ? {} : { source }) } })

test.each<[what: string, view: RejoinView, step: RejoinStep]>([
  [
    'before the quarantine is over the node waits',
    over({ nodeMs: 30_999, observedForMs: 29_999 }),
    { kind: 'wait', remainingMs: 1 },
  ],
  ['after it, the first voter is copied', over(), { kind: 'copy', sourceRunId: 'a', cursor: '0' }],
  [
    'copying resumes where it was',
    over({ quarantine: copied(['a'], { runId: 'b', cursor: '17' }) }),
    { kind: 'copy', sourceRunId: 'b', cursor: '17' },
  ],
  [
    'a source that stopped voting is replaced',
    over({ quarantine: copied(['a'], { runId: 'gone', cursor: '17' }) }),
    { kind: 'copy', sourceRunId: 'b', cursor: '0' },
  ],
  [
    'a majority of voters is enough',
    over({ quarantine: copied(['a', 'b', 'c']), voting: ['a', 'b', 'c', 'd'] }),
    { kind: 'finish' },
  ],
  [
    'a voter that has restarted since still counts as copied',
    over({ quarantine: copied(['a', 'b', 'old']) }),
    { kind: 'finish' },
  ],
  [
    'two voters of five are too few to know',
    over({ voting: ['a', 'b'], others: ['c', 'd'] }),
    { kind: 'blocked', voting: 2, required: 3 },
  ],
  // A quarantine that began by a clock which was ahead would last until that time came again.
  ['its clock was set back since its quarantine began', over({ nodeMs: 999 }), { kind: 'wait_anew' }],
  ['its clock ran two minutes ahead of ours', over({ nodeMs: 151_000 }), { kind: 'wait_anew' }],
  [
    'its clock ran ahead within what is tolerated',
    over({ nodeMs: 32_000 }),
    { kind: 'copy', sourceRunId: 'a', cursor: '0' },
  ],
  [
    'after a declared loss every node that answers is copied',
    over({ quarantine: { ...copied(['a']), declaredBy: 'ann' }, voting: ['a'], others: ['c'] }),
    { kind: 'copy', sourceRunId: 'c', cursor: '0' },
  ],
  [
    'after a declared loss, when all were copied',
    over({ quarantine: { ...copied(['a', 'c']), declaredBy: 'ann' }, voting: ['a'], others: ['c'] }),
    { kind: 'finish' },
  ],
  [
    'a declared loss does not shorten the quarantine',
    over({ quarantine: quarantine({ declaredBy: 'ann' }), nodeMs: 2_000, observedForMs: 1_000 }),
    { kind: 'wait', remainingMs: 29_000 },
  ],
])('%s', (_, view, step) => {
  expect(nextRejoinStep(view)).toEqual(step)
})

const member = (
  incarnation?: string,
  origin?: Quarantine['origin'],
  runId = 'me',
  nonce = 'n',
): Membership => ({
  runId: 'run1',
  nodeMs: 0,
  incarnation,
  quarantine: origin === undefined ? undefined : quarantine({ origin, runId, nonce }),
  cluster: undefined,
})

test('an incarnation counts for the run of the process that it names', () => {
  expect(hasJoined({ runId: 'run1', incarnation: '1:run1:abc' })).toBe(true)
  expect(hasJoined({ runId: 'run1', incarnation: '1:run11:abc' })).toBe(false)
  expect(hasJoined({ runId: 'run1', incarnation: undefined })).toBe(false)
})

test('the quarantine outlives the longest lease on a clock that drifts and is stepped', () => {
  expect(quarantineMsFor(30_000, 1_000)).toBe(30_000 + 302 + 1_000)
})

test('progress names a copied source once, whichever sidecar finished it', () => {
  const half = advanced(NOTHING_COPIED, 'a', '17', 5)
  expect(half).toEqual({ done: [], source: { runId: 'a', cursor: '17' }, copied: 5 })
  const whole = advanced(half, 'a', '0', 2)
  expect(whole).toEqual({ done: ['a'], copied: 7 })
  expect(advanced(whole, 'a', '0', 0).done).toEqual(['a'])
})

test.each<[what: string, member: Membership, told: boolean]>([
  ['waits under this nonce', member(undefined, 'forgot', 'run1'), true],
  [
    'waits under this nonce, and has the incarnation of an earlier run',
    member('1:run0:x', 'forgot', 'run1'),
    true,
  ],
  ['waits under another nonce', member(undefined, 'forgot', 'run1', 'another'), false],
  ['has been started again, from data in which the nonce stands', member(undefined, 'forgot', 'run0'), false],
  ['votes', member('1:run1:n'), false],
  ['votes, and the nonce is still written there', member('1:run1:n', 'forgot', 'run1'), false],
  ['has forgotten everything', member(), false],
])('a node that %s may get the records of the others: %s', (_, one, told) => {
  expect(mayGetRecords(one, 'n')).toBe(told)
})
