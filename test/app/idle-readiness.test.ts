// Readiness of a pod without requests: its own probe claims must suffice, however long each takes.
import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { openTelemetry, type Watched } from '../../src/app/telemetry.ts'
import { loadConfig } from '../../src/config/load.ts'
import type { Leases } from '../../src/core/ports.ts'
import { seededRandom } from '../support/seeded-random.ts'
import { seriesOf } from '../support/series.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const MINUTE_MS = 60_000

async function idlePod(env: Record<string, string> = {}) {
  const loaded = loadConfig(
    { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_PROXY_LISTEN: 'off', ...env },
    () => '',
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  const clock = new VirtualClock()
  const telemetry = await openTelemetry(loaded.config, {
    version: '1.2.3',
    nodeVersion: '26.0.0',
    instance: 'pod-1',
    logTo: new Writable({ write: (_chunk, _encoding, done) => done() }),
    clock,
    random: seededRandom(1),
    nodeNames: ['a', 'b', 'c'],
    nodeCount: 3,
    required: 2,
  })
  const nodes = { callMs: 5, released: 'released' as 'released' | 'unavailable' }
  const held = new Set<string>()
  let underWay = 0
  const took = <T>(answer: T) => {
    underWay += 1
    return new Promise<T>((resolve) => {
      clock.timer(nodes.callMs, () => {
        underWay -= 1
        resolve(answer)
      })
    })
  }
  const leases = {
    claim: ({ key }: { key: string }) => {
      const kind = held.has(key) ? 'held' : 'granted'
      held.add(key)
      return took(kind === 'held' ? { kind, retryAfterMs: 1_000 } : { kind, lease: { key } })
    },
    release: ({ key }: { key: string }) => {
      if (nodes.released === 'released') held.delete(key)
      return took({ kind: nodes.released })
    },
  } as unknown as Pick<Leases, 'claim' | 'release'>
  let watched: Watched = {
    phase: 'serving',
    nodes: ['a', 'b', 'c'].map((name) => ({ name, state: 'voting' }) as Watched['nodes'][number]),
    agreed: true,
    standstills: [],
    nodeStats: undefined,
    certificates: [],
    inFlight: 0,
    bodyBytes: 0,
    bodyLimitBytes: 1,
    leasesReserved: 0,
    writeBackPending: 0,
    sweeping: undefined,
  }
  telemetry.start([leases], () => watched)
  const readiness = () => telemetry.readiness(watched)
  const synthetic = async (result: string) =>
    seriesOf((await telemetry.scrape(watched, undefined)).text).get(
      `fencepost_synthetic_probe_total{result="${result}"}`,
    )
  const requested = (durationMs: number, result: 'granted' | 'unavailable' = 'granted') =>
    telemetry.events.publish({
      kind: 'claim_ended',
      result,
      recordKey: 'k',
      rounds: 1,
      durationMs,
    })
  const changed = (node: string) =>
    telemetry.events.publish({
      kind: 'node_state',
      node,
      address: node,
      from: 'down',
      to: 'voting',
      reason: 'it has joined',
    })
  const seenOff = (node: string, skewed: boolean) => {
    const clock = { offsetMs: skewed ? 200 : 0, uncertaintyMs: 1, skewed }
    watched = {
      ...watched,
      nodes: watched.nodes.map((one) => (one.name === node ? { ...one, clock } : one)),
    }
  }
  return {
    clock,
    nodes,
    changed,
    seenOff,
    readiness,
    synthetic,
    requested,
    underWay: () => underWay,
    [Symbol.asyncDispose]: telemetry[Symbol.asyncDispose],
  }
}

test.each([1, 20, 40, 60, 100, 119])('knows its p95 where a claim takes %i ms', async (callMs) => {
  await using pod = await idlePod()
  pod.nodes.callMs = callMs
  await pod.clock.advance(2 * MINUTE_MS)
  for (let look = 0; look < 60; look += 1) {
    await pod.clock.advance(5_000)
    expect(pod.readiness().acquireP95Ms).toBeGreaterThanOrEqual(callMs)
  }
})

test('is unready while claims are slow, and ready again once they are fast enough', async () => {
  await using pod = await idlePod()
  pod.nodes.callMs = 200
  await pod.clock.advance(3 * MINUTE_MS)
  expect(pod.readiness()).toMatchObject({
    ready: false,
    reasons: [expect.stringContaining('claims are slow')],
  })
  pod.nodes.callMs = 40
  await pod.clock.advance(3 * MINUTE_MS)
  expect(pod.readiness()).toMatchObject({ ready: true, reasons: [] })
})

test.each([
  { enforce: 'on', refusing: { ready: false, reasons: [expect.stringContaining('2 of 3 clocks')] } },
  { enforce: 'off', refusing: { ready: true, reasons: [] } },
])('clock.enforce $enforce: whether a pod is ready that sees most clocks too far off', async (row) => {
  await using pod = await idlePod({ FENCEPOST_CLOCK_ENFORCE: row.enforce })
  pod.seenOff('a', true)
  expect(pod.readiness()).toMatchObject({ ready: true, reasons: [] })
  pod.seenOff('c', true)
  expect(pod.readiness()).toMatchObject(row.refusing)
  pod.seenOff('a', false)
  expect(pod.readiness()).toMatchObject({ ready: true, reasons: [] })
})

/** Synthetic claims of the next while. */
async function claimsWithin(pod: Awaited<ReturnType<typeof idlePod>>, ms: number): Promise<number> {
  const before = (await pod.synthetic('ok')) ?? 0
  await pod.clock.advance(ms)
  return ((await pod.synthetic('ok')) ?? 0) - before
}

test('claims until it knows its p95, and then once in a window while all is calm', async () => {
  await using pod = await idlePod()
  const first = await claimsWithin(pod, MINUTE_MS)
  expect(first).toBeGreaterThanOrEqual(20)
  expect(first).toBeLessThanOrEqual(26)
  expect(await claimsWithin(pod, 60 * MINUTE_MS)).toBeLessThanOrEqual(66)
  expect(pod.readiness().acquireP95Ms).toBeGreaterThanOrEqual(5)
})

test.each([0, 15_000, 30_000, 45_000, 59_000])(
  'a calm pod notices slow nodes at its next claim, and is unready 25 s later; slow %i ms after it was calm',
  async (afterMs) => {
    await using pod = await idlePod()
    await pod.clock.advance(20 * MINUTE_MS + afterMs)
    pod.nodes.callMs = 200
    await pod.clock.advance(MINUTE_MS + 25_000)
    expect(pod.readiness().ready).toBe(false)
  },
)

test.each<[what: string, disturb: (pod: Awaited<ReturnType<typeof idlePod>>) => void]>([
  ['a node that changed its state', (pod) => pod.changed('a')],
  ['a claim that no majority answered', (pod) => pod.requested(5, 'unavailable')],
  ['a claim that took longer than it may for a pod to become ready', (pod) => pod.requested(121)],
])('after %s it claims as often as at its start, for a window', async (_, disturb) => {
  await using pod = await idlePod()
  await pod.clock.advance(20 * MINUTE_MS)
  disturb(pod)
  expect(await claimsWithin(pod, MINUTE_MS)).toBeGreaterThanOrEqual(15)
  await pod.clock.advance(MINUTE_MS)
  expect(await claimsWithin(pod, 10 * MINUTE_MS)).toBeLessThanOrEqual(20)
})

test('requests are evidence, and make it claim less often', async () => {
  await using pod = await idlePod()
  await pod.clock.advance(5 * MINUTE_MS)
  let claims = 0
  for (let request = 0; request < 120; request += 1) {
    pod.requested(7)
    claims += await claimsWithin(pod, 10_000)
  }
  expect(claims).toBeLessThanOrEqual(20 * 3)
  expect(pod.readiness().acquireP95Ms).toBeGreaterThanOrEqual(5)
})

test('a pod that was calm forgets its old claims once requests come', async () => {
  await using pod = await idlePod()
  await pod.clock.advance(20 * MINUTE_MS)
  for (let second = 0; second < 60; second += 1) {
    for (let request = 0; request < 10; request += 1) pod.requested(50)
    await pod.clock.advance(1_000)
  }
  await pod.clock.advance(5_000)
  expect(pod.readiness().acquireP95Ms).toBeGreaterThanOrEqual(50)
})

test('a probe claim that could not be released is not taken for another holder’s', async () => {
  await using pod = await idlePod()
  pod.nodes.released = 'unavailable'
  await pod.clock.advance(MINUTE_MS)
  expect(await pod.synthetic('false_positive')).toBe(0)
})

test.each([
  { FENCEPOST_READINESS_WINDOW: '14400ms' },
  { FENCEPOST_READINESS_MIN_SAMPLES: '83' },
  { FENCEPOST_READINESS_WINDOW: '1s', FENCEPOST_READINESS_MIN_SAMPLES: '1' },
])(
  'a pod that its requests made unready becomes ready without any, at the accepted bound: %j',
  async (env) => {
    await using pod = await idlePod(env)
    for (let second = 0; second < 60; second += 1) {
      for (let request = 0; request < 100; request += 1) pod.requested(200)
      await pod.clock.advance(1_000)
    }
    expect(pod.readiness().ready).toBe(false)
    pod.nodes.callMs = 110
    await pod.clock.advance(5 * MINUTE_MS)
    expect(pod.readiness().ready).toBe(true)
  },
)

test('makes no claim any more once it is disposed of, also where one is under way then', async () => {
  const pod = await idlePod()
  pod.nodes.callMs = 100
  while (pod.underWay() === 0) await pod.clock.advance(10)
  await pod[Symbol.asyncDispose]()
  await pod.clock.advance(MINUTE_MS)
  expect(pod.clock.pendingTimers).toBe(0)
})
