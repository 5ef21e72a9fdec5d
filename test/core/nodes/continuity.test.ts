import { describe, expect, test } from 'vitest'
import {
  type ContinuityView,
  judgeContinuity,
  lossWindowOf,
  type NodeView,
  type Pulse,
  type WaitingNode,
} from '../../../src/core/nodes/continuity.ts'

const CLUSTER = { id: 'c1', quarantineMs: 61_602 }
/** When the surviving pulse was written. */
const PULSE_MS = 1_000_000
const STARTED_MS = PULSE_MS + 20_000

function pulseOf(name: string, nodeMs: number, more: Partial<Pulse> = {}): Pulse {
  const others = new Map(['a', 'b', 'c', 'd', 'e'].filter((one) => one !== name).map((one) => [one, nodeMs]))
  return { name, runId: `${name}1`, nodeMs, durable: true, others, ...more }
}

type Setting = Partial<Omit<WaitingNode, 'pulse'>> & { readonly pulse?: Partial<Pulse> | 'none' }

/** Restarted at STARTED_MS with its data, by default under `appendfsync always`; seen five seconds later. */
function restarted(name: string, { pulse = {}, ...more }: Setting = {}): WaitingNode {
  return {
    kind: 'waiting',
    name,
    membership: {
      runId: `${name}2`,
      nodeMs: STARTED_MS + 5_000,
      epoch: `1:${name}1:nonce:${PULSE_MS - 500_000}`,
      quarantine: undefined,
      cluster: CLUSTER,
    },
    pulse: pulse === 'none' ? undefined : pulseOf(name, PULSE_MS, pulse),
    durable: true,
    startedNodeMs: STARTED_MS,
    clockAgrees: true,
    clockRanOn: true,
    seenPulseMs: undefined,
    heardPulseMs: undefined,
    ...more,
  }
}

const empty = (name: string): WaitingNode =>
  restarted(name, {
    pulse: 'none',
    membership: {
      runId: `${name}2`,
      nodeMs: STARTED_MS + 5_000,
      epoch: undefined,
      quarantine: undefined,
      cluster: undefined,
    },
  })

/** The disk syncs once a second, or the node does not say. */
const lossy = (name: string, more: Setting = {}) => restarted(name, { durable: false, ...more })
const voting = (name: string, more: Partial<Pulse> = {}): NodeView => ({
  kind: 'voting',
  name,
  membership: {
    runId: `${name}1`,
    nodeMs: STARTED_MS,
    epoch: `1:${name}1:nonce:1`,
    quarantine: undefined,
    cluster: CLUSTER,
  },
  pulse: pulseOf(name, PULSE_MS, more),
})
const silent = (name: string): NodeView => ({ kind: 'silent', name })

function view(...nodes: readonly NodeView[]): ContinuityView {
  return { nodes, clusterId: 'c1', required: 3, toleratedStepMs: 1_000, answerMaxAgeMs: 2_000 }
}

const judged = (target: WaitingNode, ...others: readonly NodeView[]) =>
  judgeContinuity(target, view(target, ...others)).kind

const others = ['b', 'c', 'd', 'e'].map((name) => voting(name))

describe('a node that restarts with its data', () => {
  test('a node that synced every write before its answer has forgotten no record', () => {
    expect(judged(restarted('a'), ...others)).toBe('intact')
  })

  test.for<[string, Setting]>([
    ['the disk syncs once a second now', { durable: false }],
    ['the disk synced once a second when it voted', { pulse: { durable: false } }],
    ['another node knows of a later pulse: its volume was set back', { heardPulseMs: PULSE_MS + 1 }],
    ['this process saw a later pulse: its volume was set back', { seenPulseMs: PULSE_MS + 1 }],
    ['its clock may be another one, which ends leases early', { clockRanOn: false }],
    ['its pulse is of an earlier run than its epoch', { pulse: { runId: 'a0' } }],
  ])('a node gets the records of all others where %s', ([, more]) => {
    expect(judged(restarted('a', more), ...others)).toBe('union')
  })

  test('a node gets the records of all others where no sidecar could see a later pulse', () => {
    const blind = ['b', 'c', 'd', 'e'].map((name) => voting(name, { others: new Map() }))
    expect(judged(restarted('a'), ...blind)).toBe('union')
    const long = ['b', 'c', 'd', 'e'].map((name) =>
      voting(name, { others: new Map([['a', PULSE_MS - 60_000]]) }),
    )
    expect(judged(restarted('a'), ...long)).toBe('union')
    expect(judged(restarted('a', { seenPulseMs: PULSE_MS }), ...long)).toBe('intact')
  })

  // Bug: one node whose data said so kept all nodes from coming back after a restart of all.
  test('a later pulse is known where two nodes know of it; one that says so counts for nothing against the others', () => {
    const noting = (...names: readonly string[]) =>
      ['b', 'c', 'd', 'e'].map((name) =>
        voting(name, { others: new Map([['a', names.includes(name) ? PULSE_MS + 500 : PULSE_MS]]) }),
      )
    expect(judged(restarted('a'), ...noting('b'))).toBe('intact')
    expect(judged(restarted('a'), ...noting('b', 'c'))).toBe('union')
    const lost = ['c', 'd', 'e'].map(silent)
    expect(judged(restarted('a', { seenPulseMs: PULSE_MS }), ...noting('b').slice(0, 1), ...lost)).toBe(
      'closed',
    )
    expect(judged(restarted('a', { seenPulseMs: PULSE_MS }), ...noting().slice(0, 1), ...lost)).toBe('intact')
  })

  test.for<[string, Setting]>([
    ['has no pulse', { pulse: 'none' }],
    ['has the pulse of another node: the volume of that one', { pulse: { name: 'b' } }],
    ['has no epoch', { membership: { ...restarted('a').membership, epoch: undefined } }],
    [
      'belongs to another cluster',
      { membership: { ...restarted('a').membership, cluster: { ...CLUSTER, id: 'c2' } } },
    ],
  ])('a node waits like any node that forgot where it %s', ([, more]) => {
    expect(judged(restarted('a', more), ...others)).toBe('unknown')
  })

  test('a node waits where its clock disagrees with the others', () => {
    expect(judged(restarted('a', { clockAgrees: false }), ...others)).toBe('closed')
  })
})

