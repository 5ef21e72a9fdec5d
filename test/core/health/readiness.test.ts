// When slow claims take a pod out of service: the brakes, one row each, on a virtual clock.
import { describe, expect, test } from 'vitest'
import { watchQuorum } from '../../../src/app/readiness.ts'
import {
  createReadinessGate,
  type ReadinessFacts,
  type ReadinessOptions,
} from '../../../src/core/health/readiness.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const OPTIONS: ReadinessOptions = {
  quorumGate: 'enforce',
  latencyGate: 'enforce',
  unreadyAboveMs: 150,
  readyBelowMs: 120,
  readinessWindowMs: 60_000,
  readinessMinSamples: 20,
  minUnreadyMs: 15_000,
}
const SERVING = { phase: 'serving', voting: 5, writable: 5, nodeCount: 5, required: 3 } as const
/** Each node that votes takes writes, where nothing else is said. */
const factsWith = (differs: Partial<ReadinessFacts>): ReadinessFacts => ({
  ...SERVING,
  writable: differs.voting ?? SERVING.writable,
  ...differs,
})

/** Samples of one evaluation period: so many of one duration. */
type Period = readonly (readonly [count: number, durationMs: number])[]

async function play(periods: readonly Period[], options: Partial<ReadinessOptions> = {}, fraction = 0.5) {
  const clock = new VirtualClock()
  const gate = createReadinessGate(
    { ...OPTIONS, ...options },
    { clock, random: { fraction: () => fraction } },
  )
  const states: boolean[] = []
  for (const period of periods) {
    for (const [count, durationMs] of period) for (let i = 0; i < count; i += 1) gate.observe(durationMs)
    await clock.advance(gate.evaluateEveryMs)
    gate.evaluate()
    states.push(gate.verdict(SERVING).ready)
  }
  return { gate, states: states.map((ready) => (ready ? 'R' : '-')).join(''), clock }
}

const times = (count: number, period: Period): Period[] => Array.from({ length: count }, () => period)
const FAST: Period = [[100, 10]]
const SLOW: Period = [[100, 151]]
const MANY_FAST: Period = [[100_000, 10]]
const NONE: Period = []

describe('the latency gate, one letter an evaluation: R ready, - unready', () => {
  test.each<[why: string, periods: Period[], states: string]>([
    ['fast claims', times(5, FAST), 'RRRRR'],
    ['slow ones, three evaluations in a row', times(4, SLOW), 'RR--'],
    ['one slow evaluation, washed out of the p95 by fast ones', [SLOW, [[2_000, 10]], FAST, FAST], 'RRRR'],
    ['exactly at the threshold is not above it', times(5, [[100, 150]]), 'RRRRR'],
    ['just above it is', times(3, [[100, 150.01]]), 'RR-'],
    [
      'a twentieth of slow ones is not a p95',
      times(5, [
        [95, 10],
        [5, 900],
      ]),
      'RRRRR',
    ],
    [
      'a little more than a twentieth is',
      times(3, [
        [94, 10],
        [6, 900],
      ]),
      'RR-',
    ],
    ['19 claims in the window are no evidence', [[[19, 900]], NONE, NONE, NONE], 'RRRR'],
    ['20 are', [[[20, 900]], NONE, NONE], 'RR-'],
    [
      'slow claims leave with the window, and an unready pod without evidence stays unready',
      [[[20, 900]], ...times(13, NONE)],
      'RR------------',
    ],
    [
      'ready again: fast three times in a row, and 15 s after',
      [...times(3, SLOW), ...times(3, MANY_FAST)],
      'RR---R',
    ],
    [
      'what was slow before claims that are fast makes nothing unready',
      [SLOW, SLOW, FAST, FAST, FAST, FAST],
      'RRRRRR',
    ],
    [
      'ready again by the newest claims, while the window is still full of slow ones',
      [...times(12, SLOW), ...times(3, [[3, 10]] as Period)],
      'RR------------R',
    ],
    [
      'an evaluation without a claim is no evidence, and no step back either',
      [...times(12, SLOW), [[1, 10]], NONE, [[1, 10]], NONE, [[1, 10]]],
      'RR--------------R',
    ],
    [
      'between the thresholds the state stays',
      [...times(3, SLOW), ...times(5, [[100_000, 130]])],
      'RR------',
    ],
    [
      'a slow one in between restarts the count',
      [...times(3, SLOW), MANY_FAST, MANY_FAST, [[10_000_000, 200]]],
      'RR----',
    ],
  ])('%s', async (_, periods, states) => {
    expect((await play(periods)).states).toBe(states)
  })

  test.each([
    [0, 'RR----R'],
    [0.999, 'RR------R'],
  ])('the shortest time unready is spread by 20 %% either way: dice %d', async (fraction, states) => {
    // Three fast evaluations take 15 s; the shortest time unready is between 25 s · 0.8 = 20 s and 25 s · 1.2 = 30 s.
    const periods = [...times(3, SLOW), ...times(states.length - 3, MANY_FAST)]
    expect((await play(periods, { minUnreadyMs: 25_000 }, fraction)).states).toBe(states)
  })

  test('a gate that only reports leaves the pod ready and says what is slow', async () => {
    const { gate, states } = await play(times(4, SLOW), { latencyGate: 'report' })
    expect(states).toBe('RRRR')
    const { ready, failing, reasons, p95Ms } = gate.verdict(SERVING)
    expect({ ready, failing: [...failing] }).toEqual({ ready: true, failing: ['latency'] })
    expect(reasons).toEqual([
      `claims are slow (reported only): their p95 is ${Math.round(p95Ms ?? 0)} ms; it was above 150 ms and must be below 120 ms`,
    ])
  })
})

