/**
 * Which header lines cross, in both directions. Read as: what was sent, what arrived.
 *
 * Source: RFC 9110, sections 7.6.1, 7.6.3 and 10.1.1; RFC 9112, section 9.
 */
import { expect, test } from 'vitest'
import type { ProtectedRoute } from '../../../src/core/routes/route.ts'
import type { ForwardedHeaders } from '../../../src/http/message/headers.ts'
import { startApplication, startRawApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { openWire, route, startProxy } from '../../support/proxy.ts'

async function sent(lines: string, forwarded: ForwardedHeaders = 'append', method = 'POST') {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, { options: { forwarded } })
  await using wire = await openWire(proxy.port)
  wire.send(
    `${method} /things HTTP/1.1\r\nHost: api.example\r\nIdempotency-Key: k-1\r\nContent-Length: 2\r\n${lines}\r\n{}`,
  )
  await eventually('an answer', () => wire.received().includes('HTTP/1.1 201'))
  return application.seen[0]!
}

test.each<[what: string, lines: string, name: string, arrives: string[]]>([
  ['fields of one connection', 'Keep-Alive: timeout=5\r\n', 'keep-alive', []],
  ['Proxy-Connection', 'Proxy-Connection: keep-alive\r\n', 'proxy-connection', []],
  ['TE', 'TE: trailers\r\n', 'te', []],
  ['credentials for a proxy', 'Proxy-Authorization: Basic x\r\n', 'proxy-authorization', []],
  ['what Connection names', 'Connection: close, X-Drop\r\nX-Drop: 1\r\n', 'x-drop', []],
  ['several lines stay several', 'X-A: 1\r\nX-B: 2\r\nX-A: 3\r\n', 'x-a', ['1', '3']],
  ['an empty value', 'X-A:\r\n', 'x-a', ['']],
  ['Latin-1', 'X-A: caf\xe9\r\n', 'x-a', ['caf\xe9']],
  ['cookies', 'Cookie: a=1\r\nCookie: b=2\r\n', 'cookie', ['a=1', 'b=2']],
  ['credentials', 'Authorization: Bearer x\r\n', 'authorization', ['Bearer x']],
  [
    'the trace',
    'traceparent: 00-a-b-01\r\ntracestate: x=1\r\nbaggage: y=2\r\n',
    'traceparent',
    ['00-a-b-01'],
  ],
  // Set by us alone.
  [
    'our token, said by the client',
    'Fencepost-Fencing-Token: 9999999999999999\r\n',
    'fencepost-fencing-token',
    ['ours'],
  ],
  ['our attempt, said by the client', 'fencepost-attempt: 7\r\n', 'fencepost-attempt', ['1']],
  ['anything of ours', 'Fencepost-Anything: 1\r\n', 'fencepost-anything', []],
  ['ours to an application behind CGI', 'Fencepost_Fencing_Token: 1\r\n', 'fencepost_fencing_token', []],
  // Bug: PHP reads `.` as `_`, and so as `-`: it took these for ours.
  ['ours to PHP', 'Fencepost.Fencing.Token: 1\r\n', 'fencepost.fencing.token', []],
  ['ours to others that read only letters and digits', 'Fencepost~Lock+Id: 1\r\n', 'fencepost~lock+id', []],
  ['a name with dots', 'X.A: 1\r\n', 'x.a', ['1']],
  ['our status', 'Idempotency-Status: created\r\n', 'idempotency-status', []],
  ['our status, the same', 'Idempotency_Status: created\r\n', 'idempotency_status', []],
  ['another address, the same', 'X_Forwarded-For: 6.6.6.6\r\n', 'x_forwarded-for', []],
  ['a name with an underscore', 'X_A: 1\r\n', 'x_a', ['1']],
  ['our mark', 'Idempotent-Replayed: true\r\n', 'idempotent-replayed', []],
  // Where it came from.
  ['the way', 'Via: 1.0 other\r\n', 'via', ['1.0 other', '1.1 fencepost']],
  ['the client’s address', 'X-Forwarded-For: 1.2.3.4\r\n', 'x-forwarded-for', ['1.2.3.4, 127.0.0.1']],
  // Bug: it read its own address. Django and others that compare Origin with Host refused every form of a browser, and the links and
  // redirects that they built went there.
  ['the requested host', '', 'host', ['api.example']],
  ['the requested host, once more', '', 'x-forwarded-host', ['api.example']],
  ['the scheme of the request', 'X-Forwarded-Proto: https\r\n', 'x-forwarded-proto', ['https']],
  ['a target named by the client', 'X-Upstream: http://evil\r\n', 'x-upstream', ['http://evil']],
])('to the application: %s', async (_what, lines, name, arrives) => {
  const seen = await sent(lines)
  const values = seen.values(name)
  if (arrives[0] === 'ours') expect(values[0]).toMatch(/^[1-9][0-9]{15}$/)
  else expect(values).toEqual(arrives)
})