describe('the loss window', () => {
  test('the loss window begins at the surviving pulse and ends with the start of the process', () => {
    const node = lossy('a')
    expect(lossWindowOf(node, view(node, ...others))).toEqual({
      fromMs: PULSE_MS,
      untilMs: STARTED_MS + 1_000,
    })
  })

  test('the loss window begins at the enrolment of a node that was enrolled after its pulse', () => {
    const membership = { ...restarted('a').membership, epoch: `1:a1:nonce:${PULSE_MS + 7_000}` }
    const node = lossy('a', { membership, pulse: { runId: 'a0' } })
    expect(lossWindowOf(node, view(node, ...others))?.fromMs).toBe(PULSE_MS + 7_000)
  })

  test('the loss window of an empty node is all time before it was noticed', () => {
    const node = empty('a')
    expect(lossWindowOf(node, view(node, ...others))).toEqual({
      fromMs: Number.NEGATIVE_INFINITY,
      untilMs: STARTED_MS + 5_000,
    })
  })

  test('the loss window of a node that was flushed at run time is all time before that was noticed', () => {
    const nodeMs = STARTED_MS + 5_000
    const quarantine = {
      runId: 'a2',
      nonce: 'n',
      sinceNodeMs: nodeMs - 700,
      origin: 'forgot',
      progress: { done: [], copied: 0 },
    } as const
    const long = { startedNodeMs: 5_000, pulse: 'none' } as const
    const membership = { ...empty('a').membership, nodeMs, quarantine }
    const node = restarted('a', { ...long, membership })
    expect(lossWindowOf(node, view(node, ...others))?.untilMs).toBe(nodeMs - 700)
    const unnoticed = restarted('a', { ...long, membership: { ...membership, quarantine: undefined } })
    expect(lossWindowOf(unnoticed, view(unnoticed, ...others))?.untilMs).toBe(nodeMs)
  })

  // Bug: it ended with the start of the process, as if the node whose data it had copied had died then.
  test('the loss window of a server that was a replica ends now', () => {
    const node = restarted('a', { wasReplica: true, startedNodeMs: PULSE_MS })
    const untilMs = node.membership.nodeMs
    expect(lossWindowOf(node, view(node, ...others))).toEqual({ fromMs: PULSE_MS, untilMs })
  })

  // Bug: as above. A server that runs with a copy of the volume takes the place of a node that still wrote pulses meanwhile.
  test('the loss window of a server that was started before the last pulse of its node ends now', () => {
    const node = restarted('a', { heardPulseMs: STARTED_MS + 3_000 })
    const untilMs = node.membership.nodeMs
    expect(lossWindowOf(node, view(node, ...others))).toEqual({ fromMs: PULSE_MS, untilMs })
    const noted = ['b', 'c'].map((name) => voting(name, { others: new Map([['a', STARTED_MS + 3_000]]) }))
    const unseen = restarted('a')
    expect(lossWindowOf(unseen, view(unseen, ...noted))).toEqual({ fromMs: PULSE_MS, untilMs })
  })

  test.for<[string, Setting]>([
    ['remembers a time after its start', { pulse: { nodeMs: STARTED_MS + 3_000 } }],
    ['was started in the future', { startedNodeMs: STARTED_MS + 10_000 }],
    ['has a clock that disagrees with the others', { clockAgrees: false }],
  ])('the loss window of a node that %s is all time', ([, more]) => {
    const node = lossy('a', more)
    expect(lossWindowOf(node, view(node, ...others))).toEqual({
      fromMs: Number.NEGATIVE_INFINITY,
      untilMs: Number.POSITIVE_INFINITY,
    })
  })
})

