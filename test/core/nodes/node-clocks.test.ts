import { describe, expect, test } from 'vitest'
import type { CoreEvent } from '../../../src/core/events.ts'
import {
  type ClockSample,
  follow,
  judgeOffset,
  offsetOf,
  stepBetween,
} from '../../../src/core/nodes/clock-samples.ts'
import { watchNodeClocks } from '../../../src/core/nodes/node-clocks.ts'
import type { RecordNode } from '../../../src/core/ports.ts'
import type { RecordCommand } from '../../../src/core/record/record.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const sample = (nodeMs: number, sentMonoMs: number, receivedMonoMs: number): ClockSample => ({
  nodeMs,
  sentMonoMs,
  receivedMonoMs,
})

// First answer: node time 1000, sent at 0, received at 10. Rows: what the second one shows.
test.each<[what: string, second: ClockSample, stepMs: number]>([
  ['as much time as passed here', sample(2_000, 1_000, 1_010), 0],
  ['all of both round trips', sample(2_010, 1_000, 1_010), 0],
  ['none of them', sample(1_990, 1_000, 1_010), 0],
  ['one percent more, which is drift', sample(2_020, 1_000, 1_010), 0],
  ['two seconds more', sample(4_000, 1_000, 1_010), 2_000 - 1 - 20.1],
  ['half a minute less', sample(-28_000, 1_000, 1_010), -(30_000 + 0 - 1 - 19.9)],
  ['a second more, hidden by a round trip of two', sample(3_000, 1_000, 3_000), 0],
  ['an answer that overtook the first', sample(995, 0, 5), 0],
])('%s: a step of %j is %d ms', (_, second, stepMs) => {
  expect(stepBetween(sample(1_000, 0, 10), second)).toBeCloseTo(stepMs, 5)
})

test('a clock five percent slow is found within two baselines; a drift of half a percent never is', () => {
  const firstStep = (rate: number): number | undefined => {
    let baseline = follow(undefined, sample(0, 0, 1)).baseline
    for (let monoMs = 10; monoMs <= 60_000; monoMs += 10) {
      const next = follow(baseline, sample(Math.floor(monoMs * rate), monoMs, monoMs + 1))
      if (next.stepMs !== 0) return monoMs
      baseline = next.baseline
    }
    return undefined
  }
  expect(firstStep(0.95)).toBeLessThan(20_000)
  expect(firstStep(1.05)).toBeLessThan(20_000)
  expect(firstStep(0.995)).toBeUndefined()
  expect(firstStep(1.005)).toBeUndefined()
})

test.each<[offsetMs: number, uncertaintyMs: number, skewed: boolean | undefined]>([
  [0, 1, false],
  [49, 1, false],
  [49.5, 1, undefined],
  [-60, 20, undefined],
  [52, 1, true],
  [-52, 1, true],
])('an offset of %d ± %d ms against 50 ms: %s', (offsetMs, uncertaintyMs, skewed) => {
  expect(judgeOffset({ offsetMs, uncertaintyMs }, 50)).toBe(skewed)
})

test('an offset is measured against the middle of the round trip', () => {
  expect(offsetOf(1_105, 1_000, 10)).toEqual({ offsetMs: 100, uncertaintyMs: 5 })
})

const CLAIM = {
  kind: 'claim',
  key: 'k',
  token: 1,
  owner: 'o',
  leaseMs: 1,
  fingerprint: 'f',
  keyTtlMs: 1,
} satisfies RecordCommand
const READ = { kind: 'read', key: 'k' } satisfies RecordCommand

function watch(count: number, enforce = false) {
  const clock = new VirtualClock()
  const events: CoreEvent[] = []
  const jumped: number[] = []
  const longest = { leaseMs: 30_000 }
  const aheadMs = Array.from({ length: count }, () => 0)
  const nodes = aheadMs.map(
    (_, index): RecordNode => ({
      name: `redis-${index}`,
      execute: async () => ({
        kind: 'granted',
        attempt: 1,
        nodeMs: Math.floor(clock.wallMs()) + (aheadMs[index] ?? 0),
      }),
    }),
  )
  const watched = watchNodeClocks({
    nodes,
    clock,
    events: { publish: (event) => void events.push(event) },
    suspendMs: () => longest.leaseMs,
    maxSkewMs: 50,
    enforce,
    toleratedStepMs: 1_000,
    onForwardJump: (index) => void jumped.push(index),
  })
  const ask = (index: number, command: RecordCommand) => watched.nodes[index]!.execute(command)
  const saw = (index: number) => {
    const at = clock.monoMs()
    const nodeMs = Math.floor(clock.wallMs()) + (aheadMs[index] ?? 0)
    watched.saw(index, { nodeMs, sentMonoMs: at, receivedMonoMs: at }, clock.wallMs())
  }
  return { clock, events, aheadMs, longest, ask, jumped, saw, watched }
}