test.each<[policy: ForwardedHeaders, xff: string[], proto: string[]]>([
  ['append', ['1.2.3.4, 127.0.0.1'], ['https']],
  ['replace', ['127.0.0.1'], ['http']],
  ['off', ['1.2.3.4'], ['https']],
])('forwarded headers, %s', async (policy, xff, proto) => {
  const seen = await sent(
    'X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 9\r\n',
    policy,
  )
  expect([seen.values('x-forwarded-for'), seen.values('x-forwarded-proto')]).toEqual([xff, proto])
  expect(seen.values('x-forwarded-port')).toEqual(policy === 'replace' ? [] : ['9'])
})

test.each<[policy: ForwardedHeaders, kept: number]>([
  ['append', 1],
  ['replace', 0],
  ['off', 1],
])(
  'forwarded headers with underscores, which CGI, WSGI and Rack read as dashes, %s',
  async (policy, kept) => {
    const seen = await sent(
      'X_Forwarded_For: 6.6.6.6\r\nX_Forwarded_Port: 9\r\nX_Real_IP: 6.6.6.6\r\n',
      policy,
    )
    expect(seen.values('x_forwarded_for').length).toBe(policy === 'off' ? 1 : 0)
    expect([seen.values('x_forwarded_port').length, seen.values('x_real_ip').length]).toEqual([kept, kept])
  },
)

test.each(['Idempotency_Key', 'Idempotency.Key'])(
  'a key that an application may read in %s as another one is refused',
  async (name) => {
    await using application = await startApplication()
    await using proxy = await startProxy(application.origin)
    expect((await proxy.post('k', '{}', { [name]: 'other' })).status).toBe(400)
    expect(application.seen).toEqual([])
  },
)

test('an unprotected request keeps its keys, in any spelling', async () => {
  const seen = await sent('Idempotency_Key: other\r\n', 'append', 'PUT')
  expect([seen.values('idempotency-key'), seen.values('idempotency_key')]).toEqual([['k-1'], ['other']])
})

test('the application gets its claim: key, token, lock and attempt', async () => {
  const seen = await sent('')
  expect(seen.values('idempotency-key')).toEqual(['k-1'])
  expect(seen.values('fencepost-key')).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)])
  expect(seen.values('fencepost-attempt')).toEqual(['1'])
  const [token] = seen.values('fencepost-fencing-token')
  expect(Number.isSafeInteger(Number(token))).toBe(true)
  expect(seen.values('fencepost-lock-id')).toEqual([
    expect.stringMatching(new RegExp(`^[0-9a-f]{16}-${token}$`)),
  ])
})

/**
 * Bug: an `Idempotency-Key: fp-…` that no client had sent made an application with keys of its own swallow a second order, replay its own 503
 * for ever, or refuse what is no UUID.
 */
test.each<[what: string, differs: Partial<ProtectedRoute>, key: string | undefined]>([
  ['the content', { mode: 'content' }, undefined],
  ['a member of the body', { key: { ...route().key, parts: [{ in: 'body', pointer: '/payment' }] } }, 'a'],
  ['another header', { key: { ...route().key, headers: ['x-payment', 'idempotency-key'] } }, 'a'],
])(
  'where %s is the key, no Idempotency-Key is added, unless the route asks for one',
  async (_what, differs, key) => {
    for (const derivedKey of [false, true]) {
      await using application = await startApplication((_request, response) => {
        response.writeHead(503).end()
      })
      await using proxy = await startProxy(application.origin, {
        routes: [route({ ...differs, derivedKey })],
      })
      for (const body of ['{"payment":7}', '{"payment": 7}'])
        await proxy.post(key, body, { 'x-payment': '7' })
      const [first, second] = application.seen
      const [name] = first!.values('fencepost-key')
      expect(second?.values('fencepost-key')).toEqual([name])
      const given = derivedKey ? [`fp-${name}`] : key === undefined ? [] : [key]
      expect([first, second].map((seen) => seen?.values('idempotency-key'))).toEqual([given, given])
    }
  },
)

