import { expect, test } from 'vitest'
import type { CoreEvent } from '../../../src/core/events.ts'
import { NODE_BREAKER, withBreaker } from '../../../src/core/nodes/quorum-breaker.ts'
import type { NodeAnswer, RecordNode } from '../../../src/core/ports.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const READ = { kind: 'read', key: 'dedup:a:b:c:d' } as const
const WELL: NodeAnswer = { kind: 'record', record: undefined, nodeMs: 1 }
const SILENT: NodeAnswer = { kind: 'unreachable', reason: 'timeout', detail: 'no answer within 80 ms' }
const DOWN: NodeAnswer = { kind: 'unreachable', reason: 'refused', detail: 'not connected' }
const BAD_RECORD: NodeAnswer = { kind: 'unreachable', reason: 'error', detail: 'WRONGTYPE', answered: true }

function broken(first: NodeAnswer) {
  const clock = new VirtualClock()
  const events: CoreEvent[] = []
  let says = first
  let asked = 0
  const node: RecordNode = {
    name: 'redis-0',
    execute: async () => {
      asked += 1
      return says
    },
  }
  const guarded = withBreaker(node, {
    clock,
    random: seededRandom(1),
    events: { publish: (e) => void events.push(e) },
  })
  return {
    clock,
    ask: () => guarded.execute(READ),
    say: (answer: NodeAnswer) => {
      says = answer
    },
    asked: () => asked,
    changes: () => events.flatMap((e) => (e.kind === 'breaker_changed' ? [e.to] : [])),
  }
}

test('a silent node gets three calls, then one probe at a time, until it answers again', async () => {
  const { clock, ask, say, asked, changes } = broken(SILENT)
  for (let n = 0; n < 100; n += 1) {
    await ask()
    await clock.advance(n < 3 ? 50 : 0)
  }
  expect(asked()).toBe(3)
  expect(await ask()).toMatchObject({ kind: 'unreachable', reason: 'refused' })

  await clock.advance(NODE_BREAKER.openMs)
  await Promise.all([ask(), ask(), ask()])
  expect(asked()).toBe(4)

  say(WELL)
  await clock.advance(2 * NODE_BREAKER.openMs)
  expect(await ask()).toEqual(WELL)
  expect(await ask()).toEqual(WELL)
  expect(changes()).toEqual(['open', 'half_open', 'open', 'half_open', 'closed'])
})

test('a node is found again within its longest pause, however long it was silent', async () => {
  const { clock, ask, say } = broken(SILENT)
  for (let second = 0; second < 60; second += 1) {
    await ask()
    await clock.advance(1_000)
  }
  say(WELL)
  await clock.advance(NODE_BREAKER.openMaxMs)
  expect(await ask()).toEqual(WELL)
})

test.each([
  ['that is down', DOWN],
  ['that cannot use one record', BAD_RECORD],
])('a node %s gets every call', async (_, answer) => {
  const { ask, asked } = broken(answer)
  for (let n = 0; n < 20; n += 1) await ask()
  expect(asked()).toBe(20)
})

test('a probe that finds the connection down leaves the breaker open', async () => {
  const { clock, ask, say, asked, changes } = broken(SILENT)
  for (let n = 0; n < 3; n += 1) {
    await ask()
    await clock.advance(50)
  }
  say(DOWN)
  await clock.advance(NODE_BREAKER.openMaxMs)
  await ask()
  await ask()
  expect(asked()).toBe(4)
  expect(changes()).toEqual(['open', 'half_open', 'open'])
})

test('one late call, however many commands it carried, does not make a silent node', async () => {
  const { ask, say, asked, changes } = broken(SILENT)
  await Promise.all(Array.from({ length: 128 }, ask))
  say(WELL)
  expect(await ask()).toEqual(WELL)
  expect(asked()).toBe(129)
  expect(changes()).toEqual([])
})
