import { connect } from 'node:net'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { SILENT } from '../../../src/core/events.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { UNANSWERED_MAX } from '../../../src/http/server/connection-faults.ts'
import { systemClock } from '../../../src/system/clock.ts'
import { startApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { heldClock } from '../../support/held-clock.ts'
import { TestProcess } from '../../support/processes.ts'
import { hold, openWire, route, startProxy } from '../../support/proxy.ts'

const HEAD = 'POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n'

test.each<[what: string, bytes: string, limit: string]>([
  ['a head', `${HEAD}X-A: ${'b'.repeat(2_100)}\r\n\r\n`, 'larger than 2048 bytes'],
  ['header lines', `${HEAD}${'a: b\r\n'.repeat(20)}\r\n`, 'at most 20 are accepted'],
  ['a body', `${HEAD}Content-Length: 101\r\n\r\n${'x'.repeat(101)}`, 'larger than 100 bytes'],
  ['a slow head', 'POST / HTTP/1.1\r\nHost', 'within 150 ms'],
  ['a slow body', `${HEAD}Content-Length: 9\r\n\r\n`, 'within 250 ms'],
  ['a key', HEAD.replace('k\r\n', `${'k'.repeat(256)}\r\nContent-Length: 0\r\n\r\n`), 'at most 255'],
  ['a version', `${HEAD}X-Api-Version: ${'v'.repeat(129)}\r\nContent-Length: 0\r\n\r\n`, 'at most 128'],
  ['a tenant', `${HEAD}X-Tenant-Id: ${'t'.repeat(129)}\r\nContent-Length: 0\r\n\r\n`, 'at most 128'],
])('%s above its limit gets the limit in the answer', async (what, bytes, limit) => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, {
    routes: [route({ bodyLimitBytes: 100 })],
    limits: {
      headerBytesMax: 2_048,
      headerLinesMax: 20,
      // Short only where they are waited for: a busy process may read timely bytes too late.
      ...(what.startsWith('a slow') ? { headersTimeoutMs: 150, requestTimeoutMs: 250 } : {}),
    },
  })
  await using wire = await openWire(proxy.port)
  wire.send(bytes)
  await eventually('an answer', () => wire.received().endsWith('}'))
  expect(JSON.parse(wire.received().split('\r\n\r\n')[1] ?? '').detail).toContain(limit)
  expect(application.seen.length).toBe(0)
})

test('requests in flight and waiting duplicates get their limits, and a free place is used', async () => {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    await held.released
    response.end()
  })
  await using proxy = await startProxy(application.origin, {
    limits: { inFlightMax: 3 },
    routes: [route({ onContention: 'wait', wait: { maxMs: 5_000, maxWaiters: 1 } })],
  })
  const first = proxy.post('k')
  await eventually('the application works', () => application.seen.length === 1)
  const waiting = proxy.post('k')
  await eventually(
    'one waits',
    () => proxy.events.filter((event) => event.kind === 'claim_ended').length >= 2,
  )
  expect(await (await proxy.post('k')).json()).toMatchObject({
    detail: expect.stringContaining('1 others wait'),
  })
  const third = proxy.post('other')
  await eventually('three are under way', () => proxy.proxy.inFlight() === 3)
  const fourth = await proxy.post('yet-another')
  expect(await fourth.json()).toMatchObject({ detail: expect.stringContaining('3 requests are under way') })
  held.release()
  expect((await Promise.all([first, waiting, third])).map((answer) => answer.status)).toEqual([200, 200, 200])
  expect((await proxy.post('yet-another')).status).toBe(200)
})