describe('of five nodes, at every instant two may be silent or have forgotten it', () => {
  /** Its window begins and ends `ms` later. */
  const later = (name: string, ms: number) =>
    lossy(name, {
      pulse: { nodeMs: PULSE_MS + ms },
      startedNodeMs: STARTED_MS + ms,
      membership: { ...restarted(name).membership, nodeMs: STARTED_MS + ms + 5_000 },
    })

  test.for<[string, string, readonly NodeView[]]>([
    ['one other was down at the same time', 'union', [lossy('b'), voting('c'), voting('d'), voting('e')]],
    ['two others were down at the same time', 'closed', [lossy('b'), lossy('c'), voting('d'), voting('e')]],
    [
      'two others were down at the same time and one has it all',
      'union',
      [lossy('b'), restarted('c'), voting('d'), voting('e')],
    ],
    [
      'all were down one after another',
      'union',
      ['b', 'c', 'd', 'e'].map((name, at) => later(name, (at + 1) * 30_000)),
    ],
    [
      'three were down within the time that an answer may take',
      'closed',
      [later('b', 21_500), later('c', 22_500), voting('d'), voting('e')],
    ],
    ['two others are silent', 'closed', [silent('b'), silent('c'), voting('d'), voting('e')]],
    ['one other is silent', 'union', [silent('b'), voting('c'), voting('d'), voting('e')]],
    ['one is silent and another one empty', 'closed', [silent('b'), empty('c'), voting('d'), voting('e')]],
    ['two others are empty', 'closed', [empty('b'), empty('c'), voting('d'), voting('e')]],
    ['one other is empty', 'union', [empty('b'), voting('c'), voting('d'), voting('e')]],
    [
      'two volumes were set back at once',
      'closed',
      [
        restarted('b', { heardPulseMs: PULSE_MS + 50_000 }),
        restarted('c', { heardPulseMs: PULSE_MS + 50_000 }),
        voting('d'),
        voting('e'),
      ],
    ],
  ])('%s: %s', ([, expected, nodes]) => {
    expect(judged(lossy('a'), ...nodes)).toBe(expected)
  })

  // Bug: each had a window of seconds around its own copying, and what was done since then was executed again.
  test('servers that were copied at different times and took the places of three nodes together: closed', () => {
    const copied = (name: string, ms: number) =>
      restarted(name, {
        wasReplica: true,
        pulse: { nodeMs: PULSE_MS + ms },
        startedNodeMs: PULSE_MS + ms,
        membership: { ...restarted(name).membership, nodeMs: PULSE_MS + 300_000 },
      })
    const [a, b, c] = [copied('a', 0), copied('b', 60_000), copied('c', 120_000)]
    expect(judged(a, b, c, voting('d'), voting('e'))).toBe('closed')
    expect(judged(a, b, voting('c'), voting('d'), voting('e'))).toBe('union')
  })

  test('the reason against a continuation names the time and the nodes', () => {
    const target = lossy('a')
    expect(judgeContinuity(target, view(target, lossy('b'), silent('c'), voting('d'), voting('e')))).toEqual({
      kind: 'closed',
      reason: expect.stringMatching(
        /^what was done at 1970-.* may be forgotten by 3 of 5 nodes, and by 2 it may be: a, b, c \(silent\)\. a, b came back .*`appendfsync` is not `always`/,
      ),
    })
  })
})

// The time of an answer that still counts, and twice the tolerated step, before it; twice the step and a second after it.
test.each([
  ['a millisecond apart', 7_001, 'union'],
  ['at one instant', 7_000, 'closed'],
])('loss windows that meet, with what is added at both ends, %s', (_, afterMs, expected) => {
  const others = new Map<string, number>()
  const pulseMs = STARTED_MS + afterMs
  const startedNodeMs = pulseMs + 500
  const { membership } = restarted('c')
  const later = lossy('c', {
    pulse: { nodeMs: pulseMs, others },
    startedNodeMs,
    membership: { ...membership, nodeMs: startedNodeMs + 1_000 },
  })
  expect(
    judged(
      lossy('a', { pulse: { others } }),
      lossy('b', { pulse: { others } }),
      later,
      voting('d'),
      voting('e'),
    ),
  ).toBe(expected)
})

test('a node whose clock was set back since its quarantine began may have forgotten up to any time', () => {
  const node = empty('a')
  const { nodeMs, runId } = node.membership
  const since = (sinceNodeMs: number): WaitingNode => ({
    ...node,
    membership: {
      ...node.membership,
      quarantine: { runId, nonce: 'n', sinceNodeMs, origin: 'forgot', progress: { done: [], copied: 0 } },
    },
  })
  const untilMs = (sinceNodeMs: number) => lossWindowOf(since(sinceNodeMs), view(since(sinceNodeMs)))?.untilMs
  expect([nodeMs - 10, nodeMs, nodeMs + 1].map(untilMs)).toEqual([
    nodeMs - 10,
    nodeMs,
    Number.POSITIVE_INFINITY,
  ])
})
