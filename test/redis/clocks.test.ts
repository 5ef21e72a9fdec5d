/** Real servers whose wall clocks jump, drift and are corrected. Needs a C compiler for the library that does it. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { declareLoss } from '../../src/core/nodes/shown-nodes.ts'
import { QUARANTINE_KEY, REJOIN_KEY } from '../../src/redis/keys.ts'
import { RedisNodes } from '../../src/redis/nodes.ts'
import { compileClockShim, ShiftedClock } from '../faults/clock-shim.ts'
import { type FaultLink, startFaultLink } from '../faults/fault-proxy.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, keyOf, outcomeOf, QUARANTINE_MS, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

/** Beyond the retention of a minute in this file. */
const PAST_RETENTION_MS = 120_000

type Leaping = { readonly servers: RedisServers; readonly clocks: readonly ShiftedClock[] }

async function start(count: number): Promise<Leaping> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-clocks-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const shim = compileClockShim(folder)
  const clocks = Array.from({ length: count }, (_, index) => new ShiftedClock(shim, folder, `node-${index}`))
  onTestFinished(() => {
    for (const clock of clocks) clock[Symbol.dispose]()
  })
  const servers = await startRedisServers(count, { env: (index) => clocks[index]?.env ?? {} })
  onTestFinished(() => servers[Symbol.asyncDispose]())
  return { servers, clocks }
}

async function joined(urls: readonly string[], more = {}, enforce = false): Promise<Sidecar> {
  const sidecar = await joinCluster(urls, more, { enforce })
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  return sidecar
}

function at(servers: RedisServers, index: number): Redis {
  return clientOf(servers.at(index).url)
}

/** Long enough to see every node's clock run steadily before it jumps. */
async function seenSteady(sidecar: Sidecar): Promise<void> {
  for (let n = 0; n < 3; n += 1) await sidecar.carryOut(`steady ${n} ${performance.now()}`)
}

const duplicate = (name: string) => ({ kind: 'duplicate', outcome: outcomeOf(name) })

test('a node whose clock jumps past the retention and back votes again only with its records restored', async () => {
  const { servers, clocks } = await start(5)
  const sidecar = await joined(servers.urls)
  const other = await joined(servers.urls)
  await sidecar.votes(5)
  await sidecar.carryOut('remembered')
  await seenSteady(sidecar)
  const client = at(servers, 2)
  expect(await client.exists(keyOf('remembered'))).toBe(1)

  clocks[2]?.set(PAST_RETENTION_MS)
  expect(await client.get(keyOf('remembered'))).toBeNull()
  await eventually('it is given up', () => sidecar.states()[2] === 'quarantined')
  clocks[2]?.set(0)
  // The state is kept on the node, so every sidecar knows it.
  await eventually('the other sidecar knows', () => other.states()[2] === 'quarantined')
  await sidecar.votes(5)
  expect(await client.exists(keyOf('remembered'))).toBe(1)
  // The sidecar that saw it first gives the reason; the other one finds the node in quarantine.
  expect([...sidecar.events, ...other.events]).toContainEqual(
    expect.objectContaining({
      kind: 'node_state',
      to: 'quarantined',
      reason: expect.stringContaining('jumped'),
    }),
  )
})

test('after a step of all clocks a sidecar with short leases grants nothing that one with longer leases still holds', async () => {
  const { servers, clocks } = await start(3)
  const quarantineMs = 3_500
  const long = await joined(servers.urls, { quarantineMs })
  const short = await joined(servers.urls)
  await long.votes(3)
  await short.votes(3)
  await seenSteady(short)
  const held = await long.claim('one holder', { leaseMs: 2_500 })
  if (held.kind !== 'granted') throw new Error(held.kind)
  // Tolerated: no node forgets by it. The nodes let the lease expire as much sooner.
  for (const clock of clocks) clock.set(900)
  const grantedMonoMs = await eventually(
    'it is taken over',
    async () => {
      const { kind } = await short.claim('one holder', { budgetMs: 100 })
      return kind === 'granted' ? performance.now() : undefined
    },
    { withinMs: 15_000 },
  )
  expect(grantedMonoMs).toBeGreaterThan(held.lease.validUntilMonoMs)
  expect(short.events).toContainEqual(
    expect.objectContaining({ kind: 'clock_stepped', suspendedMs: quarantineMs }),
  )
})

