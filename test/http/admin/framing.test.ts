/**
 * Bytes that are no probe, on the admin listener, which is open to the whole cluster. Read as: bytes in, status out;
 * probes are answered all the while.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CONNECTIONS_MAX, createAdminServer, REQUEST_TIMEOUT_MS } from '../../../src/http/admin/server.ts'
import { oneCertificate } from '../../support/certificates.ts'
import { eventually } from '../../support/eventually.ts'
import { openWire } from '../../support/proxy.ts'

const PORTS = {
  observed: () => ({}),
  readiness: () => ({ ready: true, reasons: [], nodes: [] }),
  started: () => true,
  scrape: async () => ({ contentType: 'text/plain', text: 'metric 1\n' }),
}
const server = createAdminServer({ ...PORTS, tls: undefined })
let port = 0

beforeAll(async () => {
  port = Number(new URL(await server.listen({ host: '127.0.0.1', port: 0 })).port)
})
afterAll(() => server.close())

test.each<[what: string, bytes: string, answer: RegExp]>([
  ['a probe', 'GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', /^HTTP\/1\.1 200 /],
  [
    'both length and chunks',
    'GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n',
    /^HTTP\/1\.1 400 /,
  ],
  [
    'two lengths',
    'GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n',
    /^HTTP\/1\.1 400 /,
  ],
  ['no Host', 'GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n', /^HTTP\/1\.1 400 /],
  ['a bare CR', 'GET /livez HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n', /^HTTP\/1\.1 400 /],
  ['garbage', '\x16\x03\x01\x02\r\n\r\n', /^HTTP\/1\.1 400 /],
  [
    'a head that is too large',
    `GET /livez HTTP/1.1\r\nHost: a\r\nX: ${'b'.repeat(9_000)}\r\n\r\n`,
    /^HTTP\/1\.1 400 /,
  ],
  [
    'a body',
    `POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n${'x'.repeat(5_000)}`,
    /^HTTP\/1\.1 (404|413) /,
  ],
  ['another path', 'GET /debug/pprof HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', /^HTTP\/1\.1 404 /],
  [
    'a change of protocol',
    'GET /livez HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n',
    /^(HTTP\/1\.1 200 |$)/,
  ],
  ['CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n', /^$/],
])('%s', async (_what, bytes, answer) => {
  await using wire = await openWire(port)
  wire.send(bytes)
  wire.socket.end()
  await wire.closed
  expect(wire.received()).toMatch(answer)
  expect((await fetch(`http://127.0.0.1:${port}/livez`)).status).toBe(200)
})

test('a head that does not arrive is cut after 5 seconds, while probes are answered', async () => {
  const startedMs = performance.now()
  await using slow = await openWire(port)
  slow.send('GET /livez HT')
  let cut = false
  void slow.closed.then(() => {
    cut = true
  })
  expect((await fetch(`http://127.0.0.1:${port}/livez`)).status).toBe(200)
  expect(cut).toBe(false)
  await slow.closed
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(REQUEST_TIMEOUT_MS)
  expect(slow.received()).not.toContain('200')
})

/** Bug: 256 connections that were kept open, which cost their owner nothing, kept every probe out, and the kubelet restarted the pod. */
test('connections beyond 256 cut the oldest, so that a probe always finds a place', async () => {
  const many = Array.from({ length: CONNECTIONS_MAX + 50 }, () => connect({ host: '127.0.0.1', port }))
  let cut = 0
  for (const socket of many) socket.on('error', () => {}).once('close', () => (cut += 1))
  await eventually('50 of them are cut', () => cut === 50)
  const probe = await fetch(`http://127.0.0.1:${port}/livez`, { headers: { connection: 'close' } })
  expect([probe.status, cut]).toEqual([200, 51])
  for (const socket of many) socket.destroy()
})

test('over TLS they do so, too', async () => {
  const { cert, key } = oneCertificate()
  await using server = createAdminServer({
    ...PORTS,
    tls: { current: () => ({ cert, key, clientCa: undefined }), onChange: () => {} },
  })
  const { port } = new URL(await server.listen({ host: '127.0.0.1', port: 0 }))
  const many: TLSSocket[] = []
  let cut = 0
  // A few at a time, each with a probe: one whose probe does not come within 5 seconds is cut for that.
  while (many.length < CONNECTIONS_MAX) {
    const more = Array.from({ length: 8 }, () =>
      connectTls({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false }),
    )
    for (const socket of more) {
      socket.on('error', () => {}).once('close', () => (cut += 1))
      socket.write('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n')
    }
    await Promise.all(more.map((socket) => once(socket, 'data')))
    many.push(...more)
  }
  const probe = connectTls({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false })
  probe.write('GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  expect(await text(probe)).toMatch(/^HTTP\/1\.1 200 /)
  await eventually('the oldest is cut', () => cut === 1)
  for (const socket of many) socket.destroy()
})