test('what no route protects takes no more than three quarters of the connections: a protected request finds one', async () => {
  const held = hold()
  await using application = await startApplication(async (seen, response) => {
    if (seen.method === 'GET') await held.released
    response.end()
  })
  await using proxy = await startProxy(application.origin, { upstreamConnectionsMax: 4 })
  const polls = Array.from({ length: 5 }, () => proxy.fetch('/events'))
  await eventually('all five wait', () => proxy.proxy.inFlight() === 5 && application.seen.length >= 3)
  expect([(await proxy.post('a')).status, (await proxy.post('b')).status]).toEqual([200, 200])
  expect(application.seen.map(({ method }) => method)).toEqual(['GET', 'GET', 'GET', 'POST', 'POST'])
  held.release()
  expect((await Promise.all(polls)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
})

test('protected requests may have all connections', async () => {
  const held = hold()
  await using application = await startApplication(async (_seen, response) => {
    await held.released
    response.end()
  })
  await using proxy = await startProxy(application.origin, { upstreamConnectionsMax: 4 })
  const all = ['a', 'b', 'c', 'd', 'e'].map((key) => proxy.post(key))
  await eventually('four are at work', () => application.seen.length === 4)
  held.release()
  expect((await Promise.all(all)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
})

test('what no route protects takes no more than three quarters of the places, WebSockets included', async () => {
  const held = hold()
  await using application = await startApplication(async (seen, response) => {
    if (seen.method === 'GET') await held.released
    response.end()
  })
  await using proxy = await startProxy(application.origin, { limits: { inFlightMax: 4 } })
  const polls = [proxy.fetch('/events'), proxy.fetch('/events'), proxy.fetch('/events')]
  await eventually('three are under way', () => application.seen.length === 3)
  const refused = await proxy.fetch('/events')
  expect([refused.status, await refused.json()]).toEqual([
    503,
    expect.objectContaining({
      detail: expect.stringContaining('3 requests that no route protects are under way'),
    }),
  ])
  await using wire = await openWire(proxy.port)
  wire.send('GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await eventually('an answer', () =>
    wire.received().includes('3 requests that no route protects are under way'),
  )
  expect((await proxy.post('a')).status).toBe(200)
  held.release()
  expect((await Promise.all(polls)).map(({ status }) => status)).toEqual([200, 200, 200])
  expect((await proxy.fetch('/events')).status).toBe(200)
})

test('a request beyond the total hold loses its claim: the next attempt is executed, and its outcome is recorded', async () => {
  const held = hold()
  await using application = await startApplication(async (seen, response, execution) => {
    if (execution === 1) await held.released
    response.writeHead(201).end(`execution ${execution}, attempt ${seen.values('fencepost-attempt')[0]}`)
  })
  await using proxy = await startProxy(application.origin, {
    routes: [route({ leaseMs: 300, totalHoldMs: 400 })],
  })
  const first = proxy.post('k')
  await eventually('the application works', () => application.seen.length === 1)
  const second = await eventually('another attempt', async () => {
    const answer = await proxy.post('k')
    return answer.status === 201 ? answer.text() : false
  })
  expect(second).toBe('execution 2, attempt 2')
  held.release()
  const late = await first
  expect([late.headers.get('idempotency-status'), await late.text()]).toEqual(['replayed', second])
})

test.each<[what: string, tenants: object, said: string]>([
  ['requests under way', { inFlightMax: 1 }, '1 requests of this tenant are under way'],
  ['new records', { newRecordsPerSecondMax: 1 }, 'more than 1 new records within a second'],
])(
  'a tenant with too many %s gets the limit, another tenant’s requests are executed, and duplicates are answered',
  async (_what, tenants, said) => {
    const held = hold()
    await using application = await startApplication(async (seen, response) => {
      if (seen.target === '/things' && seen.values('x-hold').length > 0) await held.released
      response.writeHead(201).end()
    })
    const quotaClock = heldClock()
    await using proxy = await startProxy(application.origin, { tenants, quotaClock })
    const first = proxy.post('a', '{}', { 'x-hold': '1' })
    await eventually('the application works', () => application.seen.length === 1)
    const refused = await proxy.post('b')
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(await refused.json()).toMatchObject({ detail: expect.stringContaining(said) })
    // Bug: the log said that a tenant is refused, and not which.
    expect(proxy.events.findLast(({ kind }) => kind === 'decided')).toMatchObject({
      decision: 'overloaded',
      tenant: 'default',
    })
    expect((await proxy.post('b', '{}', { 'x-tenant-id': 'other' })).status).toBe(201)
    held.release()
    expect((await first).status).toBe(201)
    quotaClock.advance(1_000)
    await eventually('the tenant may go on', async () => (await proxy.post('b')).status === 201)
  },
)

test('a connection is closed after its number of requests', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, { limits: { requestsPerConnectionMax: 2 } })
  await using wire = await openWire(proxy.port)
  for (let request = 1; request <= 2; request += 1) {
    wire.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
    await eventually('its answer', () => wire.received().split('HTTP/1.1 201').length === request + 1)
  }
  await wire.ended
  expect(
    wire
      .received()
      .match(/^Connection: .*$/gm)
      ?.map((line) => line.trim()),
  ).toEqual(['Connection: keep-alive', 'Connection: close'])
})

// Bug: all that a client sent ahead was taken. One connection with 2.7 MB of small requests took 790 MB.
test('a connection on which too many requests wait for their answers is cut, and those beyond the limit are not executed', async () => {
  const held = hold()
  await using application = await startApplication(async (seen, response) => {
    if (seen.target === '/held') await held.released
    response.writeHead(201).end()
  })
  await using proxy = await startProxy(application.origin)
  await using wire = await openWire(proxy.port)
  const ahead = (count: number) => 'GET /held HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count)
  wire.send(ahead(UNANSWERED_MAX))
  await eventually('all are with the application', () => application.seen.length === UNANSWERED_MAX)
  wire.send(ahead(10_000))
  await wire.closed
  expect((await proxy.fetch('/other')).status).toBe(201)
  expect(application.seen.length).toBe(UNANSWERED_MAX + 1)
  held.release()
})

test('connections above the limit are closed at once', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, { limits: { connectionsMax: 1 } })
  await using first = await openWire(proxy.port)
  first.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
  await eventually('its answer', () => first.received().includes('HTTP/1.1 201'))
  await using second = await openWire(proxy.port)
  await second.ended
  expect(second.received()).toBe('')
})