test('a request that two of three nodes knew is not executed again when the clock of one of them jumps', async () => {
  const { servers, clocks } = await start(3)
  const links: FaultLink[] = []
  for (const url of servers.urls) links.push(await startFaultLink(Number(new URL(url).port)))
  onTestFinished(async () => {
    for (const link of links) await link[Symbol.asyncDispose]()
  })
  const urls = links.map((link) => `redis://127.0.0.1:${link.port}`)
  // A node behind a held link costs a claim this long; the others must be able to answer meanwhile.
  const sidecar = await joined(urls, { deadlineMs: 500 })
  await sidecar.votes(3)

  // The third node never gets it.
  links[2]?.set({ hold: 'out' })
  await sidecar.carryOut('known to two')
  links[2]?.reset()
  links[2]?.heal()
  await sidecar.votes(3)
  await eventually('all are asked again', async () => {
    await seenSteady(sidecar)
    return (await at(servers, 2).dbsize()) > 3
  })
  expect(await at(servers, 2).exists(keyOf('known to two'))).toBe(0)

  // The node that forgets and the one that never knew would be a majority.
  clocks[0]?.set(PAST_RETENTION_MS)
  links[1]?.set({ hold: 'both' })
  expect(await at(servers, 0).get(keyOf('known to two'))).toBeNull()
  const untilMs = performance.now() + 3 * QUARANTINE_MS
  while (performance.now() < untilMs)
    expect(await sidecar.claim('known to two', { budgetMs: 100 })).toMatchObject({ kind: 'unavailable' })

  links[1]?.heal()
  await sidecar.votes(3)
  expect(await at(servers, 0).exists(keyOf('known to two'))).toBe(1)
  expect(await sidecar.claim('known to two')).toMatchObject(duplicate('known to two'))
})

test.each([
  [false, 'granted'],
  [true, 'unavailable'],
] as const)(
  'two of three clocks five seconds ahead from the start, enforced: %s: a claim is %s',
  async (enforce, kind) => {
    const { servers, clocks } = await start(3)
    for (const clock of clocks.slice(0, 2)) clock.set(5_000)
    const sidecar = await joined(servers.urls, {}, enforce)
    await sidecar.votes(3)
    await eventually(
      'it is seen',
      () => sidecar.events.filter((event) => event.kind === 'clock_offset' && event.skewed).length >= 2,
    )
    const budget = enforce ? { budgetMs: 200 } : {}
    expect(await sidecar.claim('by the clock', budget)).toMatchObject({ kind })
    for (const clock of clocks) clock.set(0)
    await eventually(
      'with right clocks it is granted',
      async () => {
        const claimed = await sidecar.claim(`right again ${performance.now()}`, { budgetMs: 200 })
        return claimed.kind === 'granted'
      },
      { withinMs: 15_000 },
    )
  },
)

test('a node whose clock jump is reported during its inspection does not vote after the inspection', async () => {
  await using servers = await startRedisServers(3)
  const first = await joinCluster(servers.urls)
  onTestFinished(() => first[Symbol.asyncDispose]())
  await first.votes(3)
  const before = first.nodes.members[0]?.node.incarnation
  // Its longer quarantine is written to each node after the first poll.
  const second = new RedisNodes({ ...first.nodes.options, quarantineMs: QUARANTINE_MS + 1 })
  onTestFinished(() => second[Symbol.asyncDispose]())
  const jump = { fromMonoMs: 0, untilMonoMs: Number.POSITIVE_INFINITY, aheadMs: 2_000, nodeMs: 0 }
  const tell = () => second.invalidateIncarnation(0, 'its clock jumped', jump)
  let told = false
  await second.connect((index) => {
    // Triggered by another node's answer, before this node has the quarantine.
    if (index === 0 && !told) setImmediate(tell)
    told ||= index === 0
    return true
  })
  await eventually('its incarnation was taken away, and it rejoins', () => {
    const { node, state } = first.nodes.members[0] ?? {}
    return state?.kind === 'voting' && node?.incarnation !== before
  })
})

// Bug: the claim on the work of copying expired by the clock that had been set back, so that the node had no vote for as long as that.
test('a node whose clock is set back rejoins although a sidecar that is gone was at work on it', async () => {
  const { servers, clocks } = await start(3)
  const sidecar = await joined(servers.urls)
  await sidecar.votes(3)
  const client = at(servers, 0)
  await client.multi().flushall().set(REJOIN_KEY, 'one that is gone', 'PX', 3_000).exec()
  clocks[0]?.set(-3_600_000)
  await eventually('it waits', () => sidecar.states().includes('quarantined'))
  await sidecar.votes(3)
})

// Bug: where the clocks were corrected after the declaration, the quarantine that began anew had forgotten it, and nothing went on.
test('a declared loss stands where the quarantine begins anew because the clock ran ahead', async () => {
  const { servers, clocks } = await start(3)
  const sidecar = await joined(servers.urls, { quarantineMs: 2_000 })
  await sidecar.votes(3)
  const waiting = [0, 1].map((index) => at(servers, index))
  for (const client of waiting) await client.flushall()
  await eventually('two wait', () => sidecar.states().filter((state) => state === 'quarantined').length === 2)
  const { id } = sidecar.nodes.cluster()
  expect(await declareLoss(sidecar.nodes, id, 'ann')).toMatchObject({ kind: 'declared' })
  const nonces = () => Promise.all(waiting.map((client) => client.hget(QUARANTINE_KEY, 'nonce')))
  const before = await nonces()
  for (const index of [0, 1]) clocks[index]?.set(5_000)
  await eventually('both begin anew', async () => {
    const now = await nonces()
    return now.every((nonce, index) => nonce !== null && nonce !== before[index])
  })
  await sidecar.votes(3)
})
