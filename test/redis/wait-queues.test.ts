// The wait queue on real Redis: the Lua rule equals the TypeScript rule, and which replies the adapter waits for.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type QueueEntry, updateEntry, type WaitQueue } from '../../src/core/claims/wait-queue.ts'
import { waitQueueKey } from '../../src/redis/keys.ts'
import { createRedisWaitQueues, sendEntry } from '../../src/redis/wait-queues.ts'
import { systemClock } from '../../src/system/clock.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { openRedisNode } from '../support/redis-node.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { scriptCalls } from '../support/script-calls.ts'
import { seedOfRun } from '../support/seeded-random.ts'

const anEntry = fc.record({
  process: fc.constantFrom(...['a', 'b', 'c'].map((digit) => digit.repeat(16))),
  span: fc.constantFrom([0, 0], [1, 1], [3, 9], [5, 5], [2 ** 40, 2 ** 40 + 3]),
  draws: fc.constantFrom(0, 0, 1, 7),
  openTo: fc.constantFrom(0, 0, 0, 4),
  aliveMs: fc.constantFrom(1, 5, 60_000, 120_000),
})

test('one node does the same with an entry in Lua and in TypeScript', async () => {
  await using servers = await startRedisServers(1)
  await using opened = await openRedisNode({ url: servers.at(0).url })
  let sequences = 0
  let compared = 0
  const sequence = fc.asyncProperty(fc.array(anEntry, { minLength: 5, maxLength: 40 }), async (steps) => {
    sequences += 1
    let queue: WaitQueue | undefined
    let generation = 0
    for (const { span, ...one } of steps) {
      const entry: QueueEntry = { ...one, first: span[0] ?? 0, last: span[1] ?? 0 }
      const key = `${sequences}:${generation}`
      const real = await sendEntry(opened.client, key, entry)
      const model = updateEntry(queue, entry, real.nodeMs)
      const ends = [...(queue?.slots.values() ?? []), ...(model.queue?.slots.values() ?? [])]
      // Redis expires the key by a clock that it read before the script asks for the time.
      if (ends.some(({ untilNodeMs }) => Math.abs(untilNodeMs - real.nodeMs) <= 2)) {
        generation += 1
        queue = undefined
        continue
      }
      expect(model.reply, JSON.stringify(entry)).toEqual(real)
      const stands = [...(model.queue?.slots.values() ?? [])].some(
        ({ untilNodeMs }) => untilNodeMs > real.nodeMs + 30_000,
      )
      if (stands || model.queue === undefined)
        expect(await opened.client.exists(waitQueueKey(key))).toBe(stands ? 1 : 0)
      queue = model.queue
      compared += 1
    }
  })
  await fc.assert(sequence, { seed: seedOfRun('the rule of a line'), numRuns: 100, endOnFailure: false })
  expect(compared).toBeGreaterThan(700)
})

test('an update returns the replies that came in time, and does not wait for a stopped node', async () => {
  await using servers = await startRedisServers(5)
  // Inspected rarely: a node that is silent to a look would get a new connection, with no calls in flight.
  await using sidecar = await joinCluster(servers.urls, { inspectEveryMs: 600_000 })
  const clients = () => sidecar.nodes.members.map(({ client }) => client)
  let told = 0
  const untaken = () => {
    told += 1
  }
  const queues = createRedisWaitQueues({
    clients,
    nodeCount: 5,
    deadlineMs: 10_000,
    clock: systemClock,
    untaken,
  })
  const look = () =>
    queues.update('k', { process: 'a'.repeat(16), first: 0, last: 0, draws: 1, openTo: 0, aliveMs: 2_000 })
  await look()
  // The connection of the looks: later commands on it are answered after them.
  const client = clients()[1]!
  const before = await scriptCalls(client)
  servers.pause(1)
  for (let looks = 0; looks < 40; looks += 1) expect((await look()).length).toBeGreaterThanOrEqual(3)
  servers.resume(1)
  // The calls in flight during the stop were bounded.
  expect((await scriptCalls(client)) - before).toBeLessThanOrEqual(16)
  await servers.kill(0)
  await servers.kill(2)
  expect(await look()).toHaveLength(3)
  expect(told).toBe(0)
  await servers.kill(3)
  const few = createRedisWaitQueues({ clients, nodeCount: 5, deadlineMs: 5_000, clock: systemClock, untaken })
  const replies = await few.update('k', {
    process: 'b'.repeat(16),
    first: 0,
    last: 0,
    draws: 1,
    openTo: 0,
    aliveMs: 2_000,
  })
  expect([replies.length, told]).toEqual([2, 1])
})

test('a node with another type under the key of a wait queue gives no reply', async () => {
  await using servers = await startRedisServers(1)
  await using opened = await openRedisNode({ url: servers.at(0).url })
  await opened.client.lpush(waitQueueKey('k'), 'x')
  const queues = createRedisWaitQueues({
    clients: () => [opened.client],
    nodeCount: 1,
    deadlineMs: 1_000,
    clock: systemClock,
    untaken: () => {},
  })
  const entry = { process: 'a'.repeat(16), first: 0, last: 0, draws: 1, openTo: 0, aliveMs: 2_000 }
  expect(await queues.update('k', entry)).toEqual([])
})
