/**
 * Which requests the proxy takes for one: a record is shown only within its own scope.
 */
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { openWire, route, startProxy, type TestProxy } from '../../support/proxy.ts'

let application: TestApplication
let keyed: TestProxy
let byContent: TestProxy

beforeAll(async () => {
  application = await startApplication()
  keyed = await startProxy(application.origin, { routes: [route({ match: {} })] })
  byContent = await startProxy(application.origin, { routes: [route({ match: {}, mode: 'content' })] })
})

afterAll(async () => {
  for (const each of [keyed, byContent, application]) await each[Symbol.asyncDispose]()
})

type Asked = {
  path?: string
  method?: string
  body?: string | Buffer<ArrayBuffer>
  headers?: Record<string, string>
}

let round = 0

async function statuses(proxy: TestProxy, ...asked: readonly Asked[]): Promise<string[]> {
  round += 1
  const told: string[] = []
  for (const { path = '/things', method = 'POST', body = '{}', headers = {} } of asked) {
    const answer = await proxy.fetch(path, {
      method,
      body,
      headers: { 'content-type': 'application/json', 'idempotency-key': `identity-${round}`, ...headers },
    })
    told.push(`${answer.status} ${answer.headers.get('idempotency-status')}`)
  }
  return told
}

test.each<[what: string, other: Asked]>([
  ['another tenant', { headers: { 'x-tenant-id': 'other' } }],
  ['a tenant in other case', { headers: { 'x-tenant-id': 'DEFAULT' } }],
  ['another version', { headers: { 'x-api-version': 'v2' } }],
  ['another principal', { headers: { authorization: 'Bearer other' } }],
  ['another client, without credentials', { headers: { 'x-client-id': 'other' } }],
  ['another method', { method: 'PUT' }],
  ['another path', { path: '/other' }],
  ['another spelling of the path', { path: '/thing%73' }],
  ['a path with a slash at its end', { path: '/things/' }],
  ['a key in other case', { headers: { 'idempotency-key': 'IDENTITY' } }],
])('%s is another request with the same key', async (_what, other) => {
  expect(await statuses(keyed, {}, other)).toEqual(['201 created', '201 created'])
})

test('a retry whose client adds the charset of JSON gets the recorded answer', async () => {
  const again = { headers: { 'content-type': 'application/json; charset=utf-8' } }
  expect(await statuses(keyed, {}, again)).toEqual(['201 created', '201 replayed'])
  expect(await statuses(keyed, again, {})).toEqual(['201 created', '201 replayed'])
})

test.each<[what: string, other: Asked]>([
  ['another body', { body: '{"a":1}' }],
  ['another query', { path: '/things?a=1' }],
  ['another media type', { headers: { 'content-type': 'text/plain' } }],
  ['another charset', { headers: { 'content-type': 'application/json; charset=iso-8859-1' } }],
])('%s under the same key is a mismatch', async (_what, other) => {
  expect(await statuses(keyed, {}, other)).toEqual(['201 created', '422 mismatch'])
})

test('the quoted and the raw form of a key are one key', async () => {
  const quoted = { 'idempotency-key': '"same-key"' }
  expect(await statuses(keyed, { headers: quoted }, { headers: { 'idempotency-key': 'same-key' } })).toEqual([
    '201 created',
    '201 replayed',
  ])
  expect(application.seen.at(-1)?.values('idempotency-key')).toEqual(['"same-key"'])
})

const form = (boundary: string): Asked => ({
  headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  body: `--${boundary}\r\nContent-Disposition: form-data; name="a"; filename="f.txt"\r\n\r\nhello\r\n--${boundary}--\r\n`,
})
const typed = (type: string): Asked => ({ headers: { 'content-type': type } })
const payload = '{"amount":100,"to":"x"}'

