/**
 * Clients that leave, that are slow, that come in crowds; a sidecar that dies, and one that shuts down.
 */
import { expect, test } from 'vitest'
import { startApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { hold, openWire, route, startProxy } from '../../support/proxy.ts'

const told = (response: Response) => `${response.status} ${response.headers.get('idempotency-status')}`

test('a client that disconnects does not end the work, and its retry gets the stored answer', async () => {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    await held.released
    response.writeHead(201).end('done')
  })
  await using proxy = await startProxy(application.origin)
  const controller = new AbortController()
  const lost = proxy.fetch('/things', {
    method: 'POST',
    body: '{}',
    headers: { 'idempotency-key': 'lost', 'content-type': 'application/json' },
    signal: controller.signal,
  })
  await eventually('the application works', () => application.seen.length === 1)
  controller.abort()
  await expect(lost).rejects.toThrow()
  held.release()
  await eventually('the outcome is recorded', () => proxy.events.some((event) => event.kind === 'completed'))
  const retry = await proxy.post('lost')
  expect([told(retry), await retry.text()]).toEqual(['201 replayed', 'done'])
  expect(application.seen.length).toBe(1)
})

test('a client that ends its side of the connection counts as gone: no answer, the work goes on, and its retry gets the stored answer', async () => {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    await held.released
    response.writeHead(201).end('done')
  })
  await using proxy = await startProxy(application.origin)
  await using wire = await openWire(proxy.port)
  wire.socket.end(
    'POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: ended\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}',
  )
  await wire.closed
  held.release()
  await eventually('the outcome is recorded', () => proxy.events.some((event) => event.kind === 'completed'))
  const retry = await proxy.post('ended')
  expect([wire.received(), told(retry), await retry.text()]).toEqual(['', '201 replayed', 'done'])
  expect(application.seen.length).toBe(1)
})

test('a client that disconnects before its request is complete leaves no record', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  {
    await using wire = await openWire(proxy.port)
    wire.send('POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: half\r\nContent-Length: 9\r\n\r\n{')
    await eventually('it has arrived', () => proxy.proxy.inFlight() === 1)
  }
  await eventually('it is gone', () => proxy.proxy.inFlight() === 0)
  expect(application.seen.length).toBe(0)
  expect(proxy.events.filter((event) => event.kind === 'claim_ended')).toEqual([])
})

test.each(['wait', 'coordinate'] as const)(
  'twenty simultaneous requests with one key are executed once (%s)',
  async (onContention) => {
    await using application = await startApplication()
    await using proxy = await startProxy(application.origin, {
      routes: [route({ onContention, wait: { maxMs: 5_000, maxWaiters: 100 } })],
    })
    const answers = await Promise.all(Array.from({ length: 20 }, () => proxy.post('storm')))
    expect(answers.map((answer) => answer.status)).toEqual(Array(20).fill(201))
    expect(answers.filter((answer) => told(answer) === '201 created').length).toBe(1)
    expect(application.seen.length).toBe(1)
  },
)

test('a waiting client that disconnects frees its place, and its request is not executed', async () => {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    await held.released
    response.writeHead(503).end()
  })
  await using proxy = await startProxy(application.origin, {
    routes: [route({ onContention: 'wait', wait: { maxMs: 60_000, maxWaiters: 1 } })],
  })
  const first = proxy.post('k')
  await eventually('the application works', () => application.seen.length === 1)
  {
    await using wire = await openWire(proxy.port)
    wire.send(
      'POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}',
    )
    // Wait for that: otherwise the request below could take the only place.
    await eventually(
      'it has claimed',
      () => proxy.events.filter((event) => event.kind === 'claim_ended').length >= 2,
    )
    await eventually('it waits', async () => (await proxy.post('k')).status === 429)
  }
  await eventually('its place is free', () => proxy.proxy.inFlight() === 1)
  held.release()
  expect(told(await first)).toBe('503 released')
  expect(application.seen.length).toBe(1)
})

test('two sidecars on the same nodes behave as one', async () => {
  await using application = await startApplication()
  await using one = await startProxy(application.origin)
  await using other = await startProxy(application.origin, { nodes: one.nodes })
  expect(told(await one.post('k'))).toBe('201 created')
  expect(told(await other.post('k'))).toBe('201 replayed')
  expect(application.seen.length).toBe(1)
})

test('after a lost answer the key stays claimed until the lease ends; then a retry is attempt 2 with a larger token', async () => {
  await using application = await startApplication((_request, response, execution) => {
    if (execution === 1) response.socket?.resetAndDestroy()
    else response.writeHead(201).end()
  })
  await using proxy = await startProxy(application.origin, { routes: [route({ leaseMs: 2_000 })] })
  expect(told(await proxy.post('k'))).toBe('502 indeterminate')
  expect(told(await proxy.post('k'))).toBe('409 in-progress')
  await eventually('the lease has ended', async () => told(await proxy.post('k')) === '201 created')
  expect(application.seen.map((seen) => seen.values('fencepost-attempt'))).toEqual([['1'], ['2']])
  const tokens = application.seen.map((seen) => Number(seen.values('fencepost-fencing-token')[0]))
  expect(tokens[1]).toBeGreaterThan(tokens[0]!)
})

test('a draining proxy finishes its requests, and its port is closed', async () => {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    await held.released
    response.end('done')
  })
  await using proxy = await startProxy(application.origin)
  const first = proxy.post('k')
  await eventually('the application works', () => application.seen.length === 1)
  const closed = proxy.proxy.close(10_000)
  await expect(proxy.post('other')).rejects.toThrow()
  held.release()
  const answer = await first
  expect([told(answer), answer.headers.get('connection')]).toEqual(['200 created', 'close'])
  await closed
})