test.each<[bytes: number, second: string]>([
  [400, '201 replayed'],
  // A body beyond four times its limit is compared as it came.
  [401, '422 mismatch'],
])('a body that decodes to %i bytes where 100 may be sent, in another coding: %s', async (bytes, second) => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, { routes: [route({ bodyLimitBytes: 100 })] })
  const plain = 'x'.repeat(bytes)
  const told: string[] = []
  for (const [coding, body] of [
    ['gzip', gzipSync(plain)],
    ['br', brotliCompressSync(plain)],
  ] as const) {
    const headers = { 'idempotency-key': 'k', 'content-type': 'text/plain', 'content-encoding': coding }
    const answer = await proxy.fetch('/things', { method: 'POST', body, headers })
    told.push(`${answer.status} ${answer.headers.get('idempotency-status')}`)
  }
  expect(told).toEqual(['201 created', second])
})

test('an idle connection is closed', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, { limits: { keepAliveTimeoutMs: 50 } })
  await using wire = await openWire(proxy.port)
  wire.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
  await eventually('its answer', () => wire.received().includes('HTTP/1.1 201'))
  await wire.ended
})

test('an application that does not accept connections is 502: no request is sent, and a retry is safe', async () => {
  // It listens and never accepts: once its backlog is full, connecting to it never ends.
  const listens = `const server = require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
    require('fs').writeSync(1, 'port ' + server.address().port + '\\n')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })`
  await using deaf = new TestProcess(process.execPath, ['-e', listens])
  const [, port] = await deaf.line(/^port (\d+)$/)
  const queue = Array.from({ length: 8 }, () => connect({ host: '127.0.0.1', port: Number(port) }))
  for (const socket of queue) socket.on('error', () => {})
  await eventually('its queue is full', () => queue.some(({ pending }) => !pending))
  await using proxy = await startProxy(`http://127.0.0.1:${port}`)
  const refused = await eventually('it connects no more', async () => {
    const answer = await Promise.race([proxy.post(`k-${Math.random()}`), proxy.post(`k-${Math.random()}`)])
    return answer.status === 502 ? answer : undefined
  })
  expect(await refused.json()).toMatchObject({
    code: 'application-unreachable',
  })
  for (const socket of queue) socket.destroy()
})

test('outcomes above the limit of background retries are given up: their claims expire, the others are recorded', async () => {
  let down = false
  const nodes = createEmbeddedNodes(5, systemClock, 10_000, SILENT).map((node) => ({
    ...node,
    execute: (command: Parameters<typeof node.execute>[0]) =>
      down
        ? Promise.resolve({ kind: 'unreachable', reason: 'refused', detail: 'of the test' } as const)
        : node.execute(command),
  }))
  const held = hold()
  await using application = await startApplication(async (_request, response, execution) => {
    if (execution <= 2) await held.released
    response.writeHead(201).end()
  })
  await using proxy = await startProxy(application.origin, {
    nodes,
    lateOffersMax: 1,
    routes: [route({ leaseMs: 5_000 })],
  })
  const both = [proxy.post('a'), proxy.post('b')]
  await eventually('the application works', () => application.seen.length === 2)
  down = true
  held.release()
  const status = async (answer: Promise<Response>) => (await answer).headers.get('idempotency-status')
  expect(await Promise.all(both.map(status))).toEqual(['unstored', 'unstored'])
  down = false
  const settled = (key: string) =>
    eventually(
      'its end',
      async () => {
        const told = await status(proxy.post(key))
        return told === 'in-progress' ? undefined : told
      },
      { withinMs: 15_000 },
    )
  expect((await Promise.all([settled('a'), settled('b')])).sort()).toEqual(['created', 'replayed'])
  expect(application.seen.map((seen) => seen.values('fencepost-attempt')[0])).toEqual(['1', '1', '2'])
})
