// The line on real Redis: the Lua rule and the TypeScript rule cannot be told apart, and what the adapter waits for.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Line, type Standing, standIn } from '../../src/core/claims/line.ts'
import { lineKey } from '../../src/redis/keys.ts'
import { callLine, createRedisLines } from '../../src/redis/lines.ts'
import { systemClock } from '../../src/system/clock.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { openRedisNode } from '../support/redis-node.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { seedOfRun } from '../support/seeded-random.ts'

const standing = fc.record({
  process: fc.constantFrom(...['a', 'b', 'c'].map((digit) => digit.repeat(16))),
  span: fc.constantFrom([0, 0], [1, 1], [3, 9], [5, 5], [2 ** 40, 2 ** 40 + 3]),
  draws: fc.constantFrom(0, 0, 1, 7),
  openTo: fc.constantFrom(0, 0, 0, 4),
  aliveMs: fc.constantFrom(1, 5, 60_000, 120_000),
})

test('what one node does, in Lua and in TypeScript', { timeout: 60_000 }, async () => {
  await using servers = await startRedisServers(1)
  await using opened = await openRedisNode({ url: servers.at(0).url })
  let sequences = 0
  let compared = 0
  const sequence = fc.asyncProperty(fc.array(standing, { minLength: 5, maxLength: 40 }), async (steps) => {
    sequences += 1
    let line: Line | undefined
    let generation = 0
    for (const { span, ...one } of steps) {
      const said: Standing = { ...one, first: span[0] ?? 0, last: span[1] ?? 0 }
      const key = `${sequences}:${generation}`
      const real = await callLine(opened.client, key, said)
      const model = standIn(line, said, real.nodeMs)
      const ends = [...(line?.places.values() ?? []), ...(model.line?.places.values() ?? [])]
      // Redis expires the key by a clock that it read before the script asks for the time.
      if (ends.some(({ untilNodeMs }) => Math.abs(untilNodeMs - real.nodeMs) <= 2)) {
        generation += 1
        line = undefined
        continue
      }
      expect(model.answer, JSON.stringify(said)).toEqual(real)
      const stands = [...(model.line?.places.values() ?? [])].some(
        ({ untilNodeMs }) => untilNodeMs > real.nodeMs + 30_000,
      )
      if (stands || model.line === undefined)
        expect(await opened.client.exists(lineKey(key))).toBe(stands ? 1 : 0)
      line = model.line
      compared += 1
    }
  })
  await fc.assert(sequence, { seed: seedOfRun('the rule of a line'), numRuns: 100, endOnFailure: false })
  expect(compared).toBeGreaterThan(700)
})

test('answers of those that give one in time; nobody waits for a node that stands still', async () => {
  await using servers = await startRedisServers(5)
  // Looked at rarely: a node that says nothing to a look would be given a new connection, and owe nothing on that one.
  await using sidecar = await joinCluster(servers.urls, { inspectEveryMs: 600_000 })
  const clients = () => sidecar.nodes.members.map(({ client }) => client)
  const lines = createRedisLines({ clients, nodeCount: 5, deadlineMs: 10_000, clock: systemClock })
  const look = () =>
    lines.stand('k', { process: 'a'.repeat(16), first: 0, last: 0, draws: 1, openTo: 0, aliveMs: 2_000 })
  await look()
  // The connection of the looks: what is asked over it afterwards is answered after them.
  const client = clients()[1]!
  const executed = async () =>
    Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(await client.info('commandstats'))?.[1] ?? 0)
  const before = await executed()
  servers.pause(1)
  for (let looks = 0; looks < 40; looks += 1) expect((await look()).length).toBeGreaterThanOrEqual(3)
  servers.resume(1)
  // What it owed when it stood still was bounded.
  expect((await executed()) - before).toBeLessThanOrEqual(16)
  await servers.kill(0)
  await servers.kill(2)
  expect(await look()).toHaveLength(3)
  await servers.kill(3)
  const few = createRedisLines({ clients, nodeCount: 5, deadlineMs: 5_000, clock: systemClock })
  const answers = await few.stand('k', {
    process: 'b'.repeat(16),
    first: 0,
    last: 0,
    draws: 1,
    openTo: 0,
    aliveMs: 2_000,
  })
  expect(answers).toHaveLength(2)
})

test('something else under the name of a line is no answer', async () => {
  await using servers = await startRedisServers(1)
  await using opened = await openRedisNode({ url: servers.at(0).url })
  await opened.client.lpush(lineKey('k'), 'x')
  const lines = createRedisLines({
    clients: () => [opened.client],
    nodeCount: 1,
    deadlineMs: 1_000,
    clock: systemClock,
  })
  const said = { process: 'a'.repeat(16), first: 0, last: 0, draws: 1, openTo: 0, aliveMs: 2_000 }
  expect(await lines.stand('k', said)).toEqual([])
})
