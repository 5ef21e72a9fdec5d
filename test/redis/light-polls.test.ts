/** Sidecars that watch the same nodes share the full polls; what such a poll would find, all of them still find. */
import type { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import { LightPolls } from '../../src/core/nodes/light-polls.ts'
import type { Member } from '../../src/core/nodes/member.ts'
import { INCARNATION_KEY } from '../../src/redis/keys.ts'
import type { RedisNodesOptions } from '../../src/redis/nodes.ts'
import { systemClock, systemRandom } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

const SIDECARS = 4
const NAMES = ['redis-0', 'redis-1', 'redis-2']

async function start(): Promise<{ servers: RedisServers; sidecars: readonly Sidecar[]; first: Redis }> {
  const servers = await startRedisServers(3)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const sidecars: Sidecar[] = []
  for (let n = 0; n < SIDECARS; n += 1) {
    const sidecar = await joinCluster(servers.urls, { names: NAMES })
    onTestFinished(() => sidecar[Symbol.asyncDispose]())
    await sidecar.votes(3)
    sidecars.push(sidecar)
  }
  const first = clientOf(servers.at(0).url)
  return { servers, sidecars, first }
}

type Polls = { readonly whole: number; readonly lightPolls: number }

/** Each full poll reads the configuration; each light poll the time, as each script does. */
async function pollsOf(client: Redis): Promise<Polls> {
  const stats = await client.info('commandstats')
  const calls = (name: string) =>
    Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0)
  return { whole: calls('config\\|get'), lightPolls: calls('time') - calls('eval') - calls('evalsha') }
}

/** So many light polls later. */
async function lightPollsOn(client: Redis, more: number): Promise<Polls> {
  const before = await pollsOf(client)
  let now = before
  await eventually('they polled on', async () => {
    now = await pollsOf(client)
    return now.lightPolls - before.lightPolls >= more
  })
  return { whole: now.whole - before.whole, lightPolls: now.lightPolls - before.lightPolls }
}

const statesOf = (sidecars: readonly Sidecar[]) => sidecars.map((sidecar) => sidecar.states()[0])

test('of several sidecars without requests most polls are light', async () => {
  const { first } = await start()
  await lightPollsOn(first, 20)
  const { whole, lightPolls } = await lightPollsOn(first, 200)
  // Every tenth poll, and those of whoever writes a heartbeat.
  expect(whole).toBeLessThan(lightPolls / 2)
})

test('a node whose eviction policy changes is unfit for every sidecar', async () => {
  const { sidecars, first } = await start()
  await lightPollsOn(first, 20)
  await first.config('SET', 'maxmemory-policy', 'allkeys-lru')
  await eventually('all know', () => statesOf(sidecars).every((state) => state === 'unfit'))
})

test('a node whose incarnation is gone loses its vote with every sidecar, without a command, and gets it back', async () => {
  const { sidecars, first } = await start()
  await lightPollsOn(first, 20)
  await first.del(INCARNATION_KEY)
  const lost = (sidecar: Sidecar) =>
    sidecar.events.some(
      (event) =>
        event.kind === 'node_state' &&
        event.to === 'quarantined' &&
        event.node === 'redis-0' &&
        event.from === 'voting',
    )
  await eventually('all know', () => sidecars.every(lost))
  await eventually('it votes', () => statesOf(sidecars).every((state) => state === 'voting'))
})

test('a node that hangs is down for every sidecar, and votes again when it goes on', async () => {
  const { servers, sidecars, first } = await start()
  await lightPollsOn(first, 20)
  servers.pause(0)
  await eventually('all know', () => statesOf(sidecars).every((state) => state === 'down'))
  servers.resume(0)
  await eventually('it votes', () => statesOf(sidecars).every((state) => state === 'voting'))
})

test('while a node does not vote, the others are polled in full', async () => {
  const { servers, sidecars, first } = await start()
  await servers.stop(1)
  await eventually('all know', () => sidecars.every((sidecar) => sidecar.states()[1] === 'down'))
  const before = await pollsOf(first)
  let now = before
  await eventually('they polled on', async () => {
    now = await pollsOf(first)
    return now.whole - before.whole >= 50
  })
  // Some were under way.
  expect(now.lightPolls - before.lightPolls).toBeLessThanOrEqual(SIDECARS)
})

/** The next poll after that: 'light' where it was enough. */
type Change = (member: Member, other: Member, lightPolls: LightPolls) => void

