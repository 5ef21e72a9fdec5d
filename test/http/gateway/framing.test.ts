/**
 * Bytes on the gateway listener. Read as: bytes in, status out, and what has been recorded: `claimed` where the check
 * claimed the record of its request, empty where it was refused or its request is unprotected. Whatever the bytes are,
 * the listener lives and reports no failure.
 *
 * Source: RFC 9112, sections 2.2, 3.2, 5.1, 5.2, 6.1 to 6.3 and 7.1.
 */
import { expect, test } from 'vitest'
import { duringTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { startGatewayListener } from '../../support/gateway-listener.ts'
import { openWire } from '../../support/proxy.ts'

const gateway = duringTests(() => startGatewayListener())
const hasty = duringTests(() =>
  startGatewayListener({ limits: { headersTimeoutMs: 150, requestTimeoutMs: 250 } }),
)

let round = 0

/** Sends the bytes, waits for one whole head, and returns the result. */
async function asked(bytes: string, of = gateway) {
  round += 1
  const before = of.claimed().length
  await using wire = await openWire(of.port)
  wire.send(bytes.replaceAll('KEY', `gateway-${round}`))
  const status = await eventually(
    'an answer',
    () => /^HTTP\/1\.1 ([0-9]{3}) .*\r\n\r\n/s.exec(wire.received())?.[1],
  )
  const states = await Promise.all(
    of
      .claimed()
      .slice(before)
      .map((key) => of.state(key)),
  )
  return { status: Number(status), recorded: states.join(), wire: wire.received() }
}

/** How each gateway asks; all rows below use the third way, whose head is the listener's own. */
const ENVOY = 'POST /v1/gateway/ext-authz/things HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: KEY\r\n'
const NGINX =
  'GET /v1/gateway/auth-request HTTP/1.1\r\nHost: a\r\nX-Original-Method: POST\r\nX-Original-URI: /things\r\nIdempotency-Key: KEY\r\n'
const START = 'GET /v1/gateway/forward-auth HTTP/1.1\r\nHost: a\r\n'
const ABOUT = 'X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /things\r\nX-Forwarded-Host: shop\r\n'
const HEAD = `${START}${ABOUT}Idempotency-Key: KEY\r\n`
const REPORT = 'POST /v1/gateway/complete HTTP/1.1\r\nHost: a\r\n'

/** 400, and nothing recorded, where nothing else stands. */
type Row = [what: string, bytes: string, status?: number, recorded?: string]

test.each<Row>([
  // Valid checks
  ['Envoy asks', `${ENVOY}Content-Length: 2\r\n\r\n{}`, 200, 'claimed'],
  ['Envoy asks, in chunks', `${ENVOY}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`, 200, 'claimed'],
  ['nginx asks', `${NGINX}\r\n`, 200, 'claimed'],
  ['Caddy asks', `${HEAD}\r\n`, 200, 'claimed'],
  ['an unprotected request', `${HEAD.replace('POST', 'GET')}\r\n`, 200],
  ['an unprotected request with a body', `${ENVOY.replace('POST', 'PUT')}Content-Length: 2\r\n\r\n{}`, 200],
  // Two lengths
  ['a length before chunks', `${ENVOY}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['chunks before a length', `${ENVOY}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`],
  ['two lengths', `${ENVOY}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`],
  ...['+2', '-1', '0x2', '', '1 2', '18446744073709551618'].map(
    (length): Row => [`the length ${JSON.stringify(length)}`, `${ENVOY}Content-Length: ${length}\r\n\r\n{}`],
  ),
  ['gzip, chunked', `${ENVOY}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, 501],
  [',chunked', `${ENVOY}Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n`],
  ...['0x2', '-1', '11111111111111111'].map(
    (size): Row => [
      `a chunk of size ${size}`,
      `${ENVOY}Transfer-Encoding: chunked\r\n\r\n${size}\r\n{}\r\n0\r\n\r\n`,
    ],
  ),
  // Header lines
  ['a space before the colon', `${HEAD}X-A : b\r\n\r\n`],
  ['a bare CR', `${HEAD}X-A: b\rc\r\n\r\n`],
  ['a bare LF', `${HEAD}X-A: b\nX-B: c\r\n\r\n`],
  ['a NUL', `${HEAD}X-A: b\0c\r\n\r\n`],
  ['a control', `${HEAD}X-A: b\x01c\r\n\r\n`],
  ['an empty name', `${HEAD}: b\r\n\r\n`],
  ['a folded line', `${HEAD}X-A: b\r\n c\r\n\r\n`],
  ['a name beyond ASCII', `${HEAD}X-\xe9: b\r\n\r\n`],
  // Lines, versions, Host
  ['HTTP/1.2', 'GET /v1/gateway/forward-auth HTTP/1.2\r\nHost: a\r\n\r\n'],
  ['HTTP/2 by prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a handshake of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'],
  ['no Host', `${HEAD.replace('Host: a\r\n', '')}\r\n`],
  ['two Hosts', `${HEAD}Host: b\r\n\r\n`],
  ['a Host that is none', `${ENVOY.replace('shop', 'a b/c@d')}\r\n`],
  ['a fragment', `${ENVOY.replace('/things', '/things#x')}\r\n`],
  // What Connection may not name
  ...[
    'Idempotency-Key',
    'Authorization',
    'X-Tenant-Id',
    'X-Client-Id',
    'Content-Length',
    'Fencepost-Hop-Id',
    'X-Forwarded-For',
    'X-User-Id',
  ].map((name): Row => [`Connection: ${name}`, `${HEAD}Connection: ${name}\r\n\r\n`]),
  // The request in question
  ['no method', `${START}X-Forwarded-Uri: /things\r\nIdempotency-Key: KEY\r\n\r\n`],
  ['two methods', `${HEAD}X-Forwarded-Method: GET\r\n\r\n`],
  ['two targets', `${HEAD}X-Forwarded-Uri: /other\r\n\r\n`],
  ['a target of another server', `${HEAD.replace('Uri: /things', 'Uri: http://else/things')}\r\n`],
  ['a target with a space', `${HEAD.replace('Uri: /things', 'Uri: /a b')}\r\n`],
  ['a target with a fragment', `${HEAD.replace('Uri: /things', 'Uri: /a#b')}\r\n`],
  // Keys and scopes
  ['a list for a key', `${HEAD.replace('KEY', 'KEY, KEY')}\r\n`],
  ['two keys', `${HEAD}Idempotency-Key: other\r\n\r\n`],
  ['a key above 255 bytes', `${HEAD.replace('KEY', 'k'.repeat(256))}\r\n`],
  ['two tenants', `${HEAD}X-Tenant-Id: a\r\nX-Tenant-Id: b\r\n\r\n`],
  ['a tenant above 128 bytes', `${HEAD}X-Tenant-Id: ${'t'.repeat(129)}\r\n\r\n`],
  [
    'a trailer that says it is the key',
    `${ENVOY.replace('Idempotency-Key: KEY\r\n', '')}Transfer-Encoding: chunked\r\n\r\n0\r\nIdempotency-Key: KEY\r\n\r\n`,
    200,
  ],
  // Sizes
  ['201 header lines', `${HEAD}${'X-A: b\r\n'.repeat(200)}\r\n`, 431],
  [
    'a key behind a thousand lines',
    `${START}${ABOUT}${'a:\r\n'.repeat(1_100)}Idempotency-Key: KEY\r\n\r\n`,
    431,
  ],
  ['a head above 16 KiB', `${HEAD}X-A: ${'b'.repeat(16_384)}\r\n\r\n`, 431],
  ['a body above the limit of its route', `${ENVOY}Content-Length: 1025\r\n\r\n${'x'.repeat(1_025)}`, 413],
  [
    'the same in chunks',
    `${ENVOY}Transfer-Encoding: chunked\r\n\r\n401\r\n${'x'.repeat(1_025)}\r\n0\r\n\r\n`,
    413,
  ],
  ['a report above its limit', `${REPORT}Content-Length: 4097\r\n\r\n${'x'.repeat(4_097)}`, 413],
  // Unknown calls
  ['another path', 'GET /v1/gateway/reset HTTP/1.1\r\nHost: a\r\n\r\n', 404],
  ['a path above the root', 'GET /v1/gateway/../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n', 404],
  ['OPTIONS *', 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n', 404],
  ['CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n', 405],
  ['TRACE', 'TRACE /v1/gateway/ext-authz/things HTTP/1.1\r\nHost: a\r\n\r\n', 405],
  ['a WebSocket on a protected route', `${ENVOY}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 501],
  ['another expectation', `${ENVOY}Expect: cake\r\nContent-Length: 2\r\n\r\n{}`, 417],
  // Reports
  ['a report without an id', `${REPORT}Content-Length: 14\r\n\r\n{"status":201}`],
  [
    'a report with an id of SQL',
    `${REPORT}Fencepost-Reservation-Id: r1_'; DROP TABLE x; --\r\nContent-Length: 14\r\n\r\n{"status":201}`,
  ],
  ['a report that is no JSON', `${REPORT}Fencepost-Reservation-Id: r1_a\r\nContent-Length: 5\r\n\r\n{"\0":`],
])('%s', async (_what, bytes, status = 400, recorded = '') => {
  const answer = await asked(bytes)
  expect({ status: answer.status, recorded: answer.recorded }).toEqual({ status, recorded })
  if (status >= 400) expect(answer.wire).toContain('application/problem+json')
  expect((await asked(`${HEAD}\r\n`)).status).toBe(200)
  expect(gateway.failures).toEqual([])
})

test.each<[what: string, bytes: string]>([
  ['a head', 'GET /v1/gateway/forward-auth HTTP/1.1\r\nHost'],
  ['a body', `${ENVOY}Content-Length: 9\r\n\r\n`],
  ['a report', `${REPORT}Content-Length: 9\r\n\r\n`],
])('%s that does not arrive is answered with 408, and leaves no record', async (_what, bytes) => {
  const answer = await asked(bytes, hasty)
  expect({ status: answer.status, recorded: answer.recorded }).toEqual({ status: 408, recorded: '' })
})

test.each<[what: string, refused: string]>([
  ['a malformed check', `${START}Host: b\r\n\r\n`],
  ['both framings', `${ENVOY}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['an unknown expectation', `${ENVOY}Expect: cake\r\nContent-Length: 2\r\n\r\n{}`],
  ['a body that is too large', `${ENVOY}Content-Length: 1025\r\n\r\n${'x'.repeat(1_025)}`],
  ['too many header lines', `${HEAD}${'X-A: b\r\n'.repeat(200)}\r\n`],
])('bytes behind %s leave no record, and the connection is closed', async (_what, refused) => {
  const before = gateway.claimed().length
  round += 1
  await using wire = await openWire(gateway.port)
  wire.send(`${refused}${HEAD}\r\n`.replaceAll('KEY', `behind-${round}`))
  await wire.ended
  expect(wire.received().match(/^HTTP\/1\.1 \d{3}/gm)).toHaveLength(1)
  expect(wire.received()).toMatch(/\r\nConnection: close\r\n/i)
  expect(gateway.claimed().length).toBe(before)
})

test('two pipelined checks get their own answers, in order', async () => {
  await using wire = await openWire(gateway.port)
  const check = `${HEAD.replace('KEY', 'pipelined')}\r\n`
  wire.send(check + check)
  await eventually('two answers', () => wire.received().match(/^HTTP\/1\.1 \d{3}/gm)?.length === 2)
  expect(wire.received().match(/^HTTP\/1\.1 \d{3}/gm)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 409'])
})

test('connections above the limit are closed at once', async () => {
  await using full = await startGatewayListener({ limits: { connectionsMax: 1 } })
  await using first = await openWire(full.port)
  first.send(`${HEAD}\r\n`)
  await eventually('its answer', () => first.received().includes('HTTP/1.1 200'))
  await using second = await openWire(full.port)
  await second.ended
  expect(second.received()).toBe('')
})
