/** Connections to the application: how long one is kept, and that one on which somebody has logged in serves nobody else. */
import { randomUUID } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { listening as served } from '../../support/listening.ts'
import { openWire, startProxy, type Wire } from '../../support/proxy.ts'

async function listening(server: Server) {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => {})
  })
  return { ...(await served(server)), sockets: sockets as ReadonlySet<Socket> }
}

// Bug: a connection was kept for a minute where the application said so, whatever the setting.
test('a connection is kept for as long as the setting says, also where the application would keep it longer', async () => {
  const server = createServer((_request, response) => void response.end('ok'))
  server.keepAliveTimeout = 60_000
  await using application = await listening(server)
  await using proxy = await startProxy(application.origin, { upstreamKeepAliveMs: 50 })
  expect(await (await proxy.fetch('/things')).text()).toBe('ok')
  await eventually('it is given up', () => application.sockets.size === 0)
})

/** As IIS does: it answers 401 with its challenge, then all that comes on that connection as the one who answered it. */
function loggingIn(scheme: string): Server {
  const users = new WeakMap<Socket, string>()
  return createServer((request, response) => {
    const { socket } = request
    const [given, token = ''] = (request.headers.authorization ?? '').split(' ')
    request.resume()
    if (given === scheme && token === 'hello') users.set(socket, 'challenged')
    else if (given === scheme && users.get(socket) === 'challenged') users.set(socket, token)
    const user = users.get(socket)
    if (user === 'challenged') response.writeHead(401, { 'WWW-Authenticate': `${scheme} riddle` }).end()
    else if (user === undefined) response.writeHead(401, { 'WWW-Authenticate': scheme }).end('nobody')
    else response.end(`served as ${user}`)
  })
}

/** The body or the challenge that one request on this connection gets. */
async function ask(wire: Wire, authorization = '', method = 'GET'): Promise<string> {
  const before = wire.received().length
  const line = authorization === '' ? '' : `Authorization: ${authorization}\r\n`
  const key = method === 'POST' ? `Idempotency-Key: ${randomUUID()}\r\nContent-Length: 0\r\n` : ''
  wire.send(`${method} / HTTP/1.1\r\nHost: a\r\n${key}${line}\r\n`)
  const answer = await eventually('its answer', () => {
    const text = wire.received().slice(before)
    const [head = '', body] = text.split('\r\n\r\n')
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN)
    return body !== undefined && body.length === length ? text : undefined
  })
  return /www-authenticate: \w+ riddle/i.test(answer) ? 'riddle' : (answer.split('\r\n\r\n')[1] ?? '')
}

// Bug: a stranger was served as alice.
test.each(
  ['NTLM', 'Negotiate'].flatMap((scheme) => ['GET', 'POST'].map((method) => [scheme, method] as const)),
)('a login by %s holds for the connection of its client alone (%s)', async (scheme, method) => {
  await using application = await listening(loggingIn(scheme))
  await using proxy = await startProxy(application.origin)
  await using alice = await openWire(proxy.port)
  await using stranger = await openWire(proxy.port)
  expect(await ask(alice, '', method)).toBe('nobody')
  expect(await ask(alice, `${scheme} hello`, method)).toBe('riddle')
  expect(await ask(stranger, '', method)).toBe('nobody')
  expect(await ask(alice, `${scheme} alice`, method)).toBe('served as alice')
  for (const _ of [1, 2, 3]) {
    expect(await ask(stranger, '', method)).toBe('nobody')
    expect(await ask(alice, '', method)).toBe('served as alice')
  }
  const before = application.sockets.size
  alice.socket.destroy()
  await eventually('her connection has ended', () => application.sockets.size === before - 1)
  expect(await ask(stranger, '', method)).toBe('nobody')
})

test('as many connections as there may be belong to one client each, and no more', async () => {
  await using application = await listening(loggingIn('NTLM'))
  await using proxy = await startProxy(application.origin, { upstreamConnectionsMax: 1 })
  await using alice = await openWire(proxy.port)
  await using bob = await openWire(proxy.port)
  expect(await ask(alice, 'NTLM hello')).toBe('riddle')
  expect(await ask(bob, 'NTLM hello')).toContain('application-unreachable')
  expect(await ask(bob)).toBe('nobody')
  alice.socket.destroy()
  await eventually('there is room', async () => (await ask(bob, 'NTLM hello')) === 'riddle')
})
