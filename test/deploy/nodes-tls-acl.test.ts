/**
 * The nodes with TLS and users, as deploy/k8s/nodes-tls-acl ships them, on real servers: these rights suffice for all
 * of fencepost's work.
 */

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { Redis } from 'ioredis'
import { beforeAll, expect, test } from 'vitest'
import { Load } from '../rolling/load.ts'
import { type Authority, makeAuthority, type Signed } from '../support/certificates.ts'
import { type CountingApplication, startCountingApplication } from '../support/counting-application.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { kustomized } from '../support/kubernetes-objects.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { TestProcess } from '../support/processes.ts'
import { requireProgram } from '../support/programs.ts'
import { type Sidecar, startSidecar } from '../support/sidecar.ts'
import { runVotesScript } from '../support/votes-script.ts'

const shipped = join(import.meta.dirname, '../../deploy/k8s/nodes-tls-acl')
const NODES = 3
/** Beside the shipped users, to see what was refused. */
const LOOKING = 'user looking on >looking ~* &* +@all'

type Node = { readonly folder: string; readonly port: number; process: TestProcess }

const stack = stackOfTests()
const nodes: Node[] = []
let folder: string
let authority: Authority
let settings: Record<string, string>
let sidecar: Sidecar
let application: CountingApplication

async function configured(at: string, port: number, { certFile, keyFile }: Signed): Promise<string> {
  const shippedLines = (await readFile(join(shipped, 'valkey.conf'), 'utf8')).split('\n')
  const replaced: Record<string, string> = {
    'tls-port': String(port),
    bind: '127.0.0.1',
    dir: join(at, 'data'),
    'tls-cert-file': certFile,
    'tls-key-file': keyFile,
    'tls-ca-cert-file': authority.caFile,
    aclfile: join(at, 'users.acl'),
  }
  return shippedLines
    .map((line) => {
      const [name = ''] = line.split(' ')
      return name in replaced ? `${name} ${replaced[name]}` : line
    })
    .join('\n')
}

async function serve(at: string): Promise<TestProcess> {
  const process = new TestProcess(requireProgram('redis'), [join(at, 'redis.conf')], {
    name: 'redis-server',
    cwd: at,
  })
  await process.line(/Ready to accept connections/)
  return process
}

async function startNode(index: number): Promise<Node> {
  const at = join(folder, String(index))
  await mkdir(join(at, 'data'), { recursive: true })
  const port = await freePort()
  await writeFile(join(at, 'redis.conf'), await configured(at, port, authority.sign(`node-${index}`)))
  const users = await readFile(join(shipped, 'users.acl.example'), 'utf8')
  await writeFile(join(at, 'users.acl'), `${users.trimEnd()}\n${LOOKING}\n`)
  return { folder: at, port, process: await serve(at) }
}

function client(node: Node, username: string, password: string): Redis {
  const redis = new Redis({
    port: node.port,
    host: '127.0.0.1',
    tls: { ca: authority.ca() },
    username,
    password,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    enableReadyCheck: false,
  })
  redis.on('error', () => {})
  return redis
}

async function status(env = settings): Promise<{ name: string; state: string }[]> {
  const looking = new TestProcess(process.execPath, [MAIN_PROGRAM, 'nodes', 'status', '--json'], {
    env,
  })
  await looking.exited
  return (JSON.parse(looking.output) as { nodes: { name: string; state: string }[] }).nodes
}

const pay = (key: string) =>
  fetch(`${sidecar.proxy}/payments`, { method: 'POST', headers: { 'Idempotency-Key': key }, body: '{}' })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'fencepost-tls-acl-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  authority = stack.use(makeAuthority())
  stack.defer(async () => {
    for (const node of nodes) await node.process.end({ signal: 'SIGKILL' })
  })
  for (let index = 0; index < NODES; index += 1) nodes.push(await startNode(index))
  await writeFile(join(folder, 'password'), 'replace-this-password\n')
  application = stack.use(await startCountingApplication())
  settings = {
    FENCEPOST_REDIS_NODES: nodes.map(({ port }) => `rediss://127.0.0.1:${port}`).join(','),
    FENCEPOST_REDIS_USERNAME: 'fencepost',
    FENCEPOST_REDIS_PASSWORD_FILE: join(folder, 'password'),
    FENCEPOST_REDIS_CA_FILE: authority.caFile,
    FENCEPOST_UPSTREAM: application.url,
    FENCEPOST_LEASE: '5s',
    // The settings of the self-test.
    FENCEPOST_RESERVATION_MAX_LEASE: '5s',
    // The largest that such a lease allows, and time for several: a busy machine must not look like missing nodes.
    FENCEPOST_NODE_DEADLINE: '250ms',
    FENCEPOST_CLAIM_BUDGET: '5s',
    FENCEPOST_CLOCK_STEP: '100ms',
    FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
  }
  sidecar = stack.use(await startSidecar(settings))
})

