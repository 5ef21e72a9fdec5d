import { afterAll, beforeAll, expect, test } from 'vitest'
import type { CoreEvent } from '../../src/core/events.ts'
import { claimSynthetically } from '../../src/core/health/synthetic-claims.ts'
import { PROBE_KEY } from '../../src/redis/keys.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { duringTests } from '../support/during-tests.ts'
import { joinCluster, type Sidecar } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

let sidecar: Sidecar

const servers = duringTests(() => startRedisServers(3))
beforeAll(async () => {
  sidecar = await joinCluster(servers.urls)
})
afterAll(() => sidecar[Symbol.asyncDispose]())

test('healthy Redis nodes grant a synthetic claim once, and leave no key held', async () => {
  const published: CoreEvent[] = []
  const events = { publish: (event: CoreEvent) => void published.push(event) }
  const { leases } = sidecar
  const ports = { leases, clock: systemClock, random: systemRandom, events }
  const key = `${PROBE_KEY}pod-1:1`
  const claimed = await claimSynthetically(key, 2_000, ports)
  expect(published).toMatchObject([{ kind: 'synthetic_claim', result: 'ok' }])
  expect(claimed.left).toBe(false)
  expect((await leases.read(key)).kind).toBe('released')
})
