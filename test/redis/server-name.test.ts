/** What a node's TLS learns of the host that it is dialled by: many nodes behind one address are told apart by it (SNI). */
import { createServer } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { createRedisClient } from '../../src/redis/connect.ts'
import { createNodeTls } from '../../src/redis/connector.ts'
import { systemRandom } from '../../src/system/clock.ts'
import { makeAuthority } from '../support/certificates.ts'
import { listening } from '../support/listening.ts'

// Bug: no name was sent, so a proxy that finds the node by it (HAProxy, Envoy, an ingress of Redis Enterprise) had none, or took another's.
test.each([
  ['localhost', 'localhost'],
  ['127.0.0.1', ''],
])('the host %s is sent as the name "%s"', async (host, sent) => {
  using authority = makeAuthority()
  const node = authority.sign('node')
  const server = createServer({ cert: node.cert(), key: node.key() })
  const name = new Promise<unknown>((resolve) =>
    server.on('secureConnection', (socket) => {
      resolve((socket as { servername?: unknown }).servername || '')
      socket.destroy()
    }),
  )
  const { port } = await listening(server)
  onTestFinished(() => void server.close())
  const current = createNodeTls({ ca: authority.ca() })
  const client = createRedisClient(
    { url: `rediss://${host}:${port}`, tls: () => current },
    { connectTimeoutMs: 2_000, random: systemRandom },
  )
  onTestFinished(() => client.disconnect())
  client
    .on('error', () => {})
    .connect()
    .catch(() => {})
  expect(await name).toBe(sent)
})
