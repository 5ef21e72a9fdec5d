/** The budget of a claim is hard: with a majority of real nodes hung, a refusal comes within it from the first request on. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OpenNodes, openNodes } from '../../src/app/cluster.ts'
import { openStack, type Stack } from '../../src/app/stack.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createBackground } from '../../src/core/background.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import { systemClock } from '../../src/system/clock.ts'
import { systemRandom } from '../../src/system/random.ts'
import { eventually } from '../support/eventually.ts'
import { type RunningClock, runningClock } from '../support/held-clock.ts'
import { fingerprintOf, keyOf } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

const BUDGET_MS = 100
/** What a process may take to run a timer that is due, by a clock that stops while the process is stalled. */
const LATE_MS = 30

/** For measuring alone: the nodes’ clocks do not stop with this process. */
let clock: RunningClock
let servers: RedisServers
let nodes: OpenNodes
let stack: Stack
const events: CoreEvent[] = []

beforeAll(async () => {
  clock = runningClock()
  servers = await startRedisServers(5, { founded: true })
  const loaded = loadConfig(
    {
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      FENCEPOST_PROXY_LISTEN: 'off',
      FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
    },
    () => '',
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded))
  const outside = {
    clock: systemClock,
    random: systemRandom,
    events: { publish: (event: CoreEvent) => void events.push(event) },
  }
  nodes = await openNodes(loaded.config, systemClock, systemRandom, outside.events)
  const lateClaims = createBackground(Number.POSITIVE_INFINITY, (cause) => {
    throw cause
  })
  stack = openStack(loaded.config, nodes, { ...outside, tracedNode: (node) => node, required: 3, lateClaims })
})
afterAll(async () => {
  for (const index of [0, 1, 2]) servers.resume(index)
  stack[Symbol.dispose]()
  await nodes[Symbol.asyncDispose]()
  await servers[Symbol.asyncDispose]()
  clock[Symbol.dispose]()
})

const claim = (name: string) =>
  stack.leases.claim({
    key: keyOf(name),
    fingerprint: fingerprintOf(name),
    leaseMs: 30_000,
    retentionMs: 60_000,
    budgetMs: BUDGET_MS,
  })

test('with three of five nodes hung, every refusal comes within the budget, before a breaker is open and after', async () => {
  await eventually('a claim is granted', async () => (await claim('before')).kind !== 'unavailable')
  for (const index of [0, 1, 2]) servers.pause(index)
  const tookMs: number[] = []
  const isOpen = () => events.some((event) => event.kind === 'quorum_breaker_changed')
  let beforeOpen = 0
  for (let n = 0; n < 8; n += 1) {
    if (!isOpen()) beforeOpen += 1
    const startedMs = clock.monoMs()
    expect(await claim(`hung-${n}`)).toMatchObject({ kind: 'unavailable', required: 3 })
    tookMs.push(clock.monoMs() - startedMs)
  }
  expect(beforeOpen).toBeGreaterThanOrEqual(3)
  expect(Math.max(...tookMs)).toBeLessThan(BUDGET_MS + LATE_MS)
})

test('what the nodes grant after the refusal is withdrawn when they go on', async () => {
  for (const index of [0, 1, 2]) servers.resume(index)
  await eventually('the key is free', async () => (await claim('hung-0')).kind === 'granted')
})