test('a pod that is unready for slow claims asks on, however full its window is', async () => {
  const { gate, clock } = await play(times(4, SLOW))
  expect(gate.wants()).toBe('more')
  for (let claim = 0; claim < 3; claim += 1) gate.observe(10)
  expect(gate.wants()).toBe('none')
  await clock.advance(gate.evaluateEveryMs)
  gate.evaluate()
  expect(gate.wants()).toBe('more')
})

describe('an outage of the quorum does not outlast itself', () => {
  function gateOn(clock: VirtualClock) {
    return createReadinessGate(OPTIONS, { clock, random: { fraction: () => 0.5 } })
  }
  /** Three evaluations, with so many claims of one duration before each. */
  async function evaluate(
    gate: ReturnType<typeof gateOn>,
    clock: VirtualClock,
    durationMs: number,
    of?: 'unavailable',
  ) {
    for (let period = 0; period < 3; period += 1) {
      for (let claim = 0; claim < 100; claim += 1) gate.observe(durationMs, of)
      await clock.advance(gate.evaluateEveryMs)
      gate.evaluate()
    }
    return gate.verdict(SERVING).ready
  }

  test('claims without a majority do not count while there is none: the sidecar is ready once it is back', async () => {
    const clock = new VirtualClock()
    const gate = gateOn(clock)
    gate.quorum(false)
    expect(await evaluate(gate, clock, 3_000, 'unavailable')).toBe(true)
    expect(gate.samples()).toBe(0)
    gate.quorum(true)
    expect(await evaluate(gate, clock, 10)).toBe(true)
  })

  test('the same claims count while there is a majority: its nodes are too slow', async () => {
    const clock = new VirtualClock()
    expect(await evaluate(gateOn(clock), clock, 3_000, 'unavailable')).toBe(false)
  })

  test('claims from just before the loss was noticed are forgotten with it', async () => {
    const clock = new VirtualClock()
    const gate = gateOn(clock)
    for (let claim = 0; claim < 100; claim += 1) gate.observe(3_000)
    gate.quorum(false)
    expect(gate.samples()).toBe(0)
  })

  test('a claim that began in the outage does not count when it ends after it', async () => {
    const clock = new VirtualClock()
    const gate = gateOn(clock)
    gate.quorum(false)
    await clock.advance(10_000)
    gate.quorum(true)
    gate.observe(1)
    await clock.advance(100)
    gate.observe(101)
    expect(gate.samples()).toBe(0)
    gate.observe(100)
    expect(gate.samples()).toBe(1)
  })

  test('with several groups, claims on the others count while one is lost', async () => {
    const clock = new VirtualClock()
    const gate = gateOn(clock)
    gate.quorum(false)
    expect(await evaluate(gate, clock, 200)).toBe(false)
  })

  test('a sidecar that was slow before the outage still has to show that it is not', async () => {
    const clock = new VirtualClock()
    const gate = gateOn(clock)
    expect(await evaluate(gate, clock, 200)).toBe(false)
    gate.quorum(false)
    gate.quorum(true)
    expect(gate.verdict(SERVING).ready).toBe(false)
  })
})

