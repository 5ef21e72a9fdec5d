/** Nodes whose data are set back while their process goes on: their incarnation comes back with the data, and is no proof. */
import type { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import type { Member } from '../../src/core/nodes/member.ts'
import { HEARTBEAT_KEY, INCARNATION_KEY, QUARANTINE_KEY } from '../../src/redis/keys.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster, keyOf, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

const NODES = 5

/** Far longer than a test: polls happen only where the test asks for them. */
const UNWATCHED = { inspectEveryMs: 60_000 }

type Scene = {
  readonly servers: RedisServers
  readonly admins: readonly Redis[]
  readonly urls: readonly string[]
}

/** Five servers for the nodes, and one more that may be a replica of one. */
async function start(...lines: readonly string[]): Promise<Scene> {
  // A replica need not wait for others that would be served with it.
  const config = ['repl-diskless-sync-delay 0', ...lines]
  const servers = await startRedisServers(NODES + 1, { config })
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const admins = servers.urls.map((url) => {
    return clientOf(url, { maxRetriesPerRequest: 1 })
  })
  return { servers, admins, urls: servers.urls.slice(0, NODES) }
}

async function join({ urls }: Scene, more: Parameters<typeof joinCluster>[1] = {}): Promise<Sidecar> {
  const sidecar = await joinCluster(urls, { names: urls.map((url) => new URL(url).host), ...more })
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await eventually('every node was polled', () => !sidecar.states().includes('down'))
  return sidecar
}

function admin({ admins }: Scene, index: number): Redis {
  const client = admins[index]
  if (client === undefined) throw new RangeError(`no server has the index ${index}`)
  return client
}

const replid = async (client: Redis) => /^master_replid:(\w+)/m.exec(await client.info('replication'))?.[1]

/** Lets a server have the data of another one. */
async function replicate(scene: Scene, replica: number, master: number): Promise<void> {
  const port = Number(new URL(scene.servers.at(master).url).port)
  await admin(scene, replica).replicaof('127.0.0.1', port)
  await eventually('the replica has the data of its master', async () =>
    (await admin(scene, replica).info('replication')).includes('master_link_status:up'),
  )
}

async function promote(scene: Scene, replica: number): Promise<void> {
  await admin(scene, replica).replicaof('NO', 'ONE')
}

/** Nodes 3 and 4 have no room for it: a bare majority records it. */
async function recordedByThree(scene: Scene, sidecar: Sidecar, name: string): Promise<void> {
  for (const index of [3, 4]) await admin(scene, index).config('SET', 'maxmemory', '1')
  const before = sidecar.events.length
  const answersOf = (index: number) =>
    sidecar.events
      .slice(before)
      .filter((event) => event.kind === 'node_answered' && event.node === sidecar.name(index)).length
  await sidecar.carryOut(name)
  // A majority may have recorded it before these have refused it, each command as often as it was sent.
  await eventually('all have answered claim and outcome', () => {
    const answers = [0, 1, 2, 3, 4].map(answersOf)
    return answers.every((count) => count >= 2 && count === answers[0])
  })
  for (const index of [3, 4]) await admin(scene, index).config('SET', 'maxmemory', '0')
  const there = await Promise.all([0, 1, 2, 3, 4].map((index) => admin(scene, index).exists(keyOf(name))))
  expect(there).toEqual([1, 1, 1, 0, 0])
}

async function poll(sidecar: Sidecar, index: number): Promise<void> {
  await sidecar.nodes.inspect(sidecar.nodes.members[index] as Member)
}

/** Without the other two that recorded it, a majority with node 0 still knows the request. */
async function isRememberedWith(sidecar: Sidecar, { servers }: Scene, name: string): Promise<void> {
  for (const index of [1, 2]) servers.pause(index)
  expect(await sidecar.claim(name)).toMatchObject({ kind: 'duplicate', outcome: outcomeOf(name) })
  for (const index of [1, 2]) servers.resume(index)
}

function reasons({ events, name }: Sidecar, since = 0): readonly string[] {
  return events
    .slice(since)
    .flatMap((event) => (event.kind === 'node_state' && event.node === name(0) ? [event.reason] : []))
}

const WAS_REPLICA = 'it was a replica of another server'
const SET_BACK = 'its data were set back'

/** Node 0 has a record that its replica lacks, and then takes the data of that replica. */
async function failedBack(scene: Scene, sidecar: Sidecar, meanwhile = async () => {}): Promise<void> {
  await replicate(scene, 5, 0)
  await promote(scene, 5)
  await recordedByThree(scene, sidecar, 'payment')
  await replicate(scene, 0, 5)
  expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(0)
  await meanwhile()
  // Its incarnation has come back with the data, and names its run. As long as it is a replica nobody can take it away.
  const run = /run_id:(\w+)/.exec(await admin(scene, 0).info('server'))?.[1]
  expect(await admin(scene, 0).get(INCARNATION_KEY)).toContain(`1:${run}:`)
  await promote(scene, 0)
}

test('a node that was a replica rejoins, also where its incarnation came back with the data of its replica', async () => {
  const scene = await start()
  const sidecar = await join(scene)
  await sidecar.votes(NODES)
  await failedBack(scene, sidecar, () =>
    eventually('it is unfit', () => sidecar.states()[0] === 'unfit').then(() => {}),
  )
  await eventually('it votes again', () => sidecar.states()[0] === 'voting')
  expect(reasons(sidecar)).toContainEqual(expect.stringContaining(WAS_REPLICA))
  expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(1)
  await isRememberedWith(sidecar, scene, 'payment')
})

test('a node that was a replica between two polls rejoins', async () => {
  const scene = await start()
  const sidecar = await join(scene, UNWATCHED)
  await sidecar.votes(NODES)
  await failedBack(scene, sidecar)
  await poll(sidecar, 0)
  expect(sidecar.states()[0]).toBe('quarantined')
  expect(reasons(sidecar)).toContainEqual(expect.stringContaining(WAS_REPLICA))
  await sidecar.votes(NODES)
  expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(1)
  await isRememberedWith(sidecar, scene, 'payment')
  // And is not one that forgot for ever.
  const before = sidecar.events.length
  await poll(sidecar, 0)
  expect(reasons(sidecar, before)).toEqual([])
})

test('a node that refuses a command because it is a replica is polled at once', async () => {
  const scene = await start()
  const founder = await join(scene)
  await founder.votes(NODES)
  await founder[Symbol.asyncDispose]()
  const sidecar = await join(scene, UNWATCHED)
  await sidecar.votes(NODES)
  await replicate(scene, 5, 0)
  await promote(scene, 5)
  await replicate(scene, 0, 5)
  await sidecar.carryOut('without it')
  await eventually('it is unfit', () => sidecar.states()[0] === 'unfit')
})

test('a sidecar that starts later sees that a node was a replica since it joined', async () => {
  const scene = await start()
  const before = await join(scene, UNWATCHED)
  await before.votes(NODES)
  await failedBack(scene, before)
  await before[Symbol.asyncDispose]()
  const after = await join(scene)
  await eventually('it votes again', () => after.gotVote(0, 0))
  expect(reasons(after)).toContainEqual(expect.stringContaining(WAS_REPLICA))
  await after.votes(NODES)
  expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(1)
  await isRememberedWith(after, scene, 'payment')
})

test('a node that was a replica twice rejoins twice', async () => {
  const scene = await start()
  const sidecar = await join(scene, UNWATCHED)
  await sidecar.votes(NODES)
  for (const name of ['one', 'two']) {
    await replicate(scene, 5, 0)
    await promote(scene, 5)
    await recordedByThree(scene, sidecar, name)
    await replicate(scene, 0, 5)
    await promote(scene, 0)
    await poll(sidecar, 0)
    expect(sidecar.states()[0]).toBe('quarantined')
    await sidecar.votes(NODES)
    expect(await admin(scene, 0).exists(keyOf(name))).toBe(1)
  }
})

test('a node whose replica comes and goes votes on, also where its replication id changes', async () => {
  const scene = await start('repl-backlog-ttl 1')
  const sidecar = await join(scene)
  await sidecar.votes(NODES)
  const before = sidecar.events.length
  const ids = [await replid(admin(scene, 0))]
  await replicate(scene, 5, 0)
  ids.push(await replid(admin(scene, 0)))
  await promote(scene, 5)
  await eventually(
    'the node frees what it kept for a replica',
    async () => (await replid(admin(scene, 0))) !== ids[1],
  )
  ids.push(await replid(admin(scene, 0)))
  expect(new Set(ids).size).toBe(3)
  await poll(sidecar, 0)
  expect(sidecar.states()[0]).toBe('voting')
  expect(reasons(sidecar, before)).toEqual([])
  const late = await join(scene)
  await late.votes(NODES)
  expect(late.kinds()).not.toContain('node_joined')
})

test('a node that rejoined after it was a replica votes on when it frees what it kept for replicas', async () => {
  const scene = await start('repl-backlog-ttl 1')
  const sidecar = await join(scene)
  await sidecar.votes(NODES)
  const since = sidecar.events.length
  await replicate(scene, 0, 5)
  await promote(scene, 0)
  await eventually('it votes again', () => sidecar.gotVote(0, since))
  const [id, before] = [await replid(admin(scene, 0)), sidecar.events.length]
  await eventually('its replication id changes', async () => (await replid(admin(scene, 0))) !== id)
  await poll(sidecar, 0)
  expect(sidecar.states()[0]).toBe('voting')
  expect(reasons(sidecar, before)).toEqual([])
})

/** As versions before this rule wrote it. */
async function olderIncarnation(scene: Scene, index: number): Promise<void> {
  const incarnation = await admin(scene, index).get(INCARNATION_KEY)
  await admin(scene, index).set(INCARNATION_KEY, incarnation?.split(':').slice(0, 4).join(':') ?? '')
}

test('incarnations of earlier versions stand on nodes that were replicas before, and fall where they become one', async () => {
  const scene = await start()
  const before = await join(scene, UNWATCHED)
  await before.votes(NODES)
  await replicate(scene, 0, 5)
  await promote(scene, 0)
  await poll(before, 0)
  await before.votes(NODES)
  for (const index of [0, 1, 2, 3, 4]) await olderIncarnation(scene, index)
  await before[Symbol.asyncDispose]()

  const sidecar = await join(scene, UNWATCHED)
  await sidecar.votes(NODES)
  await poll(sidecar, 0)
  expect(sidecar.kinds()).not.toContain('node_joined')
  await failedBack(scene, sidecar)
  await poll(sidecar, 0)
  expect(sidecar.states()[0]).toBe('quarantined')
  await sidecar.votes(NODES)
  await isRememberedWith(sidecar, scene, 'payment')
})

test('a node that becomes a replica in its quarantine begins it anew', async () => {
  const scene = await start()
  const sidecar = await join(scene, { ...UNWATCHED, quarantineMs: 3_000 })
  await sidecar.votes(NODES)
  await admin(scene, 0).flushall()
  await poll(sidecar, 0)
  expect(sidecar.states()[0]).toBe('quarantined')
  const nonce = () => admin(scene, 0).hget(QUARANTINE_KEY, 'nonce')
  const first = await nonce()
  await replicate(scene, 5, 0)
  await promote(scene, 5)
  await replicate(scene, 0, 5)
  await promote(scene, 0)
  expect(await nonce()).toBe(first)
  await poll(sidecar, 0)
  expect(await nonce()).not.toBe(first)
})

/** The node has had more heartbeats since than its data will show. */
async function setBack(
  scene: Scene,
  sidecar: Sidecar,
  name: string,
  meanwhile = async () => {},
): Promise<void> {
  const heartbeat = (of: Sidecar) => {
    const state = of.nodes.states()[0]?.state
    return state !== undefined && 'facts' in state ? (state.facts.heartbeat?.nodeMs ?? 0) : 0
  }
  await eventually('it has a heartbeat', () => heartbeat(sidecar) > 0)
  await admin(scene, 0).save()
  const saved = heartbeat(sidecar)
  await recordedByThree(scene, sidecar, name)
  const own = new URL(scene.servers.at(0).url).host
  await eventually('others know of later heartbeats', async () => {
    const noted = await Promise.all(
      [1, 2, 3, 4].map((index) => admin(scene, index).hget(HEARTBEAT_KEY, `of:${own}`)),
    )
    return heartbeat(sidecar) > saved + 1_500 && noted.every((ms) => Number(ms) > saved + 1_500)
  })
  await meanwhile()
  // The process goes on, as that of a virtual machine does which is restored with its memory.
  await admin(scene, 0).call('DEBUG', 'RELOAD', 'NOSAVE')
  expect(await admin(scene, 0).exists(keyOf(name))).toBe(0)
}

const DEBUGGED = 'enable-debug-command yes'

test('a node whose data are set back within its run rejoins', async () => {
  const scene = await start(DEBUGGED)
  const sidecar = await join(scene, { inspectEveryMs: 200 })
  await sidecar.votes(NODES)
  const before = sidecar.events.length
  await setBack(scene, sidecar, 'payment')
  await eventually('it votes again', () => sidecar.gotVote(0, before))
  expect(reasons(sidecar, before)).toContainEqual(expect.stringContaining(SET_BACK))
  expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(1)
  await isRememberedWith(sidecar, scene, 'payment')
})

test('a sidecar that starts later learns from other nodes that the data of one were set back', async () => {
  const scene = await start(DEBUGGED)
  const before = await join(scene, { inspectEveryMs: 200 })
  await before.votes(NODES)
  await setBack(scene, before, 'payment', async () => before[Symbol.asyncDispose]())
  const after = await join(scene, { inspectEveryMs: 200 })
  await eventually('it rejoins', () => after.kinds().includes('node_joined'))
  await after.votes(NODES)
  expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(1)
  await isRememberedWith(after, scene, 'payment')
})

/**
 * Node 0 is saved while it waits, when everything was copied to it; then it votes, and its data are set back to the moment of
 * the saving, once `since` has happened.
 */
async function setBackToItsQuarantine(
  scene: Scene,
  sidecar: Sidecar,
  since: () => Promise<void>,
): Promise<void> {
  await admin(scene, 0).flushall()
  await poll(sidecar, 0)
  expect(sidecar.states()[0]).toBe('quarantined')
  // There is nothing yet that could be copied.
  const runs = [1, 2, 3].map(async (index) =>
    (await admin(scene, index).info('server')).match(/run_id:(\w+)/)?.at(1),
  )
  await admin(scene, 0).hset(QUARANTINE_KEY, 'done', (await Promise.all(runs)).join(','))
  await admin(scene, 0).save()
  await sidecar.votes(NODES)
  await eventually('others know of its heartbeats', async () => {
    const own = new URL(scene.servers.at(0).url).host
    const incarnation = await admin(scene, 0).get(INCARNATION_KEY)
    const noted = await Promise.all(
      [1, 2, 3, 4].map((index) => admin(scene, index).hget(HEARTBEAT_KEY, `counter:${own}`)),
    )
    return noted.every((note) => note !== null && incarnation?.split(':')[2] === note.split(':')[0])
  })
  await recordedByThree(scene, sidecar, 'payment')
  await since()
  await admin(scene, 0).call('DEBUG', 'RELOAD', 'NOSAVE')
  expect(await admin(scene, 0).exists(INCARNATION_KEY, keyOf('payment'))).toBe(0)
}

test('a node that has voted, and whose data are set back to its quarantine, waits and is told once more', async () => {
  const scene = await start(DEBUGGED)
  const sidecar = await join(scene, { inspectEveryMs: 200, quarantineMs: 1_500 })
  await sidecar.votes(NODES)
  await setBackToItsQuarantine(scene, sidecar, async () => {})
  const nonce = await admin(scene, 0).hget(QUARANTINE_KEY, 'nonce')
  await poll(sidecar, 0)
  await sidecar.votes(NODES)
  expect(await admin(scene, 0).get(INCARNATION_KEY)).not.toContain(nonce)
  expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(1)
  await isRememberedWith(sidecar, scene, 'payment')
})

// Bug: whoever had copied to it remembered what it had copied, and not that it was gone: the node voted without.
test('a node that waits, and whose data are set back behind what was copied to it, is told everything once more', async () => {
  const scene = await start(DEBUGGED)
  const sidecar = await join(scene, { inspectEveryMs: 200, quarantineMs: 1_500 })
  await sidecar.votes(NODES)
  await recordedByThree(scene, sidecar, 'payment')
  await admin(scene, 0).flushall()
  await poll(sidecar, 0)
  expect(sidecar.states()[0]).toBe('quarantined')
  await admin(scene, 0).save()
  const client = sidecar.nodes.members[0]?.client as Redis
  const evalsha = client.evalsha.bind(client) as (...args: readonly unknown[]) => Promise<unknown>
  let setBack = false
  const whenCopied = async (...args: readonly unknown[]) => {
    if (args.includes('join') && !setBack) {
      setBack = true
      expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(1)
      await admin(scene, 0).call('DEBUG', 'RELOAD', 'NOSAVE')
    }
    return evalsha(...args)
  }
  Object.assign(client, { evalsha: whenCopied })
  await sidecar.votes(NODES)
  expect(setBack).toBe(true)
  expect(await admin(scene, 0).exists(keyOf('payment'))).toBe(1)
  await isRememberedWith(sidecar, scene, 'payment')
})
