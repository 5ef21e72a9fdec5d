// Synthetic claims where there is no traffic to judge by: each one proves the promise, or says how it fails.
import { expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import { type CoreEvent, SILENT } from '../../../src/core/events.ts'
import { claimSynthetically } from '../../../src/core/health/synthetic-claims.ts'
import type { Leases } from '../../../src/core/ports.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { seededRandom } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const KEY = 'dedup:__probe__:pod-1'

function cluster() {
  const clock = new VirtualClock()
  const random = seededRandom(1)
  const nodes = createEmbeddedNodes(5, clock, 10_000, SILENT)
  const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
  const leases = createLeases({ quorum, clock, random, events: SILENT })
  const published: CoreEvent[] = []
  const events = { publish: (event: CoreEvent) => void published.push(event) }
  const probe = (through: Pick<Leases, 'claim' | 'release'> = leases) =>
    clock.during(claimSynthetically(KEY, 100, { leases: through, clock, random, events }))
  const results = () =>
    published.map((event) => (event.kind === 'synthetic_claim' ? event.result : event.kind))
  return { nodes, leases, clock, probe, results }
}

test('on healthy nodes a synthetic claim is granted once and leaves no key held', async () => {
  const { leases, probe, results } = cluster()
  await probe()
  await probe()
  expect(results()).toEqual(['ok', 'ok'])
  expect((await leases.read(KEY)).kind).toBe('released')
})

test('with two nodes stopped a synthetic claim is granted once', async () => {
  const { nodes, probe, results } = cluster()
  nodes[0]?.stop()
  nodes[1]?.stop()
  await probe()
  expect(results()).toEqual(['ok'])
})

test('without a majority the result is unknown', async () => {
  const { nodes, probe, results } = cluster()
  for (const node of nodes.slice(0, 3)) node.stop()
  await probe()
  expect(results()).toEqual(['error'])
})

test('a synthetic key that another claimant holds is a false positive', async () => {
  const { leases, probe, results } = cluster()
  await leases.claim({
    key: KEY,
    fingerprint: 'a'.repeat(64),
    leaseMs: 30_000,
    retentionMs: 60_000,
    budgetMs: 100,
  })
  await probe()
  expect(results()).toEqual(['false_positive'])
})

test('two grants of one key are a false negative', async () => {
  const { leases, probe, results } = cluster()
  let nth = 0
  const forgetful: Pick<Leases, 'claim' | 'release'> = {
    claim: (request) => {
      nth += 1
      return leases.claim({ ...request, key: `${request.key}:${nth}` })
    },
    release: leases.release,
  }
  await probe(forgetful)
  expect(results()).toEqual(['false_negative'])
})
