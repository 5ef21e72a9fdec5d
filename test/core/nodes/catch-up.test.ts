import { expect, test } from 'vitest'
import { CatchUpCounter, NOTHING_COPIED, type Quarantine } from '../../../src/core/nodes/rejoin-rules.ts'

const shown = (nonce: string, catchUps?: number): Quarantine => ({
  runId: 'run',
  nonce,
  sinceNodeMs: 0,
  origin: 'forgot',
  progress: NOTHING_COPIED,
  ...(catchUps === undefined ? {} : { catchUps }),
})

type Act =
  | readonly ['learns', nonce: string, calls: number]
  | readonly ['shows', nonce: string | undefined, catchUps: number | undefined]

const learns = (nonce: string, calls: number): Act => ['learns', nonce, calls]
const shows = (nonce?: string, catchUps?: number): Act => ['shows', nonce, catchUps]

test.each<[what: string, acts: readonly Act[], lacking: boolean, known: number]>([
  ['fewer calls than were known when it was asked', [learns('n1', 3), shows('n1', 2)], true, 3],
  ['fewer than another process told it', [shows('n1', 5), shows('n1')], true, 5],
  ['as many', [learns('n1', 3), shows('n1', 3)], false, 3],
  ['another quarantine', [learns('n1', 3), shows('n2'), shows()], false, 0],
])('a node that shows %s lacks what later ones told it: %s', (_, acts, lacking, known) => {
  const count = new CatchUpCounter()
  for (const [kind, nonce, calls] of acts)
    if (kind === 'learns') count.learn(nonce, calls)
    else count.asked()(nonce === undefined ? undefined : shown(nonce, calls))
  expect([count.isLacking('n1'), count.isLacking(undefined), count.known('n1')]).toEqual([
    lacking,
    false,
    known,
  ])
})

test('calls that come while a poll is under way prove nothing', () => {
  const count = new CatchUpCounter()
  const saw = count.asked()
  count.learn('n1', 2)
  saw(shown('n1', 1))
  expect([count.isLacking('n1'), count.known('n1')]).toEqual([false, 2])
})
