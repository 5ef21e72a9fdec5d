/**
 * Bytes that are no request, or more than one. Each row: the bytes, the status, and how often the application was
 * called. A refused request is never executed, and no bytes behind it on its connection are.
 *
 * Source: RFC 9112, sections 2.2, 3.2, 5.1, 5.2, 6.1 to 6.3, 7.1 and 11.2.
 */
import { expect, test } from 'vitest'
import { startApplication } from '../../support/application.ts'
import { duringTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { openWire, startProxy } from '../../support/proxy.ts'

const application = duringTests(() => startApplication())
const proxy = duringTests(() => startProxy(application.origin))

let keys = 0

/** Sends the bytes, waits for one whole answer, and returns the result. */
async function answerTo(bytes: string) {
  keys += 1
  const called = application.seen.length
  await using wire = await openWire(proxy.port)
  wire.send(bytes.replaceAll('KEY', `framing-${keys}`))
  const status = await eventually(
    'an answer',
    () => /^HTTP\/1\.1 ([0-9]{3}) .*\r\n\r\n/s.exec(wire.received())?.[1],
  )
  return { status: Number(status), called: application.seen.length - called, wire: wire.received() }
}

const HEAD = 'POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\n'

/** 400 where no status stands. */
type Row = [what: string, bytes: string, status?: number]

test.each<Row>([
  // Two lengths
  [
    'Content-Length before Transfer-Encoding',
    `${HEAD}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    'Transfer-Encoding before Content-Length',
    `${HEAD}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
  ],
  ['two different lengths', `${HEAD}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`],
  ['two equal lengths', `${HEAD}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`],
  ...['+2', '-1', '0x2', '', '1 2', '2, 2', '18446744073709551618'].map(
    (length): Row => [`Content-Length: ${length}`, `${HEAD}Content-Length: ${length}\r\n\r\n{}`],
  ),
  // Header lines
  ['a space before the colon', `${HEAD}X-A : b\r\n\r\n`],
  ['a bare CR in a value', `${HEAD}X-A: b\rc\r\n\r\n`],
  ['a control in a value', `${HEAD}X-A: b\x01c\r\nContent-Length: 2\r\n\r\n{}`],
  ['DEL in a value', `${HEAD}X-A: b\x7fc\r\nContent-Length: 2\r\n\r\n{}`],
  ['a NUL in a value', `${HEAD}X-A: b\0c\r\n\r\n`],
  ['an empty name', `${HEAD}: b\r\n\r\n`],
  ['no colon', `${HEAD}X-A\r\n\r\n`],
  ['a name beyond ASCII', `${HEAD}X-\xe9: b\r\n\r\n`],
  ['a folded line', `${HEAD}X-A: b\r\n c\r\n\r\n`],
  ['a bare LF', `${HEAD}X-A: b\nX-B: c\r\n\r\n`],
  // Transfer codings
  ['gzip, chunked', `${HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, 501],
  [
    'two codings on two lines',
    `${HEAD}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    501,
  ],
  ['identity', `${HEAD}Transfer-Encoding: identity\r\n\r\n`],
  [',chunked', `${HEAD}Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n`],
  ['chunked twice', `${HEAD}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n`],
  [
    'chunked in HTTP/1.0',
    `POST /things HTTP/1.0\r\nIdempotency-Key: KEY\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ...['0x2', '-1', '2 ;', '11111111111111111', ' 2', '2\r\n{}\r\nx'].map(
    (size): Row => [
      `a chunk of size ${JSON.stringify(size)}`,
      `${HEAD}Transfer-Encoding: chunked\r\n\r\n${size}\r\n{}\r\n0\r\n\r\n`,
    ],
  ),
  [
    'a trailer that states a length',
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 7\r\n\r\n`,
  ],
  // Lines and versions
  ['HTTP/0.9', 'GET /\r\n\r\n'],
  ['a version that was cut off', 'POST /things\r\nHost: a\r\nContent-Length: 0\r\n\r\n'],
  ['HTTP/1.2', `POST /things HTTP/1.2\r\nHost: a\r\n\r\n`],
  ['HTTP/2 by prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a method that is none', 'P OST /things HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['garbage', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'],
  // Host and target
  ['no Host', 'POST /things HTTP/1.1\r\nContent-Length: 0\r\n\r\n'],
  ['two Hosts', 'POST /things HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n'],
  ['two equal Hosts', 'POST /things HTTP/1.1\r\nHost: a\r\nHost: a\r\nContent-Length: 0\r\n\r\n'],
  ...['a b', 'a/c', 'u@d', 'a b/c@d', 'a:b', '[::1', 'a\\b', 'a?b', 'a#b'].map(
    (host): Row => [`Host: ${host}`, `POST /things HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 0\r\n\r\n`],
  ),
  ['a target without a slash', 'POST things HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n'],
  ['a fragment', 'POST /things#x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n'],
  ['another scheme', 'POST ftp://a/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n'],
  ['the authority of another user', 'POST http://u:p@a/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n'],
  ['POST *', 'POST * HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n'],
  // Names that a proxy would remove
  ...[
    'Idempotency-Key',
    'Content-Length',
    'Authorization',
    'X-Tenant-Id',
    'X-Client-Id',
    'close, HOST',
    'Cookie',
    'Fencepost-Attempt',
    // Bug: a client could have removed what a gateway in front says of it: its address, its certificate, its user.
    'X-Real-IP',
    'X-Forwarded-For',
    'X-Forwarded-Proto',
    'close, x-forwarded-client-cert',
    'Forwarded',
    'X_Forwarded_Port',
    'X-User-Id',
    'X-Auth-Request-Email',
    'X-Api-Key',
    'Remote_User',
    'X-Event-Id',
  ].map((name): Row => [`Connection: ${name}`, `${HEAD}Connection: ${name}\r\nContent-Length: 2\r\n\r\n{}`]),
  // Methods
  ['CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n', 405],
  ['TRACE', 'TRACE / HTTP/1.1\r\nHost: a\r\n\r\n', 405],
  ...['LIST', 'BAN', 'GETX', 'X-Y'].map(
    (method): Row => [method, `${method} / HTTP/1.1\r\nHost: a\r\n\r\n`, 405],
  ),
  // Limits and expectations
  ['201 header lines', `${HEAD}${'X-A: b\r\n'.repeat(199)}\r\n`, 431],
  [
    'a key behind a thousand lines',
    `POST /things HTTP/1.1\r\nHost: a\r\n${'a:\r\n'.repeat(1_100)}Idempotency-Key: KEY\r\nContent-Length: 2\r\n\r\n{}`,
    431,
  ],
  ['a head above 16 KiB', `${HEAD}X-A: ${'b'.repeat(16_384)}\r\n\r\n`, 431],
  ['a target above 16 KiB', `POST /${'b'.repeat(16_384)} HTTP/1.1\r\nHost: a\r\n\r\n`, 431],
  ['another expectation', `${HEAD}Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}`, 417],
])('%s is refused', async (_what, bytes, status = 400) => {
  const answer = await answerTo(bytes)
  expect({ status: answer.status, called: answer.called }).toEqual({ status, called: 0 })
  expect(answer.wire).toContain('application/problem+json')
  expect(answer.wire).toMatch(/\r\nConnection: close\r\n/i)
})

// Bug: they were called malformed, which they are not.
test.each([
  ['alone', 'BAN / HTTP/1.1\r\nHost: a\r\n\r\n', 'does not read this method'],
  ['behind a request', 'GET /x HTTP/1.1\r\nHost: a\r\n\r\nLIST / HTTP/1.1\r\n', 'does not read this method'],
  ['what is none', 'hello, world\r\n\r\n', 'not a well-formed HTTP/1.1 request'],
  ['a handshake of TLS', '\x16\x03\x01\x02\x00 / HTTP/1.1\r\n', 'not a well-formed HTTP/1.1 request'],
])('a method that the parser does not know, %s, is told as that', async (_, bytes, sentence) => {
  expect((await answerTo(bytes)).wire).toContain(sentence)
})

test.each<[what: string, bytes: string, target: string]>([
  [
    'absolute form is taken as a path',
    'POST http://evil.example/x?y HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n',
    '/x?y',
  ],
  [
    'absolute form without a path',
    'POST http://evil.example HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n',
    '/',
  ],
  ...[
    '/\\evil',
    '/@evil',
    '/.evil',
    '//evil/x',
    '/a/../b',
    '/%2e%2e/x',
    '/a%2fb',
    '/%5c',
    '/a;x=1',
    '/a?b=%zz',
    '/%zz',
    '/%',
    '/a?',
  ].map((target): [string, string, string] => [
    `${target} goes on byte for byte`,
    `POST ${target} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nContent-Length: 0\r\n\r\n`,
    target,
  ]),
])('%s', async (_what, bytes, target) => {
  const answer = await answerTo(bytes)
  expect(answer).toMatchObject({ status: 201, called: 1 })
  const seen = application.seen.at(-1)
  expect(seen?.target).toBe(target)
  // Of a target that is a URL, its host (RFC 9112, section 3.2.2).
  expect(seen?.values('host')).toEqual([bytes.includes('//evil.example') ? 'evil.example' : 'a'])
})

test('an offer of HTTP/2 is declined by answering in HTTP/1.1', async () => {
  const answer = await answerTo(
    `${HEAD}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 2\r\n\r\n{}`,
  )
  expect(answer).toMatchObject({ status: 201, called: 1 })
  expect(application.seen.at(-1)?.values('upgrade')).toEqual([])
})

test('trailers are not merged into the headers', async () => {
  const answer = await answerTo(
    'POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: KEY\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\n{}\r\n0\r\nIdempotency-Key: other\r\nHost: evil\r\nX-T: 1\r\n\r\n',
  )
  expect(answer).toMatchObject({ status: 201, called: 1 })
  const seen = application.seen.at(-1)
  expect(seen?.values('idempotency-key')).toEqual([`framing-${keys}`])
  expect(seen?.values('content-length')).toEqual(['2'])
  expect([seen?.values('x-t'), seen?.values('trailer')]).toEqual([[], []])
})

test('two pipelined requests get their own answers, in order', async () => {
  await proxy.post('pipelined')
  await using wire = await openWire(proxy.port)
  const request = (key: string) =>
    `POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`
  wire.send(request('pipelined') + request('pipelined-2'))
  await eventually('two answers', () => wire.received().split('HTTP/1.1 201').length === 3)
  expect(wire.received().match(/Idempotency-Status: \w+/g)).toEqual([
    'Idempotency-Status: replayed',
    'Idempotency-Status: created',
  ])
})

/** Bug: CONNECT was answered at once, so its 405 was the answer to the request before it, which was executed. */
test.each([
  ['malformed bytes', 'garbage\r\n\r\n', 400],
  ['CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n', 405],
])('the refusal of %s behind an executing request does not answer that one', async (what, bytes, status) => {
  const before = application.seen.length
  await using wire = await openWire(proxy.port)
  wire.send(`${HEAD.replace('KEY', `before-${what.slice(0, 5)}`)}Content-Length: 2\r\n\r\n{}${bytes}`)
  await wire.ended
  expect(application.seen.length - before).toBe(1)
  expect(wire.received().match(/HTTP\/1\.1 [0-9]+/g)).toEqual(['HTTP/1.1 201', `HTTP/1.1 ${status}`])
})

test('CONNECT behind a refused request has no answer: that of the refused one ends the connection', async () => {
  await using wire = await openWire(proxy.port)
  wire.send('GET /x HTTP/1.1\r\n\r\nCONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n')
  await wire.ended
  expect(wire.received().match(/HTTP\/1\.1 [0-9]+/g)).toEqual(['HTTP/1.1 400'])
})

test.each([
  ['a malformed request', 'POST /x HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}'],
  [
    'an expectation that is not known',
    'PUT /x HTTP/1.1\r\nHost: a\r\nExpect: cake\r\nContent-Length: 4\r\n\r\nbody',
  ],
  ['a body that is too large', `${HEAD}Content-Length: 1048577\r\n\r\n${'x'.repeat(1_048_577)}`],
])('behind %s no request is executed on the same connection', async (_what, refused) => {
  const upgrade = 'Upgrade: websocket\r\nConnection: Upgrade\r\n'
  for (const lines of ['', upgrade]) {
    const answer = await answerTo(`${refused}GET /behind HTTP/1.1\r\nHost: a\r\n${lines}\r\n`)
    expect(answer).toMatchObject({ status: expect.any(Number), called: 0 })
  }
  await eventually('no request is left', () => proxy.proxy.inFlight() === 0)
  expect(application.seen.filter((seen) => seen.target === '/behind')).toEqual([])
})

test('OPTIONS * and an OPTIONS on its last hop are answered by the sidecar', async () => {
  const star = await answerTo('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')
  const last = await answerTo('OPTIONS /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n')
  expect([star.status, star.called, last.status, last.called]).toEqual([204, 0, 204, 0])
  await answerTo('OPTIONS /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\n\r\n')
  expect(application.seen.at(-1)?.values('max-forwards')).toEqual(['2'])
})

test('100 Continue is sent once, and only where the body is read', async () => {
  await using wire = await openWire(proxy.port)
  wire.send(`${HEAD.replace('KEY', 'expects')}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n`)
  await eventually('100 Continue', () => wire.received() === 'HTTP/1.1 100 Continue\r\n\r\n')
  wire.send('{}')
  await eventually('201', () => wire.received().includes('HTTP/1.1 201'))
  expect(application.seen.at(-1)?.values('expect')).toEqual([])

  const tooLarge = await answerTo(`${HEAD}Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n`)
  expect(tooLarge).toMatchObject({ status: 413, called: 0 })
  expect(tooLarge.wire).not.toContain('100 Continue')
})

test('after all malformed requests the proxy serves, and has reported no failure', async () => {
  expect((await proxy.post('alive')).status).toBe(201)
  expect(proxy.failures).toEqual([])
  await eventually('no request is left', () => proxy.proxy.inFlight() === 0)
})