test.each<[what: string, change: Change, poll: 'light' | 'everything']>([
  ['nothing happened', () => {}, 'light'],
  [
    'a command was sent to it: new claims must fit into its memory',
    (member) => counted(member).calls++,
    'everything',
  ],
  ['it has another connection', (member) => void Object.assign(member, { connection: 2 }), 'everything'],
  [
    'this process wrote its heartbeat',
    (member, _, lightPolls) => lightPolls.polled(member, BEGAN, false),
    'everything',
  ],
  [
    'another node does not vote',
    (_, other) => void Object.assign(other, { state: { kind: 'down', reason: '' } }),
    'everything',
  ],
  [
    'what another node promised is in doubt',
    (_, other) => void Object.assign(other, { invalidated: { incarnation: INCARNATION, reason: '' } }),
    'everything',
  ],
])('%s', async (_, change, poll) => {
  const { members, lightPolls } = stub()
  const [member, other] = members as [Member, Member]
  lightPolls.polled(member, BEGAN, true)
  change(member, other, lightPolls)
  expect(await lightPolls.suffices(member, () => true)).toBe(poll === 'light')
})

test.each<[what: string, change: Change, enough: boolean]>([
  ['both nodes were polled lightly', () => {}, true],
  [
    'one of them was polled in full',
    (member, _, lightPolls) => lightPolls.polled(member, BEGAN, true),
    false,
  ],
  ['a command was sent to one since', (member) => counted(member).calls++, false],
  ['one has another connection since', (member) => void Object.assign(member, { connection: 2 }), false],
  [
    'one lost its vote, as its light poll and the poll after it found',
    (_, other) => void Object.assign(other, { state: { kind: 'unfit', reason: '', hadJoined: false } }),
    false,
  ],
  [
    'what one promised is in doubt',
    (_, other) => void Object.assign(other, { invalidated: { incarnation: INCARNATION, reason: '' } }),
    false,
  ],
])('light polls are enough where %s', async (_, change, enough) => {
  const { members, lightPolls } = stub()
  const [member, other] = members as [Member, Member]
  for (const one of members) lightPolls.polled(one, BEGAN, true)
  expect(lightPolls.areEnough).toBe(false)
  for (const one of members) await lightPolls.suffices(one, () => true)
  change(member, other, lightPolls)
  expect(lightPolls.areEnough).toBe(enough)
})

test('polls are further apart where light ones are enough, and not while a node is away', async () => {
  const servers = await startRedisServers(3)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const everyMs = 41
  const delaysMs: number[] = []
  /** Notes when polls are due: without jitter no other timer is set for these times. */
  const clock: Clock = {
    ...systemClock,
    timer: (delayMs, fire) => {
      if (delayMs === everyMs || delayMs === 1.75 * everyMs) delaysMs.push(delayMs)
      return systemClock.timer(delayMs, fire)
    },
  }
  const random = { ...systemRandom, fraction: () => 0.5 }
  const sidecar = await joinCluster(servers.urls, { names: NAMES, inspectEveryMs: everyMs, clock, random })
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await sidecar.votes(3)
  await eventually('they are further apart', () => delaysMs.includes(1.75 * everyMs))
  await servers.stop(2)
  await eventually('it knows', () => sidecar.states()[2] === 'down')
  const since = delaysMs.length
  await eventually('it polled on', () => delaysMs.length >= since + 5)
  expect(delaysMs.slice(since)).not.toContain(1.75 * everyMs)
})

test('the tenth poll is full', async () => {
  const { members, lightPolls } = stub()
  const member = members[0] as Member
  lightPolls.polled(member, BEGAN, true)
  const sufficed = []
  for (let poll = 0; poll < 10; poll += 1) sufficed.push(await lightPolls.suffices(member, () => true))
  expect(sufficed).toEqual([...Array.from({ length: 9 }, () => true), false])
})

test('a node that refuses a command of a light poll is polled in full', async () => {
  const { members, lightPolls } = stub(true)
  const member = members[0] as Member
  lightPolls.polled(member, BEGAN, true)
  expect(await lightPolls.suffices(member, () => true)).toBe(false)
})

const INCARNATION = '1:a1:n:5'
const BEGAN = { connection: 1, calls: 7 }

const counted = (member: Member) => member.node as unknown as { calls: number }

/** Two nodes that vote, whose heartbeat is fresh. @param refused one of the commands of a light poll */
function stub(refused = false) {
  const heartbeat = { runId: 'a1', nodeMs: 999_900 }
  const seen = { nodeMs: 1_000_000, incarnation: INCARNATION, quarantineMs: 400, heartbeat }
  const members = [0, 1].map(() => ({
    node: { calls: 7 },
    link: { status: 'ready', lightPoll: () => Promise.resolve(refused ? undefined : seen) },
    connection: 1,
    state: {
      kind: 'voting',
      facts: { runId: 'a1', incarnation: INCARNATION, cluster: { id: 'c', quarantineMs: 400 } },
    },
    invalidated: undefined,
  })) as unknown as Member[]
  const options = { clock: systemClock } as RedisNodesOptions
  return {
    members,
    lightPolls: new LightPolls(
      { options, members, closed: false },
      { polledLightly: () => {} },
      async () => {},
    ),
  }
}
