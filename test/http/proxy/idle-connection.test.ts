/**
 * A request that meets a kept connection which the application is just closing, because it was idle for too long: one that changes nothing is
 * sent once more, and no other.
 *
 * Source: RFC 9110, section 9.2.2; RFC 9112, section 9.3.1.
 */
import { createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { listening } from '../../support/listening.ts'
import { TestProcess } from '../../support/processes.ts'
import { openWire, route, startProxy, type TestProxy } from '../../support/proxy.ts'

type Closing = 'end' | 'reset' | 'reset after 103' | 'end in the head'

/** How a connection takes its requests, in their order; after the last of them every request is answered. */
type Connection = readonly ('answer' | Closing)[]

async function startClosing(connections: readonly Connection[]) {
  const seen: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const takes = connections[sockets.size] ?? []
    sockets.add(socket.on('error', () => {}))
    let requests = 0
    socket.on('data', (part) => {
      const [line = ''] = part.toString('latin1').split(' HTTP/')
      seen.push(line)
      const how = takes[requests] ?? 'answer'
      requests += 1
      if (how === 'answer')
        return void socket.write(
          `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n${/^HEAD/.test(line) ? '' : 'ok'}`,
        )
      if (how === 'end in the head') socket.write('HTTP/1.1 200 OK\r\n')
      if (how === 'reset after 103') socket.write('HTTP/1.1 103 Early Hints\r\n\r\n')
      if (how.startsWith('end')) socket.end()
      else socket.resetAndDestroy()
    })
  })
  const at = await listening(server)
  return {
    ...at,
    seen,
  }
}

async function statusOf(proxy: TestProxy, method: string): Promise<number> {
  const response = await proxy.fetch('/things', { method })
  await response.arrayBuffer()
  return response.status
}

const KEPT: Connection = ['answer', 'reset']

// Bug: it got 502, as if the application had failed.
test.each<[what: string, connections: readonly Connection[], method: string, status: number, sent: number]>([
  ['a GET', [KEPT], 'GET', 200, 2],
  ['a GET, closed in order', [['answer', 'end']], 'GET', 200, 2],
  ['a HEAD', [KEPT], 'HEAD', 200, 2],
  ['an OPTIONS', [KEPT], 'OPTIONS', 200, 2],
  // Once more, and no third time.
  ['a GET whose second connection closes, too', [KEPT, ['reset']], 'GET', 502, 2],
  ['a GET on a new connection', [['reset']], 'GET', 502, 1],
  // The application had begun to answer.
  ['a GET with an interim answer', [['answer', 'reset after 103']], 'GET', 502, 1],
  ['a GET with a part of the head', [['answer', 'end in the head']], 'GET', 502, 1],
  // It may have been executed.
  ['a DELETE', [KEPT], 'DELETE', 502, 1],
])('%s that meets the closing of a kept connection', async (_, connections, method, status, sent) => {
  await using application = await startClosing(connections)
  await using proxy = await startProxy(application.origin)
  if (connections[0]?.[0] === 'answer') expect(await statusOf(proxy, 'GET')).toBe(200)
  const before = application.seen.length
  expect(await statusOf(proxy, method)).toBe(status)
  expect(application.seen.slice(before)).toEqual(Array(sent).fill(`${method} /things`))
})

test.each<[what: string, method: string, headers: Record<string, string>]>([
  ['a POST with a key', 'POST', { 'Idempotency-Key': 'one', 'X-Pay': '1' }],
  ['an unprotected POST', 'POST', {}],
  ['an unprotected PUT', 'PUT', {}],
  // Who protects GET says that it changes something.
  ['a GET of a protected route, without a key', 'GET', { 'X-Pay': '1' }],
])('%s is written at most once', async (_, method, headers) => {
  await using application = await startClosing([KEPT])
  const protectedRoute = route({ match: { headers: [{ kind: 'present', name: 'x-pay' }] } })
  await using proxy = await startProxy(application.origin, { routes: [protectedRoute] })
  expect(await statusOf(proxy, 'GET')).toBe(200)
  const body = method === 'GET' ? {} : { body: 'pay' }
  const response = await proxy.fetch('/pay', { method, headers, ...body })
  expect(response.status).toBe(502)
  expect(application.seen.filter((line) => line !== 'pay')).toEqual(['GET /things', `${method} /pay`])
})

test('a WebSocket that meets the closing of a kept connection is opened on another', async () => {
  await using application = await startClosing([KEPT])
  await using proxy = await startProxy(application.origin)
  expect(await statusOf(proxy, 'GET')).toBe(200)
  await using wire = await openWire(proxy.port)
  wire.send('GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await wire.ended
  expect(wire.received()).toMatch(/^HTTP\/1\.1 200 /)
  expect(application.seen).toEqual(['GET /things', 'GET /socket', 'GET /socket'])
})

/** Keeps idle connections for 100 ms, and stands still for longer when `/busy` is answered: what arrives meanwhile is not read any more. */
const SHORT_KEEPING = `
  const { writeSync } = require('node:fs')
  const server = require('node:http').createServer((request, response) => {
    if (request.url === '/busy') response.on('finish', () => setImmediate(stand))
    // Said by itself, it does not say for how long.
    response.setHeader('Connection', 'keep-alive').end('ok')
  })
  function stand() {
    writeSync(1, 'stands\\n')
    const until = Date.now() + 600
    while (Date.now() < until);
  }
  server.keepAliveTimeout = 100
  server.keepAliveTimeoutBuffer = 0
  server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port))
`

test('a GET that meets a server of Node which has just given its connection up is answered', async () => {
  await using server = new TestProcess(process.execPath, ['-e', SHORT_KEEPING])
  const [, port] = await server.line(/^port (\d+)$/)
  await using proxy = await startProxy(`http://127.0.0.1:${port}`)
  await (await proxy.fetch('/busy')).text()
  await server.line(/^stands$/)
  const response = await proxy.fetch('/things')
  expect([response.status, await response.text()]).toEqual([200, 'ok'])
})
