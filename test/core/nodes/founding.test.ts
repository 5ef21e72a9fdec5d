import { expect, test } from 'vitest'
import {
  FOUNDING_WINDOW_MS,
  foundingWindowMs,
  type Membership,
  mayBeFounded,
  NOTHING_COPIED,
  proposedBy,
  type Quarantine,
} from '../../../src/core/nodes/rejoin-rules.ts'

const waiting = (nonce: string, more: Partial<Quarantine> = {}): Membership => ({
  runId: 'run1',
  nodeMs: 0,
  incarnation: undefined,
  quarantine: { runId: 'run1', nonce, sinceNodeMs: 0, origin: 'new', progress: NOTHING_COPIED, ...more },
  cluster: undefined,
})
const two = [waiting('a'), waiting('b')]

test.each<[what: string, member: Membership | undefined, founded: boolean]>([
  ['waits as a new one', waiting('c'), true],
  ['does not answer', undefined, false],
  ['has not been told to wait yet', { ...waiting('c'), quarantine: undefined }, false],
  ['waits since an earlier run', waiting('c', { runId: 'run0' }), false],
  ['has an incarnation', { ...waiting('c'), incarnation: '1:run1:n' }, false],
  ['has the incarnation of an earlier run', { ...waiting('c'), incarnation: '1:run0:n' }, false],
  ['is known to have forgotten', waiting('c', { origin: 'forgot' }), false],
  ['knows of a cluster', { ...waiting('c'), cluster: { id: 'before', quarantineMs: 1 } }, false],
])('a cluster of which one node %s is brand-new: %s', (_, member, founded) => {
  expect(mayBeFounded([...two, member])).toBe(founded)
})

test('a proposal counts from its first sight on all nodes, and starts again where one of them forgot', () => {
  const first = proposedBy(two, undefined, 100)
  expect(first).toEqual({ nonces: ['a', 'b'], sinceMonoMs: 100 })
  expect(proposedBy(two, first, 900)).toBe(first)
  expect(proposedBy([waiting('a'), waiting('another')], first, 900)).toMatchObject({ sinceMonoMs: 900 })
})

test('a proposal that one of the nodes does not show is void', () => {
  const first = proposedBy(two, undefined, 100)
  expect(proposedBy([waiting('a'), undefined], first, 500)).toBeUndefined()
  expect(proposedBy([waiting('a'), waiting('b', { origin: 'forgot' })], first, 500)).toBeUndefined()
})

test('the window outlasts a connection attempt that began too early', () => {
  expect(foundingWindowMs(90)).toBe(FOUNDING_WINDOW_MS)
  expect(foundingWindowMs(5_000)).toBeGreaterThan(6_000)
})
