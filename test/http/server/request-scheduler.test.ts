// A burst of requests is spread over turns of the event loop, so that other work gets its turn.
import { expect, test } from 'vitest'
import { createRequestScheduler } from '../../../src/http/server/in-flight.ts'

function schedulerAt() {
  let nowMs = 0
  const scheduler = createRequestScheduler({ monoMs: () => nowMs })
  const order: number[] = []
  const arrive = async (request: number) => {
    const turn = scheduler.begin()
    if (turn !== undefined) await turn
    order.push(request)
  }
  return {
    arrive,
    order,
    advance: (ms: number) => {
      nowMs += ms
    },
  }
}
const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve))

test('a few requests of a burst begin at once, and the others in later turns, in order of arrival', async () => {
  const { arrive, order } = schedulerAt()
  const all = Array.from({ length: 100 }, (_, request) => arrive(request))
  const begun: number[] = [order.length]
  for (let turn = 0; turn < 3; turn += 1) {
    await turnOfLoop()
    begun.push(order.length)
  }
  expect(begun).toEqual([16, 32, 48, 64])
  await Promise.all(all)
  expect(order).toEqual(order.toSorted((a, b) => a - b))
})

test('a request that arrives while others wait begins after them', async () => {
  const { arrive, order, advance } = schedulerAt()
  const burst = Array.from({ length: 40 }, (_, request) => arrive(request))
  advance(1_000)
  const late = arrive(40)
  expect(order).toHaveLength(16)
  await Promise.all([...burst, late])
  expect(order.at(-1)).toBe(40)
})

test('requests that arrive one after the other never wait', () => {
  const { arrive, order, advance } = schedulerAt()
  for (let request = 0; request < 1_000; request += 1) {
    void arrive(request)
    if (request % 15 === 14) advance(5)
  }
  expect(order).toHaveLength(1_000)
})
