/** The names of sidecars on three real nodes: an operator learns who holds a record from any node that knows. */

import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLeases } from '../../src/core/claims/leases.ts'
import { SILENT } from '../../src/core/events.ts'
import { sidecarMarkIn, sidecarMarkOf } from '../../src/core/operator/record-view.ts'
import { createEmbeddedNodes } from '../../src/embedded/node.ts'
import { createSidecarNames } from '../../src/redis/sidecar-names.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { fingerprintOf, keyOf } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const HOUR_MS = 3_600_000
const [MARK, NAME] = [sidecarMarkOf('orders-7d9f-b'), 'orders-7d9f-b']

const clock = new VirtualClock()
const answers = [true, true, true]
let clients: readonly Redis[]
const servers = duringTests(() => startRedisServers(3))
beforeAll(() => {
  clients = servers.urls.map((url) => new Redis(url))
})
afterAll(() => {
  for (const client of clients) client.disconnect()
})

const names = createSidecarNames({
  clients: () => clients.map((client, node) => (answers[node] ? client : undefined)),
  clock,
})
const known = () => Promise.all(clients.map((client) => client.get(`dedup::sidecar:${MARK}`)))

test('a name is on every node, soon where one was away, and again within the hour where one forgot', async () => {
  const over = new AbortController()
  answers[2] = false
  const announcing = names.announce(MARK, NAME, over.signal)
  await eventually(
    'two nodes know it',
    async () => (await known()).filter((name) => name === NAME).length === 2,
  )
  answers[2] = true
  await eventually('the third knows it', async () => {
    await clock.advance(10_000)
    return (await known())[2] === NAME
  })
  await clients[0]?.flushall()
  await eventually('the first knows it again', async () => {
    await clock.advance(HOUR_MS)
    return (await known())[0] === NAME
  })
  over.abort()
  await announcing
  // A sidecar that ended is known for a week.
  expect(await clients[1]?.pttl(`dedup::sidecar:${MARK}`)).toBeGreaterThan(6 * 24 * HOUR_MS)
})

test('one node that knows a name is enough, and without one the name is not known', async () => {
  await clients[0]?.set(`dedup::sidecar:${MARK}`, NAME)
  await clients[1]?.del(`dedup::sidecar:${MARK}`)
  answers[2] = false
  expect(await names.nameOf(MARK)).toBe(NAME)
  answers[0] = false
  expect(await names.nameOf(MARK)).toBeUndefined()
  answers.fill(true)
})

test('the owner of a claim begins with the mark of its sidecar, and is another one each time', async () => {
  const nodes = createEmbeddedNodes(3, systemClock, 10_000, SILENT)
  const leases = createLeases({
    quorum: createRedlockQuorum({ nodes, clock: systemClock, events: SILENT }),
    clock: systemClock,
    random: systemRandom,
    events: SILENT,
    ownerMark: MARK,
  })
  const owners = await Promise.all(
    ['a', 'b'].map(async (name) => {
      const of = { key: keyOf(name), fingerprint: fingerprintOf(name), leaseMs: 30_000, retentionMs: 60_000 }
      const claimed = await leases.claim({ ...of, budgetMs: 4_000 })
      return claimed.kind === 'granted' ? claimed.lease.owner : claimed.kind
    }),
  )
  expect(owners.map(sidecarMarkIn)).toEqual([MARK, MARK])
  expect(owners.map(({ length }) => length)).toEqual([32, 32])
  expect(owners[0]).not.toBe(owners[1])
})