describe('which groups have a majority', () => {
  const NAMES = ['a/0', 'a/1', 'a/2', 'b/0', 'b/1', 'b/2']
  const state = (node: string, to: 'down' | 'unfit' | 'quarantined' | 'voting') =>
    ({ kind: 'node_state', node, address: node, from: 'voting', to, reason: '' }) as const

  test('each change is told once: a majority of every group, or not', () => {
    const told: boolean[] = []
    const { saw } = watchQuorum(NAMES, { nodeCount: 3, required: 2 }, (present) => told.push(present), false)
    // One of each group is no loss, though it is two in all.
    saw(state('a/0', 'down'))
    saw(state('b/0', 'quarantined'))
    expect(told).toEqual([])
    saw(state('a/1', 'unfit'))
    saw(state('b/1', 'down'))
    expect(told).toEqual([false])
    saw(state('a/1', 'voting'))
    expect(told).toEqual([false])
    saw(state('b/0', 'voting'))
    expect(told).toEqual([false, true])
  })

  test('a node that votes and refuses every write is none of them, until it takes writes or votes anew', () => {
    const told: boolean[] = []
    const { saw } = watchQuorum(
      NAMES.slice(0, 3),
      { nodeCount: 3, required: 2 },
      (now) => told.push(now),
      false,
    )
    const writes = (node: string, refusal?: string) => saw({ kind: 'node_writes', node, refusal })
    writes('a/0', 'MISCONF')
    writes('a/1', 'MISCONF')
    expect(told).toEqual([false])
    writes('a/1')
    expect(told).toEqual([false, true])
    saw(state('a/1', 'down'))
    saw(state('a/0', 'down'))
    saw(state('a/0', 'voting'))
    expect(told).toEqual([false, true, false, true])
  })

  test('a group whose breaker is not closed has no majority, whatever its nodes are', () => {
    const told: boolean[] = []
    const { saw, unanswered } = watchQuorum(
      NAMES,
      { nodeCount: 3, required: 2 },
      (now) => told.push(now),
      false,
    )
    const breaker = (to: 'open' | 'half_open' | 'closed', group: string) =>
      saw({ kind: 'quorum_breaker_changed', group, from: 'open', to })
    breaker('open', 'b')
    breaker('half_open', 'b')
    expect([told, [...unanswered]]).toEqual([[false], ['b']])
    breaker('closed', 'b')
    expect([told, [...unanswered]]).toEqual([[false, true], []])
  })

  test('a sidecar that starts in an outage has no quorum until its nodes are reported to vote', () => {
    const told: boolean[] = []
    const { saw } = watchQuorum(NAMES, { nodeCount: 3, required: 2 }, (present) => told.push(present), true)
    expect(told).toEqual([false])
    for (const node of ['a/0', 'a/1', 'b/0']) saw(state(node, 'voting'))
    expect(told).toEqual([false])
    saw(state('b/1', 'voting'))
    expect(told).toEqual([false, true])
  })
})

