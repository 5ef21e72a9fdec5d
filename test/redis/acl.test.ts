import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { statusesOf } from '../../src/core/nodes/shown-nodes.ts'
import { createRedisAuditLog } from '../../src/redis/audit-log.ts'
import { COMMAND_RULES, NEEDED_COMMANDS } from '../../src/redis/commands.ts'
import { systemClock } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { joinCluster, outcomeOf } from '../support/redis-cluster.ts'
import { startRedisServers } from '../support/redis-servers.ts'

/** As the chart of nodes gives them to its user. */
const users = readFileSync(
  new URL('../../deploy/k8s/nodes-tls-acl/users.acl.example', import.meta.url),
  'utf8',
)
const line = (/^user fencepost .*$/m.exec(users)?.[0] ?? '').replace(/>\S+/, '>secret')

test('a cluster works with exactly the rights that the nodes give it', async () => {
  expect(line).toContain('-@all')
  await using servers = await startRedisServers(3, { config: ['user default off', line] })
  const addresses = servers.urls.map((url) => ({ url, username: 'fencepost', password: () => 'secret' }))
  const sidecar = await joinCluster(servers.urls, { addresses })
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  await sidecar.votes(3)
  await sidecar.carryOut('with few rights')
  const before = sidecar.events.length
  await servers.kill(0)
  await servers.start(0, { emptied: true })
  await eventually('it rejoins', () => sidecar.gotVote(0, before))
  await sidecar.votes(3)
  await servers.kill(1)
  expect(await sidecar.claim('with few rights')).toMatchObject({ outcome: outcomeOf('with few rights') })
  // Released and taken over records, too.
  const claimed = await sidecar.claim('given back')
  if (claimed.kind !== 'granted') throw new Error(claimed.kind)
  expect(await sidecar.leases.renew(claimed.lease)).toMatchObject({ kind: 'renewed' })
  expect(await sidecar.leases.release(claimed.lease)).toEqual({ kind: 'released' })
  const clients = () => sidecar.nodes.members.map(({ client }) => client)
  const auditLog = createRedisAuditLog({ clients, deadlineMs: 2_000, clock: systemClock })
  const entry = { id: 'an orphan', kind: 'orphan', atWallMs: 1, recordKey: 'k', fields: {} } as const
  await servers.start(1)
  await sidecar.votes(3)
  expect(await auditLog.append('dead-letters', entry)).toBe(true)
  expect(await auditLog.read('dead-letters', 1)).toEqual({ kind: 'entries', entries: [entry] })
  expect(await auditLog.remove('dead-letters', entry.id)).toBe(true)
})

test('a node whose user may not select the database of the URL is down, and no other database is used', async () => {
  await using servers = await startRedisServers(3, { config: ['user default on nopass ~* &* +@all', line] })
  const urls = servers.urls.map((url) => `${url}/1`)
  // Started before its user's rights were revoked.
  const before = await joinCluster(urls)
  onTestFinished(() => before[Symbol.asyncDispose]())
  await before.votes(3)
  await before.carryOut('in database 1')
  const addresses = urls.map((url) => ({ url, username: 'fencepost', password: () => 'secret' }))
  const after = await joinCluster(urls, { addresses })
  onTestFinished(() => after[Symbol.asyncDispose]())
  expect(statusesOf(after.nodes)).toMatchObject(
    [0, 1, 2].map(() => ({ fault: 'no_permission', reason: expect.stringContaining("'select'") })),
  )
  expect(await after.claim('in database 1', { budgetMs: 100 })).toMatchObject({ kind: 'unavailable' })
})

// Bug: it voted, and everything showed it as well, while each request was refused with 503.
// Bug: the log said `connection closed` alone, because a node that was down already had its reason told to nobody.
test('of a node whose password was changed the log says so, once', async () => {
  await using servers = await startRedisServers(3)
  await using sidecar = await joinCluster(servers.urls, { inspectEveryMs: 50 })
  await sidecar.votes(3)
  const admin = new Redis(servers.at(1).url)
  await admin.config('SET', 'requirepass', 'rotated')
  await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  const told = () =>
    sidecar.events.flatMap((event) =>
      event.kind === 'node_state' && event.node === sidecar.name(1) && event.to === 'down'
        ? [event.reason]
        : [],
    )
  await eventually('it is dialled again', () =>
    told().some((reason) => reason.startsWith('it demands a password (NOAUTH')),
  )
  const connections = async () =>
    Number(/total_connections_received:(\d+)/.exec(await admin.info('stats'))?.[1])
  const before = await connections()
  await eventually('it is dialled a few times more', async () => (await connections()) > before + 2)
  expect(told().filter((reason) => reason.startsWith('it demands a password (NOAUTH'))).toHaveLength(1)
  admin.disconnect()
})

/** A poll begins with them: without one the node itself names it. */
const LOOKED_WITH = ['info', 'eval', 'evalsha', 'script|load', 'time']

test('the chart of nodes gives the rights to exactly the commands of the list', () => {
  expect(/ -@all (.*)$/.exec(line)?.[1]).toBe(COMMAND_RULES)
  expect(users).toMatch(/^user default off ~\* &\* \+@all$/m)
})

// Bug: without XADD, XREVRANGE or XDEL it voted, and dead letters were lost.
test.each(NEEDED_COMMANDS.filter((name) => !LOOKED_WITH.includes(name)))(
  'a node whose user may not run %s is down, and says so, until the right is there',
  async (command) => {
    await using servers = await startRedisServers(3, { config: ['user default on nopass ~* &* +@all', line] })
    const addresses = servers.urls.map((url) => ({ url, username: 'fencepost', password: () => 'secret' }))
    await using sidecar = await joinCluster(servers.urls, { addresses })
    await sidecar.votes(3)
    const operator = new Redis(servers.at(0).url)
    const state = () => sidecar.nodes.states()[0]?.state

    await operator.call('ACL', 'SETUSER', 'fencepost', `-${command}`)
    await eventually('it is down', () => state()?.kind === 'down')
    expect(state()).toMatchObject({
      fault: 'no_permission',
      reason: expect.stringContaining(`(NOPERM the user of this sidecar may not run: ${command})`),
    })
    await operator.call('ACL', 'SETUSER', 'fencepost', `+${command}`)
    await sidecar.votes(3)
    operator.disconnect()
  },
)

// Bug: it was down with `Invalid command passed to redis.acl_check_cmd() script: 7997ca5e…`, which names no command.
test('a node whose commands were renamed is down, and says which', async () => {
  const renamed = ['rename-command SCAN ""', 'rename-command DEL deleted']
  await using servers = await startRedisServers(3, { config: (index) => (index === 0 ? renamed : []) })
  await using sidecar = await joinCluster(servers.urls)
  expect(sidecar.nodes.states()[0]?.state).toMatchObject({
    fault: 'no_command',
    reason: expect.stringContaining('this server has no command of the name: scan, del'),
  })
})
