/** How closely the event loop is looked at, and that what is shown does not depend on it. */
import { expect, test } from 'vitest'
import { type DelayMonitor, eventLoopLag } from '../../src/observe/event-loop-lag.ts'

/** Monitors by their interval, with what the next scrape finds in each. */
function watched(p99Ms: Readonly<Record<number, number>>) {
  const enabled = new Set<number>()
  const resets: number[] = []
  const monitor = (everyMs: number): DelayMonitor => ({
    count: p99Ms[everyMs] === undefined ? 0 : 1,
    enable: () => enabled.add(everyMs),
    disable: () => enabled.delete(everyMs),
    reset: () => void resets.push(everyMs),
    percentile: () => (p99Ms[everyMs] ?? 0) * 1e6,
  })
  const lag = eventLoopLag(monitor)
  const scrape = async () => (await lag.metric.getForPromString()).values.map(({ value }) => value)
  return { served: lag.served, scrape, resets, looking: () => [...enabled] }
}

test.each([
  ['nothing yet', '', 500],
  ['a request', 'r', 10],
  ['requests', 'rr', 10],
  ['a scrape', 's', 500],
  ['a scrape after a request', 'rs', 10],
  ['a second scrape without a request between', 'rss', 500],
  ['a request between the scrapes', 'rsrs', 10],
  ['a request after idle scrapes', 'rssr', 10],
] as const)('after %s (%s) one monitor looks, every %i ms', async (_, steps, everyMs) => {
  const { served, scrape, looking } = watched({})
  for (const step of steps) step === 'r' ? served() : await scrape()
  expect(looking()).toEqual([everyMs])
})

test('an idle loop shows the same as one that is looked at every 10 ms', async () => {
  const { served, scrape } = watched({ 10: 11, 500: 501 })
  const [idle] = await scrape()
  served()
  const [busy] = await scrape()
  expect([idle, busy].map((seconds) => seconds?.toFixed(6))).toEqual(['0.011000', '0.011000'])
})

test('a stall shows, idle or busy', async () => {
  const { served, scrape } = watched({ 10: 260, 500: 750 })
  expect((await scrape())[0]).toBeCloseTo(0.26)
  served()
  expect((await scrape())[0]).toBeCloseTo(0.26)
})

test('before the first look it shows 0 and not a negative time', async () => {
  expect(await watched({}).scrape()).toEqual([0])
})

test('each scrape shows the time since the one before', async () => {
  const { served, scrape, resets } = watched({ 10: 11, 500: 501 })
  await scrape()
  expect(resets).toEqual([500])
  served()
  await scrape()
  expect(resets).toEqual([500, 10, 10])
})