test.each<[what: string, one: Asked, other: Asked, same: boolean]>([
  [
    'members in another order, a number in another form',
    { body: '{"a":1,"b":2}' },
    { body: '{"b":2,"a":1.0}' },
    true,
  ],
  [
    'numbers that a double does not tell apart',
    { body: '{"id":9007199254740993}' },
    { body: '{"id":9007199254740992}' },
    false,
  ],
  ['a member twice', { body: '{"a":1,"a":2}' }, { body: '{"a":2}' }, false],
  ['a form in another boundary', form('one'), form('two'), true],
  ['JSON, sent again with its charset', {}, typed('application/json; charset=UTF-8'), true],
  ['JSON in another charset', {}, typed('application/json; charset=utf-16'), false],
  ['JSON of another version', {}, typed('application/json; version=2'), false],
  ['gzip', { body: payload }, { body: gzipSync(payload), headers: { 'content-encoding': 'gzip' } }, true],
  [
    'br',
    { body: payload },
    { body: brotliCompressSync(payload), headers: { 'content-encoding': 'br' } },
    true,
  ],
  ['query parameters in another order', { path: '/things?a=1&b=2' }, { path: '/things?b=2&a=1' }, true],
  [
    'values of one parameter in another order',
    { path: '/things?a=1&a=2' },
    { path: '/things?a=2&a=1' },
    false,
  ],
])('by content, %s', async (_what, one, other, same) => {
  const tenant = { 'x-tenant-id': `content-${round}` }
  const scoped = (asked: Asked): Asked => ({ ...asked, headers: { ...asked.headers, ...tenant } })
  expect(await statuses(byContent, scoped(one), scoped(other))).toEqual([
    '201 created',
    same ? '201 replayed' : '201 created',
  ])
})

test('with a key, a retry is the same request after a cookie has changed', async () => {
  const before = { headers: { cookie: 'session=a; seen=1' } }
  const after = { headers: { cookie: 'session=a; seen=2' } }
  expect(await statuses(keyed, before, after)).toEqual(['201 created', '201 replayed'])
})

/** Bug: the second of two files of one name and length got the address of the first, and was lost; its client saw no error. */
test('by content, two uploads that are opened by equal requests are two; with a key, the key says which', async () => {
  const headers = {
    'tus-resumable': '1.0.0',
    'upload-length': '1000000',
    'upload-metadata': 'filename YS5wZGY=',
  }
  const opening = { headers, body: '' }
  expect(await statuses(byContent, opening, opening)).toEqual(['201 bypassed', '201 bypassed'])
  expect(await statuses(keyed, opening, opening)).toEqual(['201 created', '201 replayed'])
})

test('in mode both, the same content is one under whatever key its client has for it', async () => {
  const key = { ...route().key, headers: ['idempotency-key', 'x-idempotency-key'] }
  await using both = await startProxy(application.origin, { routes: [route({ mode: 'both', key })] })
  const named = (one: string, cookie = 'a'): Asked => ({
    headers: { 'idempotency-key': one, 'x-idempotency-key': one, cookie: `session=${cookie}` },
  })
  expect(await statuses(both, named('a'), named('a'), named('b'), named('c', 'b'))).toEqual([
    '201 created',
    '201 replayed',
    '409 duplicate-content',
    '201 created',
  ])
})

test('a key can be made of parts of the request', async () => {
  await using proxy = await startProxy(application.origin, {
    routes: [
      route({
        required: true,
        key: {
          headers: [],
          parts: [
            { in: 'body', pointer: '/order' },
            { in: 'query', name: 'line' },
          ],
          strict: false,
          minLength: 1,
          format: 'any',
        },
      }),
    ],
  })
  const path = '/things?line=0'
  const body = '{"order":0,"note":"a"}'
  expect(
    await statuses(
      proxy,
      { path, body },
      { path, body },
      { path, body: gzipSync(body), headers: { 'content-encoding': 'gzip' } },
      { path, body: '{"order":0,"note":"b"}' },
      { path, body: '{"order":"0"}' },
      { path, body: '{"order":null}' },
      { path: '/things', body },
    ),
  ).toEqual([
    '201 created',
    '201 replayed',
    '201 replayed',
    '422 mismatch',
    '201 created',
    '400 null',
    '400 null',
  ])
})

test('tenant, version and client are ignored from untrusted clients', async () => {
  await using proxy = await startProxy(application.origin, {
    options: {
      scope: {
        defaults: { tenant: 'default', env: 'test', apiVersion: 'v1' },
        tenantHeader: 'x-tenant-id',
        versionHeader: 'x-api-version',
        clientHeader: 'x-client-id',
        trusted: false,
      },
    },
  })
  const other = { headers: { 'x-tenant-id': 'other', 'x-api-version': 'v9', 'x-client-id': 'c' } }
  expect(await statuses(proxy, {}, other)).toEqual(['201 created', '201 replayed'])
})

