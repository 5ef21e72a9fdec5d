/** `fencepost doctor` on real nodes. Its judgements are in test/core/health/diagnostics.test.ts. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { doctor } from '../../src/cli/doctor.ts'
import { startFaultLink } from '../faults/fault-proxy.ts'
import { startApplication } from '../support/application.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { makeAuthority } from '../support/certificates.ts'
import { duringTests } from '../support/during-tests.ts'
import { hostNamesAre } from '../support/host-names.ts'
import { listening } from '../support/listening.ts'
import { posted } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'
import { swallow } from '../support/swallowing-address.ts'
import { startTlsNodes } from '../support/tls-nodes.ts'

const servers = duringTests(() => startRedisServers(3, { founded: true }))

async function run(...args: string[]) {
  return runWith({ FENCEPOST_PROXY_LISTEN: 'off' }, ...args)
}

async function runWith(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { io, stdout, stderr } = bufferedIo({ FENCEPOST_REDIS_NODES: servers.nodesSetting, ...env })
  // No sidecar is there: port 9 refuses.
  const readFile = (path: string) => readFileSync(path, 'utf8')
  const exitCode = await doctor(['--admin', 'http://127.0.0.1:9', ...args], { ...io, readFile })
  return { exitCode, stdout: stdout(), stderr: stderr() }
}

test('each check is one line with its verdict, and nothing is changed on the nodes', async () => {
  const { exitCode, stdout, stderr } = await run()
  expect([exitCode, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(/^ok {7}quorum {11}3 of 3 nodes vote, 2 are needed$/m)
  expect(stdout).toMatch(
    /^warning {2}independence {5}\S+:\d+, \S+:\d+, \S+:\d+ are at one address, 127\.0\.0\.1: its loss/m,
  )
  expect(stdout).toMatch(/^ok {7}clocks .* at most \d+ ms off$/m)
  expect(stdout).toMatch(
    /^unknown {2}sidecar version {2}no sidecar answers at http:\/\/127\.0\.0\.1:9: run this in its pod/m,
  )
})

// Bug: `doctor` looks at the nodes for itself, and showed three votes while running sidecars had suspended two of them for their clocks.
test('a node that votes and that the running sidecar does not count is named', async () => {
  const nodes = [
    { name: servers.names[0], state: 'suspended', reason: 'its clock was stepped' },
    { name: servers.names[1], state: 'suspended', reason: 'its clock was stepped' },
    { name: servers.names[2], state: 'voting' },
  ]
  const admin = createServer((_, response) => response.writeHead(503).end(JSON.stringify({ nodes })))
  onTestFinished(() => void admin.close())
  const { origin: at } = await listening(admin)
  const { exitCode, stdout } = await run('--admin', at)
  expect(exitCode).toBe(1)
  expect(stdout).toMatch(/^failed {3}sidecar votes .* counts 1 of 3 nodes: 127\S+ .* is suspended there/m)
})

test('what the running sidecar executed twice but for one header is a warning with what to write', async () => {
  await using application = await startApplication()
  await using sidecar = await startSidecar({ ...PATIENT, ...between(servers, application) })
  for (const turn of ['1', '2'])
    await posted(`${sidecar.proxy}/payments`, { 'content-type': 'application/json', 'x-turn': turn }, '{}')
  expect(application.seen).toHaveLength(2)
  const { stdout } = await run('--admin', sidecar.admin)
  expect(stdout).toMatch(
    /^warning {2}near misses {6}1 pair on `unsafe-by-content` differed only in `x-turn`: .*`fingerprint: \{ ignore: \[x-turn\] \}`$/m,
  )
})

test('of the application it says whether it takes connections; without a proxy there is none', async () => {
  await using up = await startApplication()
  const about = async (env: Readonly<Record<string, string>>) => {
    const { exitCode, stdout } = await runWith(env)
    return [exitCode, /^(\w+ +application) .*$/m.exec(stdout)?.[0].replaceAll(/ +/g, ' ')]
  }
  expect(await about({ FENCEPOST_UPSTREAM: up.origin })).toEqual([
    0,
    `ok application ${up.origin} takes connections`,
  ])
  expect(await about({ FENCEPOST_UPSTREAM: 'http://127.0.0.1:9' })).toEqual([
    0,
    expect.stringMatching(
      /^warning application http:\/\/127\.0\.0\.1:9 takes no connection from here \(ECONNREFUSED\)/,
    ),
  ])
  expect(await about({ FENCEPOST_UPSTREAM: 'unix:/nowhere.sock' })).toEqual([
    0,
    expect.stringMatching(
      /^warning application unix:\/nowhere\.sock takes no connection from here \(ENOENT\)/,
    ),
  ])
  expect(await about({ FENCEPOST_PROXY_LISTEN: 'off' })).toEqual([0, undefined])
})

// Bug: it dialled otherwise than the sidecar: 5 s in place of 90 ms, one address after another, and the application without TLS.
test('nodes and application are dialled as the sidecar dials them', async () => {
  using authority = makeAuthority()
  const certificate = authority.sign('node')
  await using nodes = await startTlsNodes(authority, { certificate, config: ['tls-auth-clients no'] })
  const ports = nodes.setting.split(',').map((url) => Number(new URL(url).port))
  const links = await Promise.all(ports.map((port) => startFaultLink(port)))
  onTestFinished(async () => void (await Promise.all(links.map((link) => link[Symbol.asyncDispose]()))))
  const application = createTlsServer({ cert: certificate.cert(), key: certificate.key() })
  onTestFinished(() => void application.close())
  const served = await listening(application)
  const upstream = `https://127.0.0.1:${served.port}`
  const look = async () =>
    await runWith({
      FENCEPOST_REDIS_NODES: links.map(({ port }) => `rediss://127.0.0.1:${port}`).join(),
      FENCEPOST_REDIS_NODE_NAMES: nodes.servers.names.join(),
      FENCEPOST_REDIS_CA_FILE: authority.caFile,
      FENCEPOST_REDIS_CONNECT_TIMEOUT: '500ms',
      FENCEPOST_UPSTREAM: upstream,
    })
  const well = await look()
  expect(well.stdout).toMatch(/^ok {7}quorum/m)
  expect(well.stdout).toMatch(
    /^warning {2}application .* takes no connection from here \(\w*(CERT|SIGNATURE)\w*\)/m,
  )
  // A handshake takes longer than a sidecar waits for it.
  for (const link of links) link.set({ latencyMs: 400 })
  const slow = await look()
  expect(slow.exitCode).toBe(69)
  expect(slow.stdout).toMatch(/^failed {3}node .* is down.*FENCEPOST_REDIS_CONNECT_TIMEOUT/m)
})

test('a name whose IPv6 address swallows packets is a node that votes', async () => {
  const ports = servers.urls.map((url) => Number(new URL(url).port))
  await using _broken = await swallow('::1', ports)
  hostNamesAre({ 'node.test': ['::1', '127.0.0.1'] })
  const { stdout } = await runWith({
    FENCEPOST_REDIS_NODES: ports.map((port) => `redis://node.test:${port}`).join(),
    FENCEPOST_REDIS_NODE_NAMES: servers.names.join(),
    FENCEPOST_PROXY_LISTEN: 'off',
  })
  expect(stdout).toMatch(/^ok {7}quorum {11}3 of 3 nodes vote/m)
})

test('--json has the same findings, and a lost majority ends with 69', async () => {
  await servers.kill(0)
  await servers.kill(1)
  const { exitCode, stdout } = await run('--json')
  expect(exitCode).toBe(69)
  const { findings } = JSON.parse(stdout) as { findings: readonly { check: string; verdict: string }[] }
  expect(findings).toContainEqual(expect.objectContaining({ check: 'quorum', verdict: 'failed' }))
  expect(findings.filter(({ check }) => check === 'node').map(({ verdict }) => verdict)).toEqual([
    'failed',
    'failed',
  ])
})

test.each([
  [['--admin', 'nowhere'], 'is not accepted'],
  [['--unknown'], 'unknown option'],
])('%s is refused', async (args, says) => {
  const { exitCode, stderr } = await run(...args)
  expect(exitCode).toBe(64)
  expect(stderr).toContain(says)
})
