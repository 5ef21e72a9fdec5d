/**
 * Bytes that are no probe, on the admin listener, which is open to the whole cluster. Read as: bytes in, status out;
 * probes are answered all the while.
 */
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createAdminServer, REQUEST_TIMEOUT_MS } from '../../../src/http/admin/server.ts'
import { openWire } from '../../support/proxy.ts'

const server = createAdminServer({
  readiness: () => ({ ready: true, reasons: [], nodes: [] }),
  started: () => true,
  scrape: async () => ({ contentType: 'text/plain', text: 'metric 1\n' }),
  tls: undefined,
})
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

test('connections beyond 256 are cut at once', async () => {
  const many = Array.from({ length: 300 }, () => connect({ host: '127.0.0.1', port }))
  const cut = await Promise.all(
    many.map(
      (socket) =>
        new Promise<boolean>((resolve) => {
          socket.on('error', () => resolve(true)).once('end', () => resolve(true))
          socket.once('connect', () => {
            socket.write('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n')
            socket.once('data', () => resolve(false))
          })
        }),
    ),
  )
  expect(cut.filter(Boolean).length).toBeGreaterThanOrEqual(300 - 256)
  expect(cut.filter((one) => !one).length).toBeGreaterThan(200)
  for (const socket of many) socket.destroy()
})
