/** What is told of a node that can not be counted on: each row of the table on real servers, and its page. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { NODE_FAULTS, type NodeFault, sentenceOf } from '../../src/core/node-faults.ts'
import { answerFault } from '../../src/core/nodes/fitness.ts'
import { statusesOf } from '../../src/core/nodes/shown-nodes.ts'
import { createRedisClient, onDown } from '../../src/redis/connect.ts'
import { dialFault } from '../../src/redis/node-fault.ts'
import { systemRandom } from '../../src/system/clock.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { listening } from '../support/listening.ts'
import { requireProgram } from '../support/programs.ts'
import { clientOf } from '../support/redis-client.ts'
import { joinCluster } from '../support/redis-cluster.ts'
import { type RedisServers, type RedisServersOptions, startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'
import { swallow } from '../support/swallowing-address.ts'

type Bad = { readonly servers: RedisServers; readonly admin: Redis; readonly url: string }

/** Brings the server to where it is told so; returns another address where that is it. */
// biome-ignore lint/suspicious/noConfusingVoidType: most cases are statements
type Case = (bad: Bad) => Promise<string | void> | string | void

async function start(options: RedisServersOptions = {}): Promise<Bad> {
  const servers = await startRedisServers(1, options)
  onTestFinished(() => servers[Symbol.asyncDispose]())
  const { url } = servers.at(0)
  const admin = clientOf(url, { lazyConnect: true, maxRetriesPerRequest: 0 })
  return { servers, admin, url }
}

async function urlOf(server: Server): Promise<string> {
  const at = await listening(server)
  onTestFinished(() => at[Symbol.asyncDispose]())
  return `redis://127.0.0.1:${at.port}`
}

const answering = (answer: (socket: Socket) => void) =>
  urlOf(createServer((socket) => answer(socket.on('error', () => {}))))

const outside = Object.values(networkInterfaces())
  .flatMap((all = []) => all)
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address

const withLogin = (url: string, login: string) => url.replace('redis://', `redis://${login}@`)