test('a request is executed once, and its duplicate replayed', async () => {
  const key = randomUUID()
  await eventually('a request is executed', async () => (await pay(key)).status === 201)
  const again = await pay(key)
  expect([again.status, again.headers.get('idempotency-status')]).toEqual([201, 'replayed'])
  expect(application.of(key)).toHaveLength(1)
})

test('the self-test reserves, is refused, releases and reserves again on all of them', async () => {
  const selftest = new TestProcess(process.execPath, [MAIN_PROGRAM, 'selftest'], {
    name: 'fencepost selftest',
    env: { ...settings, FENCEPOST_PROXY_LISTEN: 'off' },
  })
  expect(await selftest.exited, selftest.output).toEqual({ code: 0, signal: null })
})

test('a node that lost its volume rejoins', async () => {
  const [node] = nodes as [Node]
  await node.process.end({ signal: 'SIGTERM' })
  await rm(join(node.folder, 'data'), { recursive: true })
  await mkdir(join(node.folder, 'data'))
  node.process = await serve(node.folder)
  await eventually('all nodes vote', async () => (await status()).every(({ state }) => state === 'voting'), {
    withinMs: 40_000,
  })
})

test('no command of fencepost was refused', async () => {
  for (const node of nodes) {
    const redis = client(node, 'looking', 'looking')
    expect(await redis.acl('LOG')).toEqual([])
    redis.disconnect()
  }
})

test('the readiness probe asks with the options of the manifest, and succeeds where the node votes', async () => {
  const [set] = (await kustomized(shipped)).filter(({ kind }) => kind === 'StatefulSet')
  const command: string[] = set.spec.template.spec.containers[0].readinessProbe.exec.command
  const [node] = nodes as [Node]
  const options = command
    .slice(2)
    .map((word) => (word === '/etc/valkey-tls/ca.crt' ? authority.caFile : word))
    .concat('-p', String(node.port))
  expect(await runVotesScript(options, folder)).toEqual({ code: 0, said: '' })
  await writeFile(join(folder, 'password'), 'another-password\n')
  const refused = await runVotesScript(options, folder)
  expect(refused).toMatchObject({ code: 1, said: expect.stringMatching(/WRONGPASS|NOAUTH/) })
  await writeFile(join(folder, 'password'), 'replace-this-password\n')
})

test.each<[who: string, username: string, password: string, ask: string[], told: RegExp]>([
  ['the default user', 'default', '', ['get', 'dedup:a'], /WRONGPASS|NOAUTH/],
  ['fencepost with another password', 'fencepost', 'guessed', ['get', 'dedup:a'], /WRONGPASS|NOAUTH/],
  ['fencepost', 'fencepost', 'replace-this-password', ['flushall'], /NOPERM/],
  ['fencepost', 'fencepost', 'replace-this-password', ['config', 'set', 'appendonly', 'no'], /NOPERM/],
  ['fencepost', 'fencepost', 'replace-this-password', ['keys', '*'], /NOPERM/],
  ['fencepost', 'fencepost', 'replace-this-password', ['get', 'another:key'], /NOPERM/],
  ['an operator', 'operator', 'replace-this-other-password', ['get', 'dedup:a'], /NOPERM/],
  ['an operator', 'operator', 'replace-this-other-password', ['flushall'], /NOPERM/],
])('%s may not: %s %s %j', async (_, username, password, [name, ...args], told) => {
  const redis = client(nodes[1]!, username, password)
  const answer = await redis.call(name!, ...args).catch((error: Error) => error.message)
  redis.disconnect()
  expect(answer).toMatch(told)
})

test.each([
  ['ping'],
  ['info', 'memory'],
  ['slowlog', 'get', '10'],
  ['latency', 'latest'],
  ['config', 'get', 'maxmemory-policy'],
  ['config', 'set', 'maxmemory-policy', 'noeviction'],
])('an operator may run what the runbooks run: %s %s', async (...[name, ...args]) => {
  const redis = client(nodes[1]!, 'operator', 'replace-this-other-password')
  const answer = await redis.call(name!, ...args).catch((error: Error) => error.message)
  redis.disconnect()
  expect(String(answer)).not.toMatch(/NOPERM|NOAUTH|WRONGPASS|ERR/)
})