test('the votes of a node do not count after a step of its clock until the longest lease is over', async () => {
  const { clock, events, aheadMs, ask } = watch(1)
  expect(await ask(0, READ)).toMatchObject({ kind: 'granted' })
  await clock.advance(1_000)
  aheadMs[0] = 2_000
  expect(await ask(0, READ)).toMatchObject({ kind: 'quarantined' })
  expect(events).toContainEqual(
    expect.objectContaining({ kind: 'clock_stepped', node: 'redis-0', suspendedMs: 30_000 }),
  )
  await clock.advance(29_999)
  expect(await ask(0, READ)).toMatchObject({ kind: 'quarantined' })
  await clock.advance(1)
  expect(await ask(0, READ)).toMatchObject({ kind: 'granted' })
})

test('a suspended vote waits for the leases of a sidecar whose longer ones become known meanwhile', async () => {
  const { clock, aheadMs, longest, ask } = watch(1)
  await ask(0, READ)
  aheadMs[0] = -2_000
  expect(await ask(0, READ)).toMatchObject({ kind: 'quarantined' })
  await clock.advance(29_000)
  longest.leaseMs = 60_000
  await clock.advance(30_999)
  expect(await ask(0, READ)).toMatchObject({ kind: 'quarantined' })
  await clock.advance(1)
  expect(await ask(0, READ)).toMatchObject({ kind: 'granted' })
})

describe('at first sight', () => {
  test('a node apart from most clocks has no vote for the longest lease: it may have just jumped', async () => {
    const { clock, aheadMs, ask, saw } = watch(5)
    aheadMs[3] = 60_000
    for (const index of [0, 1, 2, 3, 4]) saw(index)
    expect(await ask(3, READ)).toMatchObject({ kind: 'quarantined' })
    expect(await ask(0, READ)).toMatchObject({ kind: 'granted' })
    await clock.advance(29_999)
    expect(await ask(3, READ)).toMatchObject({ kind: 'quarantined' })
    await clock.advance(1)
    expect(await ask(3, READ)).toMatchObject({ kind: 'granted' })
  })

  test('once a majority shows one time its votes count, and so does that of a later node', async () => {
    const { clock, aheadMs, ask } = watch(5)
    aheadMs[1] = 900
    expect(await ask(0, READ)).toMatchObject({ kind: 'quarantined' })
    await ask(1, READ)
    expect(await ask(2, READ)).toMatchObject({ kind: 'granted' })
    expect(await ask(0, READ)).toMatchObject({ kind: 'granted' })
    await clock.advance(3_600_000)
    await Promise.all([0, 1, 2].map((index) => ask(index, READ)))
    expect(await ask(4, READ)).toMatchObject({ kind: 'granted' })
  })

  test('the vote of a node whose clock was stepped before does not count, wherever the clock stands now', async () => {
    const { clock, aheadMs, ask, saw } = watch(3)
    aheadMs[0] = -60_000
    for (const index of [0, 1, 2]) saw(index)
    await clock.advance(10)
    aheadMs[0] = 0
    expect(await ask(0, READ)).toMatchObject({ kind: 'quarantined' })
    await ask(1, READ)
    expect(await ask(0, READ)).toMatchObject({ kind: 'quarantined' })
  })
})

test('a step of our own wall clock costs no vote', async () => {
  const { clock, events, aheadMs, ask } = watch(1)
  await ask(0, READ)
  await clock.advance(100)
  clock.stepWall(3_600_000)
  aheadMs[0] = -3_600_000
  expect(await ask(0, READ)).toMatchObject({ kind: 'granted' })
  expect(events.filter(({ kind }) => kind === 'clock_stepped')).toEqual([])
})