const CASES: readonly (readonly [NodeFault, what: string, Case, RedisServersOptions?])[] = [
  ['unknown_host', 'a host name that nobody has', () => 'redis://nodes.invalid:6379'],
  ['refused', 'a closed port', async () => `redis://127.0.0.1:${await freePort()}`],
  [
    'no_connection',
    'an address that swallows packets',
    async () => {
      const port = await freePort()
      const swallowing = await swallow('127.0.0.1', [port])
      onTestFinished(() => swallowing[Symbol.asyncDispose]())
      return `redis://127.0.0.1:${port}`
    },
  ],
  ['silent', 'a process that is stopped', ({ servers }) => servers.pause(0)],
  [
    'silent',
    'CLIENT PAUSE',
    async ({ admin }) => {
      await admin.client('PAUSE', 60_000, 'ALL')
    },
  ],
  ['silent', 'a program that only listens', () => answering(() => {})],
  ['closes', 'a program that hangs up', () => answering((socket) => socket.once('data', () => socket.end()))],
  ['not_redis', 'a web server', () => urlOf(createHttpServer((_, response) => response.end('hello')))],
  ['not_redis', 'an SSH server', () => answering((socket) => socket.write('SSH-2.0-OpenSSH_9.2\r\n'))],
  [
    'not_redis',
    'a memcached',
    () => answering((socket) => socket.on('data', () => socket.write('ERROR\r\n'))),
  ],
  ['no_password', 'requirepass', () => {}, { config: ['requirepass secret'] }],
  [
    'wrong_password',
    'another password',
    ({ url }) => withLogin(url, ':guessed'),
    { config: ['requirepass secret'] },
  ],
  [
    'no_permission',
    'a user with few rights',
    ({ url }) => withLogin(url, 'fencepost:secret'),
    { config: ['user fencepost on >secret ~* &* +@read +info'] },
  ],
  ['no_command', 'rename-command', () => {}, { config: ['rename-command SCAN ""'] }],
  ['no_database', 'the sixth of one', ({ url }) => `${url}/5`, { config: ['databases 1'] }],
  [
    'protected_mode',
    'from another machine',
    ({ url }) => url.replace('127.0.0.1', outside ?? '127.0.0.1'),
    { config: ['bind *', 'protected-mode yes'] },
  ],
  [
    'max_clients',
    'no place left',
    async ({ admin }) => {
      await admin.config('SET', 'maxclients', '1')
    },
  ],
  [
    'loading',
    'a start with many keys',
    async ({ servers, admin }) => {
      await admin.eval("for i = 1, 20000 do redis.call('SET', 'k' .. i, i) end", 0)
      await admin.save()
      admin.disconnect()
      await servers.stop(0)
      const slowly = ['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024']
      const loads = spawn(requireProgram('redis'), [join(servers.at(0).folder, 'redis.conf'), ...slowly])
      onTestFinished(() => ended(loads))
    },
  ],
  [
    'busy',
    'a script without an end',
    async ({ admin }) => {
      await admin.config('SET', 'busy-reply-threshold', '1')
      void admin.eval('while true do end', 0).catch(() => {})
    },
  ],
  [
    'wrong_type',
    'a text in place of the cluster',
    async ({ admin }) => {
      await admin.set('dedup::cluster', 'x')
    },
  ],
  [
    'error',
    'an error of its own',
    () => answering((socket) => socket.on('data', () => socket.write('-ODD day\r\n'))),
  ],
  [
    'cannot_save',
    'a disk that takes nothing',
    async ({ servers, admin }) => {
      await admin.config('SET', 'save', '3600 1')
      await admin.set('changed', '1')
      await rm(join(servers.at(0).folder, 'data'), { recursive: true })
      await admin.bgsave().catch(() => {})
      await eventually('it could not', async () =>
        (await admin.info()).includes('rdb_last_bgsave_status:err'),
      )
    },
  ],
  [
    'few_replicas',
    'min-replicas-to-write',
    async ({ admin }) => {
      await admin.config('SET', 'min-replicas-to-write', '1')
    },
  ],
  ['replica', 'REPLICAOF', async ({ admin }) => void (await admin.replicaof('127.0.0.1', 1))],
  ['evicts', 'another maxmemory-policy', () => {}, { config: ['maxmemory-policy allkeys-lru'] }],
  ['cluster_mode', 'a node of a Redis Cluster', () => {}, { config: ['cluster-enabled yes'] }],
  ['new', 'a server that is empty', () => {}],
]

async function ended(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  if (child.exitCode === null) await once(child, 'exit')
}

const away = async () => `redis://127.0.0.1:${await freePort()}`