test('a request with another Host is the same request: a retry may use another name of the application', async () => {
  const ask = async (host: string) => {
    await using wire = await openWire(keyed.port)
    wire.send(
      `POST /things HTTP/1.1\r\nHost: ${host}\r\nIdempotency-Key: hosts\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
    )
    await wire.ended
    return /^Idempotency-Status: (.*)$/im.exec(wire.received())?.[1]?.trim()
  }
  expect([await ask('shop.example'), await ask('shop.example:443'), await ask('other.example')]).toEqual([
    'created',
    'replayed',
    'replayed',
  ])
})

/** Of the answer to a request with this line and this Host. */
async function statusOf(port: number, requestLine: string, hostLine: string): Promise<string | undefined> {
  await using wire = await openWire(port)
  const rest = 'Idempotency-Key: 1001\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}'
  wire.send(`${requestLine}\r\n${hostLine}${rest}`)
  await wire.ended
  return /^Idempotency-Status: (.*)$/im.exec(wire.received())?.[1]?.trim()
}

const ACME = 'Host: acme.example\r\n'
const TO_GLOBEX = 'POST http://globex.example/things HTTP/1.1'

test('where the host identifies a request, the authority of its target is the host, whatever its Host line says', async () => {
  const named = ['host', 'idempotency-key'].map((name) => ({ in: 'header', name }) as const)
  const { key, fingerprint } = route()
  const byHost = {
    key: { ...key, headers: [], parts: named },
    fingerprint: { ...fingerprint, headers: ['host'] },
  }
  await using proxy = await startProxy(application.origin, { routes: [route(byHost)] })
  const ask = (requestLine: string, hostLine: string) => statusOf(proxy.port, requestLine, hostLine)

  expect(await ask(TO_GLOBEX, ACME)).toBe('created')
  expect(application.seen.at(-1)?.values('x-forwarded-host')).toEqual(['globex.example'])
  expect(await ask('POST /things HTTP/1.1', ACME)).toBe('created')
  expect(application.seen.at(-1)?.values('x-forwarded-host')).toEqual(['acme.example'])
  expect(await ask('POST /things HTTP/1.1', 'Host: globex.example\r\n')).toBe('replayed')
  expect(await ask('POST http://globex.example/things HTTP/1.0', '')).toBe('replayed')
})

test('a route that looks at the header Host sees the authority of the target', async () => {
  const match = { headers: [{ kind: 'equals', name: 'host', value: 'acme.example' }] } as const
  const ofAcme = { name: 'of-acme', match, mode: 'bypass', upstreamTimeoutMs: 5_000 } as const
  await using proxy = await startProxy(application.origin, { routes: [ofAcme, route()] })
  expect(await statusOf(proxy.port, TO_GLOBEX, ACME)).toBe('created')
  expect(await statusOf(proxy.port, 'POST http://acme.example/things HTTP/1.1', 'Host: a\r\n')).toBe(
    'bypassed',
  )
})

test('users who differ by a cookie alone are one principal, unless the route configures the principal', async () => {
  const users: Asked[] = [
    { headers: { cookie: 'session=ann', 'x-user-id': 'ann' } },
    { headers: { cookie: 'session=bob', 'x-user-id': 'bob' } },
  ]
  expect(await statuses(keyed, ...users)).toEqual(['201 created', '201 replayed'])
  for (const name of ['cookie', 'x-user-id']) {
    await using named = await startProxy(application.origin, {
      routes: [route({ match: {}, principal: { kind: 'header', name } })],
    })
    expect(await statuses(named, ...users)).toEqual(['201 created', '201 created'])
  }
})

// Bug: Node joins the lines of most headers, and keeps the first of others, so a second line took a request past the route. Go reads the first.
test.each([
  ['X-Kind: payment', 'created'],
  ['X-Kind: payment\r\nX-Kind: other', 'created'],
  ['X-Kind: other\r\nX-Kind: payment', 'created'],
  ['From: other\r\nFrom: payment', 'created'],
  ['X-Kind: other', 'bypassed'],
])('of several lines it is enough that one is what a route looks for: %j is %s', async (lines, status) => {
  const looked = (name: string) =>
    route({ name, match: { headers: [{ kind: 'equals', name, value: 'payment' }] } })
  await using proxy = await startProxy(application.origin, { routes: [looked('x-kind'), looked('from')] })
  expect(await statusOf(proxy.port, 'POST /things HTTP/1.1', `Host: a\r\n${lines}\r\n`)).toBe(status)
})