test('an offset is known of each answer, and reported when it becomes too large', async () => {
  const { clock, events, aheadMs, ask, watched } = watch(1)
  for (let n = 0; n < 50; n += 1) {
    await ask(0, READ)
    await clock.advance(10)
  }
  const offsets = () => events.filter(({ kind }) => kind === 'clock_offset')
  expect([offsets(), watched.clockOf(0)?.skewed]).toEqual([[], false])
  aheadMs[0] = 60
  await ask(0, READ)
  expect(offsets().at(-1)).toMatchObject({ skewed: true, offsetMs: 60 })
})

test('enforced, the limit refuses claims unsent while a majority of the clocks is too far off', async () => {
  const { aheadMs, ask } = watch(3, true)
  aheadMs[0] = 500
  await ask(0, CLAIM)
  expect(await ask(1, CLAIM)).toMatchObject({ kind: 'granted' })
  aheadMs[2] = 500
  await ask(2, CLAIM)
  const unsent = { kind: 'unreachable', reason: 'refused' }
  expect(await ask(0, CLAIM)).toMatchObject(unsent)
  expect(await ask(1, CLAIM)).toMatchObject(unsent)
  expect(await ask(1, READ)).toMatchObject({ kind: 'granted' })
})

describe('a forward clock jump', () => {
  const all = [0, 1, 2, 3, 4]

  async function steady(count = 5) {
    const watched = watch(count)
    const askAll = (which = all) => Promise.all(which.map((index) => watched.ask(index, READ)))
    await askAll()
    await watched.clock.advance(5_000)
    await askAll()
    await watched.clock.advance(1_000)
    return { ...watched, askAll }
  }

  test.each([[[2]], [[2, 4]]])(
    'a forward jump of %j makes them forget, as soon as a majority shows no jump',
    async (which) => {
      const { aheadMs, jumped, ask, askAll } = await steady()
      for (const index of which) aheadMs[index] = 60_000
      for (const index of which) expect(await ask(index, READ)).toMatchObject({ kind: 'quarantined' })
      expect(jumped).toEqual([])
      await askAll([0, 1])
      expect(jumped).toEqual([])
      await askAll([3])
      expect(jumped).toEqual(which.length === 1 ? [2] : [2, 4])
      await askAll()
      expect(jumped).toHaveLength(which.length)
    },
  )

  test('a forward jump of all nodes, as after a suspension, makes none forget and suspends all votes', async () => {
    const { aheadMs, jumped, clock, askAll } = await steady()
    aheadMs.fill(60_000)
    for (const answer of await askAll()) expect(answer).toMatchObject({ kind: 'quarantined' })
    await clock.advance(30_000)
    for (const answer of await askAll()) expect(answer).toMatchObject({ kind: 'granted' })
    expect(jumped).toEqual([])
  })

  test('while a forward jump can not be attributed, the votes do not count, however long that takes', async () => {
    const { aheadMs, jumped, clock, ask, askAll } = await steady()
    aheadMs[2] = 60_000
    await askAll([0, 1, 2])
    await clock.advance(300_000)
    expect(await ask(2, READ)).toMatchObject({ kind: 'quarantined' })
    expect(jumped).toEqual([])
    await ask(4, READ)
    expect(jumped).toEqual([2])
  })

  test('a tolerated jump or a step back makes no node forget: it waits for the leases', async () => {
    const { aheadMs, jumped, askAll } = await steady()
    aheadMs[1] = 900
    aheadMs[2] = -60_000
    const answers = await askAll()
    expect(answers.map(({ kind }) => kind)).toEqual([
      'granted',
      'quarantined',
      'quarantined',
      'granted',
      'granted',
    ])
    expect(jumped).toEqual([])
  })

  test('a forward jump that is undone between two answers to commands is seen by the polls of the node', async () => {
    const { aheadMs, jumped, clock, askAll, saw } = await steady()
    aheadMs[2] = 60_000
    for (const index of all) saw(index)
    expect(jumped).toEqual([2])
    await clock.advance(10)
    aheadMs[2] = 0
    expect((await askAll())[2]).toMatchObject({ kind: 'quarantined' })
  })
})