test('a JSON body arrives byte for byte', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  const body = '{ "n" : 9007199254740993, "n" : 1e400, "\\u0041": 1 }\n'
  await proxy.post('k', body)
  expect(application.seen[0]?.body.toString()).toBe(body)
})

test('to the client: hop-by-hop fields, fields that Connection names and sidecar headers are dropped, also from the record', async () => {
  await using application = await startApplication((_request, response) => {
    response.sendDate = false
    response.writeHead(
      201,
      [
        ['Connection', 'close, X-Secret'],
        ['Keep-Alive', 'timeout=1'],
        ['Proxy-Authenticate', 'Basic'],
        ['X-Secret', '1'],
        ['Trailer', 'X-T'],
        ['Upgrade', 'h2c'],
        ['Fencepost-Fencing-Token', '1'],
        ['Idempotency-Status', 'replayed'],
        ['Idempotent-Replayed', 'true'],
        ['X-Kept', '1'],
        ['X-Kept', '2'],
        ['Set-Cookie', 'a=1'],
        ['Set-Cookie', 'b=2'],
        ['Date', 'Thu, 01 Jan 1970 00:00:00 GMT'],
      ].flat(),
    )
    response.end('ok')
  })
  await using proxy = await startProxy(application.origin)
  await using wire = await openWire(proxy.port)
  const request = 'POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}'
  wire.send(request)
  await eventually('the first answer', () => wire.received().endsWith('ok'))
  const first = wire.received()
  for (const absent of [
    /keep-alive: timeout=1\r/i,
    /proxy-authenticate/i,
    /x-secret/i,
    /trailer/i,
    /upgrade/i,
    /fencepost/i,
    /idempotent-replayed/i,
  ])
    expect(first).not.toMatch(absent)
  expect(first.match(/^x-kept: .*$/gim)?.map((line) => line.trim())).toEqual(['X-Kept: 1', 'X-Kept: 2'])
  expect(first.match(/^set-cookie: /gim)?.length).toBe(2)
  expect(first.match(/^idempotency-status: .*$/gim)).toEqual(
    ['Idempotency-Status: created\r'.trim()].map((line) => expect.stringContaining(line)),
  )
  expect(first.match(/^date: .*$/gim)).toEqual([expect.stringContaining('1970')])

  wire.send(request)
  await eventually(
    'the second answer',
    () => wire.received().length > first.length && wire.received().endsWith('ok'),
  )
  const second = wire.received().slice(first.length)
  for (const absent of [/x-secret/i, /trailer/i, /^set-cookie/im, /1970/, /fencepost/i])
    expect(second).not.toMatch(absent)
  expect(second.match(/^x-kept: .*$/gim)?.map((line) => line.trim())).toEqual(['X-Kept: 1', 'X-Kept: 2'])
})

const NAMED = 'X-Name: caf\xe9\r\nContent-Disposition: attachment; filename="caf\xc3\xa9.pdf"\r\n'

// Bug: a head that was sent before its body, or without one, was written as UTF-8, so that each byte above ASCII became two. gunicorn and
// others write head and body apart.
test.each<[what: string, request: string, answer: string]>([
  ['of HEAD', 'HEAD /open', `HTTP/1.1 200 OK\r\n${NAMED}Content-Length: 2\r\n\r\n`],
  ['without content', 'POST /things', `HTTP/1.1 204 No Content\r\n${NAMED}\r\n`],
  ['that begins with its head', 'GET /open', `HTTP/1.1 200 OK\r\n${NAMED}Content-Length: 2\r\n\r\n`],
  [
    'that is a stream',
    'POST /things',
    `HTTP/1.1 200 OK\r\n${NAMED}Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n`,
  ],
  [
    'that breaks after its head',
    'GET /open',
    `HTTP/1.1 200 OK\r\n${NAMED}Transfer-Encoding: chunked\r\n\r\nno size\r\n`,
  ],
])(
  'to the client: what is not ASCII in the head of an answer %s arrives byte for byte',
  async (_what, request, answer) => {
    await using application = await startRawApplication(Buffer.from(answer, 'latin1'))
    await using proxy = await startProxy(application.origin)
    await using wire = await openWire(proxy.port)
    wire.send(`${request} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n\r\n`)
    await eventually('a head', () => wire.received().includes('\r\n\r\n'))
    for (const line of NAMED.trim().split('\r\n')) expect(wire.received()).toContain(`${line}\r\n`)
  },
)
