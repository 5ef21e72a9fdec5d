/** A node whose name has several addresses, of which some are of no use: real servers, within the default connect timeout. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { addressesReached, createRedisClient, type RedisAddress } from '../../src/redis/connect.ts'
import { createNodeTls } from '../../src/redis/connector.ts'
import { systemRandom } from '../../src/system/clock.ts'
import { makeAuthority } from '../support/certificates.ts'
import { freePort } from '../support/free-port.ts'
import { hostNamesAre } from '../support/host-names.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { swallow } from '../support/swallowing-address.ts'
import { startTlsNodes } from '../support/tls-nodes.ts'

/** Ten times the default, for a busy machine; Node would give four addresses longer than that. */
const CONNECT_TIMEOUT_MS = 900

function nameLeadsTo(...addresses: readonly string[]): void {
  hostNamesAre({ 'node.test': addresses, localhost: addresses })
}

function clientOf(address: RedisAddress) {
  const client = createRedisClient(address, {
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    random: systemRandom,
  }).on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

const portOf = (servers: RedisServers) => Number(new URL(servers.at(0).url).port)

// Bug: each address had a quarter of a second, and the whole dial 90 ms: the second one was never tried.
test.each([
  ['IPv6 swallows, IPv4 works', ['::1', '127.0.0.1']],
  ['four swallow, the last one works', ['::1', '127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.1']],
  ['nobody listens at the first', ['127.0.0.9', '127.0.0.1']],
])('%s: the first dial connects', async (_title, addresses) => {
  await using servers = await startRedisServers(1)
  const port = portOf(servers)
  await using _broken = new AsyncDisposableStack()
  for (const one of ['::1', '127.0.0.2', '127.0.0.3', '127.0.0.4']) _broken.use(await swallow(one, [port]))
  nameLeadsTo(...addresses)
  const client = clientOf({ url: `redis://node.test:${port}` })
  await client.connect()
  expect(client.stream.remoteAddress).toBe('127.0.0.1')
  expect(await client.ping()).toBe('PONG')
})

test('the same over TLS, with the name that the certificate is for', async () => {
  using authority = makeAuthority()
  const certificate = authority.sign('node')
  await using nodes = await startTlsNodes(authority, {
    count: 1,
    certificate,
    config: ['tls-auth-clients no'],
  })
  const { port } = new URL(nodes.setting)
  await using _ = await swallow('::1', [Number(port)])
  nameLeadsTo('::1', '127.0.0.1')
  const tls = createNodeTls({ ca: authority.ca() })
  const client = clientOf({ url: `rediss://localhost:${port}`, tls: () => tls })
  await client.connect()
  expect(await client.ping()).toBe('PONG')
})

test.each([false, true])('each address can be asked by itself, over TLS %s', async (isTls) => {
  using authority = makeAuthority()
  const options = { count: 1, certificate: authority.sign('node'), config: ['tls-auth-clients no'] }
  await using nodes = isTls
    ? await startTlsNodes(authority, options)
    : await startRedisServers(1).then((servers) => Object.assign(servers, { setting: servers.urls[0] ?? '' }))
  const { port } = new URL(nodes.setting)
  await using _ = await swallow('::1', [Number(port)])
  nameLeadsTo('::1', '127.0.0.1', '127.0.0.9')
  const tls = createNodeTls({ ca: authority.ca() })
  const address = isTls
    ? { url: `rediss://localhost:${port}`, tls: () => tls }
    : { url: `redis://localhost:${port}` }
  expect(await addressesReached(address, { connectTimeoutMs: CONNECT_TIMEOUT_MS })).toEqual({
    ips: ['::1', '127.0.0.1', '127.0.0.9'],
    silent: ['::1', '127.0.0.9'],
  })
})

test('the last connection is made again to where it was, before any other address', async () => {
  await using servers = await startRedisServers(1)
  const port = portOf(servers)
  const refusals: number[] = []
  const other = createServer((socket) => {
    refusals.push(1)
    socket.destroy()
  }).listen(port, '127.0.0.2')
  await once(other, 'listening')
  onTestFinished(() => void other.close())
  nameLeadsTo('127.0.0.1', '127.0.0.2')
  const client = clientOf({ url: `redis://node.test:${port}` })
  await client.connect()
  nameLeadsTo('127.0.0.2', '127.0.0.1')
  client.disconnect(true)
  await once(client, 'ready')
  expect(refusals).toEqual([])
})

test('an address that accepts and says nothing is the last that is tried again', async () => {
  await using servers = await startRedisServers(1)
  const port = portOf(servers)
  const silent = createServer((socket) => void socket.on('error', () => {})).listen(port, '127.0.0.2')
  await once(silent, 'listening')
  onTestFinished(() => void silent.close())
  nameLeadsTo('127.0.0.2', '127.0.0.1')
  const client = clientOf({ url: `redis://node.test:${port}` })
  client.connect().catch(() => {})
  await once(client, 'connect')
  client.disconnect(true)
  await once(client, 'ready')
  expect(client.stream.remoteAddress).toBe('127.0.0.1')
})

test('where no address works the reason names each of them', async () => {
  const port = await freePort()
  nameLeadsTo('::1', '127.0.0.1')
  const client = clientOf({ url: `redis://node.test:${port}` })
  const failed = once(client, 'error')
  client.connect().catch(() => {})
  const [error] = await failed
  expect(error).toMatchObject({
    code: 'ECONNREFUSED',
    message: `connect ECONNREFUSED ::1:${port}, connect ECONNREFUSED 127.0.0.1:${port}`,
  })
})

test('a client that is ended while it dials ends, and is not told as failed', async () => {
  await using _ = await swallow('127.0.0.2', [6379])
  nameLeadsTo('127.0.0.2')
  const client = createRedisClient(
    { url: 'redis://node.test' },
    { connectTimeoutMs: 60_000, random: systemRandom },
  )
  const told: unknown[] = []
  client.on('error', (error) => told.push(error))
  const dialled = client.connect().catch((error: Error) => error.message)
  client.disconnect()
  expect(await dialled).toBe('Connection is closed.')
  expect(client.status).toBe('end')
  expect(told).toEqual([])
})
