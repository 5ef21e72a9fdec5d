// Requests in flight on a listener are counted, and a drain waits for them, no longer than its grace.
import { expect, test } from 'vitest'
import { trackInFlight } from '../../../src/http/server/in-flight.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

function trackerAt() {
  const clock = new VirtualClock()
  const inFlight = trackInFlight(clock)
  const ended: string[] = []
  const drain = (name: string, graceMs: number): void => {
    inFlight.drain()
    void inFlight.idleOrAfter(graceMs).then(() => ended.push(name))
  }
  return { clock, inFlight, ended, drain }
}

test('a drain with nothing in flight ends at once', async () => {
  const { clock, inFlight, ended, drain } = trackerAt()
  expect(inFlight.draining).toBe(false)
  drain('only', 1_000)
  await clock.advance(0)
  expect({ ended, draining: inFlight.draining, timers: clock.pendingTimers }).toEqual({
    ended: ['only'],
    draining: true,
    timers: 0,
  })
})

test('a drain ends with the last request in flight, and leaves no timer', async () => {
  const { clock, inFlight, ended, drain } = trackerAt()
  inFlight.begin()
  inFlight.begin()
  drain('only', 1_000)
  inFlight.end()
  await clock.advance(500)
  expect({ ended: [...ended], count: inFlight.count }).toEqual({ ended: [], count: 1 })
  inFlight.end()
  await clock.advance(0)
  expect({ ended, count: inFlight.count, timers: clock.pendingTimers }).toEqual({
    ended: ['only'],
    count: 0,
    timers: 0,
  })
})

test('a request that outlasts the grace is still counted', async () => {
  const { clock, inFlight, ended, drain } = trackerAt()
  inFlight.begin()
  drain('only', 1_000)
  await clock.advance(999)
  expect(ended).toEqual([])
  await clock.advance(1)
  expect({ ended, count: inFlight.count }).toEqual({ ended: ['only'], count: 1 })
})

test('a second drain with a shorter grace ends by itself, and the first still waits', async () => {
  const { clock, inFlight, ended, drain } = trackerAt()
  inFlight.begin()
  drain('patient', 1_000)
  drain('hasty', 0)
  await clock.advance(0)
  expect(ended).toEqual(['hasty'])
  inFlight.end()
  await clock.advance(0)
  expect(ended).toEqual(['hasty', 'patient'])
})