test('without TLS there is no answer', async () => {
  const redis = new Redis({
    port: nodes[1]!.port,
    host: '127.0.0.1',
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  })
  redis.on('error', () => {})
  await expect(redis.ping()).rejects.toThrow()
  redis.disconnect()
})

/** docs/operations/deploy.md, "Upgrading and rotating", as `helm upgrade` does it: the StatefulSet replaces a node when the last one votes. */
test('certificates and password change one node after another under load: no request fails, and the old ones are over', {
  timeout: 180_000,
}, async () => {
  const [old, next] = ['replace-this-password', 'the-password-from-now-on']
  const roll = async (passwords: string, env: Record<string, string>) => {
    for (const [index, node] of nodes.slice(0, NODES).entries()) {
      await node.process.end({ signal: 'SIGTERM' })
      await writeFile(
        join(node.folder, 'redis.conf'),
        await configured(node.folder, node.port, authority.sign(`renewed-${index}`)),
      )
      const users = await readFile(join(shipped, 'users.acl.example'), 'utf8')
      await writeFile(
        join(node.folder, 'users.acl'),
        `${users.trimEnd().replace(`>${old}`, passwords)}\n${LOOKING}\n`,
      )
      node.process = await serve(node.folder)
      await eventually(
        'all nodes vote',
        async () => (await status(env)).every(({ state }) => state === 'voting'),
        { withinMs: 40_000 },
      )
    }
  }
  const renewed = { ...settings, FENCEPOST_REDIS_PASSWORD_FILE: join(folder, 'next-password') }
  await writeFile(renewed.FENCEPOST_REDIS_PASSWORD_FILE, `${next}\n`)

  await using before = new Load([sidecar.proxy])
  await roll(`>${old} >${next}`, settings)
  await using successor = await startSidecar(renewed)
  await before.stop()
  await sidecar.process.end()
  await using after = new Load([successor.proxy])
  await roll(`>${next}`, renewed)
  await after.stop()

  for (const { sent, keys } of [before, after]) {
    expect([sent.failures, keys.length > 0]).toEqual([[], true])
    expect(keys.filter((key) => application.of(key).length !== 1)).toEqual([])
  }
  const [first = ''] = before.keys
  const again = await fetch(`${successor.proxy}/payments`, {
    method: 'POST',
    headers: { 'idempotency-key': first, 'content-type': 'application/json' },
    body: '{"amount":1}',
  })
  expect(again.headers.get('idempotency-status')).toBe('replayed')
  for (const [index, node] of nodes.slice(0, NODES).entries()) {
    expect(await commonNameOf(node)).toBe(`renewed-${index}`)
    const late = client(node, 'fencepost', old)
    await expect(late.get('dedup:a')).rejects.toThrow(/WRONGPASS|NOAUTH/)
    late.disconnect()
  }
})

async function commonNameOf({ port }: Node): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', ca: authority.ca() })
  await once(socket, 'secureConnect')
  const { subject } = socket.getPeerCertificate()
  socket.destroy()
  return String(subject.CN)
}

/**
 * Bug: with `user default off` alone a node forgot at a restart what a script had written in more than one write: the file has it as a
 * transaction, and the server asks whether its default user may (redis/redis#14541, valkey-io/valkey#3983). A call of fencepost
 * that carries several claims or outcomes is such a script.
 */
test('a node that restarts with its file has what a script wrote in several writes, and nobody logs in as default', async () => {
  const node = await startNode(NODES)
  nodes.push(node)
  const write = "redis.call('SET', KEYS[1], 'claimed') return redis.call('SET', KEYS[2], 'completed')"
  const before = client(node, 'fencepost', 'replace-this-password')
  await before.set('dedup:alone', 'completed')
  await before.eval(write, 2, 'dedup:one', 'dedup:other')
  before.disconnect()
  await node.process.end({ signal: 'SIGKILL' })
  node.process = await serve(node.folder)
  const after = client(node, 'fencepost', 'replace-this-password')
  const found = [await after.get('dedup:alone'), await after.get('dedup:one'), await after.get('dedup:other')]
  after.disconnect()
  expect(found).toEqual(['completed', 'claimed', 'completed'])
  for (const password of ['', 'guessed']) {
    const stranger = client(node, 'default', password)
    const answer = await stranger.get('dedup:one').catch((error: Error) => error.message)
    stranger.disconnect()
    expect(answer).toMatch(/WRONGPASS|NOAUTH/)
  }
})