test('requests in flight are cut off when the grace period ends', async () => {
  await using application = await startApplication(() => {})
  await using proxy = await startProxy(application.origin)
  const first = proxy.post('k').catch((error: unknown) => error)
  await eventually('the application works', () => application.seen.length === 1)
  await proxy.proxy.close(50)
  expect(await first).toBeInstanceOf(Error)
})

test.each([
  ['a head that does not end', 'POST /things HTTP/1.1\r\nHost: a\r\nX-A: b\r\n'],
  [
    'a body that does not end',
    'POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\n{',
  ],
  [
    'chunks that do not end',
    'POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n',
  ],
  ['a bypassed body that does not end', 'PUT /things HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{'],
])('%s is cut with 408 and the connection closed', async (_what, bytes) => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, {
    limits: { headersTimeoutMs: 200, requestTimeoutMs: 200 },
  })
  await using wire = await openWire(proxy.port)
  wire.send(bytes)
  await wire.ended
  expect(wire.received()).toMatch(/^HTTP\/1\.1 408 /)
  expect(application.seen.length).toBe(0)
  await eventually('no request is left', () => proxy.proxy.inFlight() === 0)
})

test('malformed bytes in a body are answered as a problem of that request', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  for (const method of ['POST', 'PUT']) {
    await using wire = await openWire(proxy.port)
    wire.send(
      `${method} /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`,
    )
    await eventually('it has arrived', () => proxy.proxy.inFlight() === 1)
    wire.send('zz\r\n')
    await wire.ended
    expect(wire.received()).toMatch(/^HTTP\/1\.1 400 /)
    await eventually('no request is left', () => proxy.proxy.inFlight() === 0)
  }
  expect(application.seen.length).toBe(0)
})

test.each([
  ['with its length', `Content-Length: 3000000\r\n\r\n${'x'.repeat(3_000_000)}`],
  [
    'in chunks',
    `Transfer-Encoding: chunked\r\n\r\n${`${(65_536).toString(16)}\r\n${'x'.repeat(65_536)}\r\n`.repeat(40)}0\r\n\r\n`,
  ],
])('a body above the limit, %s, gets 413 without being read or claimed', async (_what, rest) => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  await using wire = await openWire(proxy.port)
  wire.send(`POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n${rest}`)
  await eventually('an answer', () => wire.received().endsWith('}'))
  expect(wire.received()).toMatch(/^HTTP\/1\.1 413 /)
  expect(wire.received()).toContain('1048576 bytes')
  expect(proxy.events.filter((event) => event.kind === 'claim_ended')).toEqual([])
})

test('a client that does not read its answer is cut off', async () => {
  await using application = await startApplication((_request, response) => {
    response.writeHead(200).end(Buffer.alloc(50_000_000))
  })
  await using proxy = await startProxy(application.origin, { limits: { readerIdleMs: 200 } })
  await using wire = await openWire(proxy.port)
  wire.socket.pause()
  wire.send('GET /large HTTP/1.1\r\nHost: a\r\n\r\n')
  await eventually('it has arrived', () => proxy.proxy.inFlight() === 1)
  await eventually('it was cut off', () => proxy.proxy.inFlight() === 0)
})

test.each([
  ['event stream', '/events'],
  ['answer behind another one on its connection', '/first', '/slow'],
])('a client is not cut off while the application is silent: %s', async (_what, ...targets) => {
  const held = hold()
  await using application = await startApplication(async (request, response) => {
    if (request.target === '/large') return void response.writeHead(200).end(Buffer.alloc(50_000_000))
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    if (request.target !== '/slow') response.write('data: 1\n\n')
    if (request.target !== '/first') await held.released
    response.end('data: 2\n\n')
  })
  await using proxy = await startProxy(application.origin, { limits: { readerIdleMs: 200 } })
  await using listening = await openWire(proxy.port)
  for (const target of targets) listening.send(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await eventually('the first event', () => listening.received().includes('data: 1'))
  await eventually('one answer is awaited', () => proxy.proxy.inFlight() === 1)
  await using stuck = await openWire(proxy.port)
  stuck.socket.pause()
  stuck.send('GET /large HTTP/1.1\r\nHost: a\r\n\r\n')
  await eventually('it has arrived', () => application.seen.length === targets.length + 1)
  // Begun later, so that the other one has been silent for longer.
  await eventually('the client that does not read is cut off', () => proxy.proxy.inFlight() === 1)
  held.release()
  await eventually('all of it', () => listening.received().split('data: 2').length === targets.length + 1)
})

test('every decision is published once, without the key or the body', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  await proxy.post('canary-key', '{"canary":"body"}', { authorization: 'Bearer canary-token' })
  await proxy.post('canary-key', '{"canary":"body"}', { authorization: 'Bearer canary-token' })
  await proxy.post('canary-key', '{"canary":"other"}', { authorization: 'Bearer canary-token' })
  await proxy.fetch('/canary-path')
  await eventually(
    'four decisions',
    () => proxy.events.filter((event) => event.kind === 'decided').length === 4,
  )
  const decided = proxy.events.filter((event) => event.kind === 'decided')
  expect(
    decided.map(({ decision, detail, route: name, status }) => [decision, detail, name, status]),
  ).toEqual([
    ['acquired', 'created', 'posts', 201],
    ['duplicate_completed', 'replayed', 'posts', 201],
    ['fingerprint_mismatch', 'key-reused', 'posts', 422],
    ['bypassed', 'bypassed', undefined, 201],
  ])
  expect(decided[0]?.token).toBe(Number(application.seen[0]?.values('fencepost-fencing-token')[0]))
  expect(JSON.stringify(proxy.events)).not.toContain('canary')
})