describe('readiness without brakes', () => {
  const gate = createReadinessGate(OPTIONS, { clock: new VirtualClock(), random: { fraction: () => 0.5 } })
  test.each([
    ['all well', {}, true, [], []],
    ['a bare majority votes', { voting: 3 }, true, [], []],
    [
      'a minority votes, and no other vote comes back by itself',
      { voting: 2, standstills: ['decide: fencepost nodes declare-loss'] },
      false,
      ['quorum'],
      ['2 of 5 nodes can vote, 3 are needed; decide: fencepost nodes declare-loss'],
    ],
    ['a minority votes', { voting: 2 }, false, ['quorum'], ['2 of 5 nodes can vote, 3 are needed']],
    [
      'a majority votes, and does not answer claims in time',
      { unanswered: true },
      false,
      ['quorum'],
      [
        'no majority answers claims in time, though 5 of 5 nodes can vote: the network or the nodes are too slow for FENCEPOST_NODE_DEADLINE',
      ],
    ],
    [
      'a majority votes, and no majority takes writes',
      { writable: 2 },
      false,
      ['quorum'],
      ['2 of 5 nodes take writes, 3 are needed: each of the others that vote says why it refuses them'],
    ],
    [
      'one of several groups is lost: shown, and the others are served',
      { groupsLost: ['b'] },
      true,
      ['quorum'],
      ['no majority can vote and take writes in b: its identities are refused, all others served'],
    ],
    [
      'all groups are lost',
      { voting: 1, groupsLost: ['a', 'b'] },
      false,
      ['quorum'],
      ['1 of 5 nodes can vote, 3 are needed'],
    ],
    [
      'not every group was seen yet',
      { groupsLost: ['b'], notAgreed: true },
      false,
      ['quorum'],
      [
        'no majority was seen of b yet, and only all groups together show that every sidecar has the same ones',
      ],
    ],
    ['the process starts', { phase: 'starting' }, false, [], ['it is starting']],
    ['the process drains', { phase: 'draining' }, false, ['shutdown'], ['it is draining']],
    [
      'claims are refused for the clocks',
      { clockRefusal: 'clocks differ' },
      false,
      ['clock'],
      ['clocks differ'],
    ],
    [
      'two reasons at once are both listed',
      { phase: 'draining', voting: 0 },
      false,
      ['shutdown', 'quorum'],
      ['it is draining', '0 of 5 nodes can vote, 3 are needed'],
    ],
  ] as const)('%s', (_, differs, ready, failing, reasons) => {
    const verdict = gate.verdict(factsWith(differs))
    const sentences = [...verdict.sentences]
    expect({ ...verdict, failing: [...verdict.failing], sentences }).toEqual({
      ready,
      failing,
      sentences: failing.map((reason, at) => [reason, reasons.slice(-failing.length)[at]]),
      reasons,
      p95Ms: undefined,
    })
  })
})

describe('where requests go on without a quorum, its loss is only reported', () => {
  const reporting = () =>
    createReadinessGate(
      { ...OPTIONS, quorumGate: 'report' },
      { clock: new VirtualClock(), random: { fraction: () => 0.5 } },
    )

  test.each([
    ['a minority votes', { voting: 2 }, 'quorum', '2 of 5 nodes can vote, 3 are needed (reported only)'],
    [
      'most of them for their clocks',
      { voting: 2, clockRefusal: 'clocks differ' },
      'clock',
      'clocks differ (reported only)',
    ],
  ] as const)('%s', (_, differs, reason, sentence) => {
    const gate = reporting()
    expect(gate.verdict(SERVING).ready).toBe(true)
    const { ready, sentences } = gate.verdict(factsWith(differs))
    expect([ready, sentences.get(reason)]).toEqual([true, sentence])
  })

  test('a pod that has never seen a majority stays unready: a rollout with the wrong nodes stops', () => {
    const gate = reporting()
    expect(gate.verdict(factsWith({ voting: 0 })).ready).toBe(false)
    gate.quorum(false)
    gate.quorum(true)
    expect(gate.verdict(factsWith({ voting: 2 })).ready).toBe(true)
  })

  test('neither are the groups of a cluster that were not all seen yet', () => {
    const gate = reporting()
    expect(gate.verdict(SERVING).ready).toBe(true)
    expect(gate.verdict(factsWith({ groupsLost: ['b'], notAgreed: true })).ready).toBe(false)
  })

  test.each([
    ['a drain', { phase: 'draining' }],
    ['that claims are refused for the clocks while nodes vote', { clockRefusal: 'clocks differ' }],
  ] as const)('%s makes it unready all the same', (_, differs) => {
    const gate = reporting()
    expect(gate.verdict(factsWith(differs)).ready).toBe(false)
  })
})

test('a reported p95 is at most a tenth too high, whatever the size of the claims', async () => {
  for (let durationMs = 1; durationMs < 50_000; durationMs *= 1.7) {
    const { gate } = await play([[[100, durationMs]]])
    const { p95Ms } = gate.verdict(SERVING)
    expect(p95Ms).toBeGreaterThanOrEqual(durationMs)
    expect(p95Ms).toBeLessThanOrEqual(durationMs * 1.1)
  }
})