test.each(CASES.map((one) => [one[0], one[1], one] as const))(
  '%s: %s',
  { timeout: 60_000 },
  async (fault, _, [, , arrange, options]) => {
    const bad = await start(options)
    await bad.admin.connect().catch(() => {})
    const given = (await arrange(bad)) ?? bad.url
    const more = { connectTimeoutMs: 400, inspectEveryMs: 100, foundingWindowMs: 60_000 }
    await using sidecar = await joinCluster([given, await away(), await away()], more)
    const shown = () => statusesOf(sidecar.nodes)[0]
    const wanted: readonly (string | undefined)[] = fault === 'unknown_host' ? [fault, 'no_dns'] : [fault]
    await eventually(
      `it is told as ${fault}, not ${JSON.stringify(shown())}`,
      () => wanted.includes(shown()?.fault),
      {
        withinMs: 15_000,
      },
    ).catch(() => {})
    expect(wanted, JSON.stringify(shown())).toContain(shown()?.fault)
    const { reason = '', remedy } = shown() ?? {}
    const words = sentenceOf({ reason, remedy })
    expect(words).not.toMatch(/enableOfflineQueue|report this|Stream isn't|Error:|…/)
  },
)

// Bug: a node that loads was told as one that hangs up, because it ended the connection that the sidecar had ended.
test('a node that loads is told as that at every redial', async () => {
  const info = 'loading:1\r\nloading_eta_seconds:1\r\n'
  const url = await answering((socket) =>
    socket.on('data', () => socket.write(`$${info.length}\r\n${info}\r\n`)),
  )
  const client = createRedisClient({ url }, { connectTimeoutMs: 2_000, random: systemRandom })
  onTestFinished(() => client.disconnect())
  const faults: string[] = []
  const endsIt = onDown(client, { url }, ({ fault }) => void faults.push(fault))
  client.connect().catch(() => {})
  while (faults.length < 3) {
    await eventually(
      'it answers that it loads',
      () => client.status === 'connect' && client.stream.bytesRead > 0,
    )
    const before = faults.length
    endsIt()
    client.disconnect(true)
    await eventually('the connection is over', () => faults.length > before)
  }
  expect(new Set(faults)).toEqual(new Set(['loading']))
})

test('what no server here shows is told by its code', () => {
  const dial = { tls: undefined, stream: undefined, connected: false, wasReady: false }
  const error = (code: string) => Object.assign(new Error(`connect ${code} 10.0.0.1:6379`), { code })
  expect(dialFault(error('EHOSTUNREACH'), dial).fault).toBe('no_route')
  expect(dialFault(error('EAI_AGAIN'), dial).fault).toBe('no_dns')
  expect(dialFault(undefined, { ...dial, wasReady: true }).fault).toBe('lost')
  expect(answerFault(new Error('ODD day'), 'no_writes').fault).toBe('no_writes')
})

// Bug: every node "was stepped" where a sidecar started beside two nodes of five.
test('a sidecar that starts without a majority says that it can not compare clocks, and of no step', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  await servers.kill(1)
  await servers.kill(2)
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: servers.nodesSetting })
  const seen = async () => {
    const answer = await fetch(`${sidecar.admin}/readyz`)
    const { nodes } = (await answer.json()) as { nodes: { state: string; fault: string }[] }
    return nodes.map(({ state, fault }) => `${state} ${fault}`).join()
  }
  const expected = 'suspended clock_unknown,down refused,down refused'
  await eventually('each says why', async () => (await seen()) === expected)
})

// Bug: the log sent those who waited for a new cluster's last node to `declare-loss`.
test('a new cluster that waits for a paused node names it, and nobody declares a loss', async () => {
  await using servers = await startRedisServers(3)
  servers.pause(2)
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: servers.nodesSetting })
  const told = await eventually('it says what it waits for', async () => {
    const text = await (await fetch(`${sidecar.admin}/readyz`)).text()
    return text.includes('it waits for') ? text : undefined
  })
  expect(told).toContain(`${servers.names[2]} (down)`)
  servers.resume(2)
  await eventually('they vote', async () => (await fetch(`${sidecar.admin}/readyz`)).ok)
  expect(sidecar.process.output).not.toContain('declare-loss')
})

/** Where the rows are tested that need more than one server. */
const ELSEWHERE: Readonly<Record<string, readonly NodeFault[]>> = {
  'test/app/node-certificates.test.ts': [
    'tls_not_spoken',
    'tls_unfinished',
    'tls_authority',
    'tls_name',
    'tls_expired',
    'tls_not_yet',
    'tls_own_demanded',
    'tls_own_refused',
    'tls_own_perhaps',
    'tls_version',
    'tls_failed',
  ],
  'test/redis/server-program.test.ts': ['other_program', 'sentinel', 'hidden'],
  'test/redis/rejoin.test.ts': ['old_redis', 'same_server', 'forgot'],
  'test/app/unfit-nodes.test.ts': ['no_info'],
  'test/redis/later-version.test.ts': ['later_format', 'later_incarnation'],
  'test/app/node-lists.test.ts': ['other_members', 'other_name'],
  'test/app/groups.test.ts': ['no_groups'],
  'test/redis/founding.test.ts': ['two_clusters', 'other_cluster', 'founded_anew'],
  'test/redis/clocks.test.ts': ['clock_apart', 'clock_stepped'],
}
const HERE: readonly NodeFault[] = ['not_dialled', 'no_dns', 'no_route', 'lost', 'no_writes', 'clock_unknown']

test('each row has its test', () => {
  const tested = [...CASES.map(([fault]) => fault), ...HERE, ...Object.values(ELSEWHERE).flat()]
  expect([...new Set(tested)].sort()).toEqual(Object.keys(NODE_FAULTS).sort())
})
