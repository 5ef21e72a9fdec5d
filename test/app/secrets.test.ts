/**
 * No secret anywhere: every input gets its own planted word, the sidecar goes through success and failure, and no
 * word may appear in its output: log, metrics, probes, traces, problem documents, errors of a wrong
 * configuration, and its last words. `docs/operations/security.md` says where each may be.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RawApplication, startRawApplication } from '../support/application.ts'
import { canary, found } from '../support/canaries.ts'
import { type CountingApplication, startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { posted } from '../support/post.ts'
import { TestProcess } from '../support/processes.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

/** Words that occur nowhere else, one for each input. */
const INPUTS = {
  redisPassword: canary('redis-password'),
  redisUrlPassword: canary('redis-url-password'),
  apiToken: canary('api-token'),
  wrongToken: canary('wrong-token'),
  reservationSecret: canary('reservation-secret'),
  authorization: canary('authorization'),
  cookie: canary('cookie'),
  proxyAuthorization: canary('proxy-authorization'),
  header: canary('header'),
  headerName: canary('header-name'),
  key: canary('key'),
  body: canary('body'),
  path: canary('path'),
  query: canary('query'),
  urlUser: canary('url-user'),
  malformed: canary('malformed'),
  answer: canary('answer'),
  answerHeader: canary('answer-header'),
  session: canary('session'),
  value: canary('value'),
  result: canary('result'),
  member: canary('member'),
}

let folder: string
let told = ''
let servers: RedisServers
let application: CountingApplication
let broken: RawApplication
let sidecar: Sidecar
let traces = ''
const collector = createServer((request, response) => {
  request.setEncoding('latin1').on('data', (part) => {
    traces += part
  })
  request.on('end', () => response.end())
})

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fencepost-secrets-'))
  const file = (name: string, content: string) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  const at = await listening(collector)
  servers = await startRedisServers(3, { founded: true })
  for (const [index, url] of servers.urls.entries()) {
    const client = new Redis(url)
    // One node with a user of its own in its URL, two with the password of the file.
    await client.call('ACL', 'SETUSER', 'sidecar', 'on', `>${INPUTS.redisPassword}`, '~*', '&*', '+@all')
    if (index === 0)
      await client.call('ACL', 'SETUSER', 'first', 'on', `>${INPUTS.redisUrlPassword}`, '~*', '&*', '+@all')
    client.disconnect()
  }
  application = await startCountingApplication()
  broken = await startRawApplication(
    `HTTP/1.1 200 OK\r\nX-A: ${INPUTS.answerHeader}\r\nContent-Length: 9${INPUTS.answer}\r\n\r\n${INPUTS.answer}`,
    'end',
  )
  const [first = '', ...others] = servers.urls
  sidecar = await startSidecar(
    {
      FENCEPOST_REDIS_NODES: [
        first.replace('redis://', `redis://first:${INPUTS.redisUrlPassword}@`),
        ...others,
      ].join(','),
      FENCEPOST_REDIS_USERNAME: 'sidecar',
      FENCEPOST_REDIS_PASSWORD_FILE: file('redis-password', INPUTS.redisPassword),
      FENCEPOST_UPSTREAM: application.url,
      FENCEPOST_API_TOKEN_FILE: file('api-token', INPUTS.apiToken),
      FENCEPOST_RESERVATION_SECRET_FILE: file('reservation-secret', INPUTS.reservationSecret),
      FENCEPOST_LOG_LEVEL: 'trace',
      FENCEPOST_TRACING: 'on',
      FENCEPOST_TRACE_SAMPLE_RATIO: '1',
      FENCEPOST_TRACE_NODE_SPANS: 'on',
      FENCEPOST_BODY_LIMIT: '8KiB',
      ...PATIENT,
      // How long each request without a quorum takes.
      FENCEPOST_CLAIM_BUDGET: '2s',
      OTEL_EXPORTER_OTLP_ENDPOINT: at.origin,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '100',
    },
    {
      onOutput: (text) => {
        told += text
      },
    },
  )
})

afterAll(async () => {
  await sidecar?.[Symbol.asyncDispose]()
  await broken?.[Symbol.asyncDispose]()
  await application?.[Symbol.asyncDispose]()
  await servers?.[Symbol.asyncDispose]()
  collector.closeAllConnections()
  collector.close()
  rmSync(folder, { recursive: true, force: true })
})

const HEADERS = {
  authorization: `Bearer ${INPUTS.authorization}`,
  cookie: `session=${INPUTS.cookie}`,
  'x-secret': INPUTS.header,
  [`x-${INPUTS.headerName}`]: '1',
}

async function post(key: string, body: string, headers: Record<string, string> = {}): Promise<string> {
  const answer = await fetch(`${sidecar.proxy}/${INPUTS.path}?token=${INPUTS.query}`, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', 'idempotency-key': key, ...HEADERS, ...headers },
  })
  return answer.headers.get('content-type') === 'application/problem+json' ? await answer.text() : ''
}

async function raw(bytes: string): Promise<string> {
  const { hostname, port } = new URL(sidecar.proxy)
  const socket = connect(Number(port), hostname)
  let received = ''
  socket.setEncoding('latin1').on('data', (part) => {
    received += part
  })
  socket.on('error', () => {})
  socket.end(bytes)
  await new Promise((resolve) => socket.once('close', resolve))
  return received
}

async function call(path: string, body: unknown, token = INPUTS.apiToken): Promise<Record<string, unknown>> {
  const answer = await fetch(`${sidecar.api}${path}`, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
  })
  return (await answer.json()) as Record<string, unknown>
}

describe('answers of the proxy', () => {
  test('an executed request, its replay and a mismatch reveal its key alone', async () => {
    expect(await post(INPUTS.key, `{"secret":"${INPUTS.body}"}`)).toBe('')
    expect(await post(INPUTS.key, `{"secret":"${INPUTS.body}"}`)).toBe('')
    const mismatch = await post(INPUTS.key, `{"other":"${INPUTS.body}"}`)
    expect(mismatch).toContain('key-reused')
    // The client's own key, in the member meant for it.
    expect(found(mismatch.replace(`"idempotency_key":"${INPUTS.key}"`, ''))).toEqual([])
  })

  test.each<[what: string, refusal: () => Promise<string>]>([
    ['a key that is none', () => post(`${INPUTS.key},${INPUTS.key}`, '{}')],
    ['a body that is too large', () => post('large', INPUTS.body.repeat(500))],
    [
      'a digest that is wrong',
      () => post('digest', INPUTS.body, { 'content-digest': `sha-256=:${btoa(INPUTS.header)}:` }),
    ],
    ['a tenant that is too long', () => post('tenant', '{}', { 'x-tenant-id': INPUTS.header.repeat(10) })],
    [
      'a malformed header line',
      () => raw(`POST /${INPUTS.path} HTTP/1.1\r\nHost: a\r\n${INPUTS.malformed}\r\n\r\n`),
    ],
    ['a target with a password', () => raw(`GET ftp://u:${INPUTS.urlUser}@a/ HTTP/1.1\r\nHost: a\r\n\r\n`)],
    ['a host with a password', () => raw(`GET / HTTP/1.1\r\nHost: u:${INPUTS.urlUser}@a\r\n\r\n`)],
    ['a method of its own', () => raw(`${INPUTS.malformed} / HTTP/1.1\r\nHost: a\r\n\r\n`)],
    ['a version of its own', () => raw(`GET / HTTP/${INPUTS.malformed}\r\nHost: a\r\n\r\n`)],
    ['garbage', () => raw(`${INPUTS.malformed}\r\n\r\n`)],
    [
      'a head that is too large',
      () => raw(`GET / HTTP/1.1\r\nHost: a\r\nX-A: ${INPUTS.malformed.repeat(900)}\r\n\r\n`),
    ],
    [
      'an expectation of its own',
      () => raw(`POST / HTTP/1.1\r\nHost: a\r\nExpect: ${INPUTS.malformed}\r\nContent-Length: 0\r\n\r\n`),
    ],
    [
      'a proxy password',
      () =>
        raw(
          `CONNECT a:1 HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic ${INPUTS.proxyAuthorization}\r\n\r\n`,
        ),
    ],
    [
      'what Connection may not name',
      () =>
        raw(
          `POST / HTTP/1.1\r\nHost: a\r\nConnection: authorization\r\nAuthorization: ${INPUTS.authorization}\r\nContent-Length: 0\r\n\r\n`,
        ),
    ],
    [
      'a malformed chunk',
      () => raw(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${INPUTS.malformed}\r\n`),
    ],
  ])('%s is refused without being repeated', async (_what, refusal) => {
    const answer = await refusal()
    expect(answer).toContain('"type":"https://fencepost.dev/problems/')
    expect(found(answer)).toEqual([])
  })

  test('an unreadable answer of the application is not repeated', async () => {
    await using other = await startSidecar(
      { ...between('embedded', broken), FENCEPOST_LOG_LEVEL: 'trace' },
      {
        onOutput: (text) => {
          told += text
        },
      },
    )
    const answer = await posted(`${other.proxy}/x`, { ...HEADERS, 'idempotency-key': 'broken' }, INPUTS.body)
    expect(answer.status).toBe(502)
    expect(found(await answer.text())).toEqual([])
    expect(found(await (await fetch(`${other.admin}/metrics`)).text())).toEqual([])
  })
})

test('the reservation API reveals to a caller only what that caller named', async () => {
  const reserved = await call('/v1/reservations', {
    session_id: INPUTS.session,
    reserved_value: INPUTS.value,
  })
  const { reservation_id: id, fencing_token: token } = reserved
  // The id is signed, not readable; the session is repeated to the caller that named it.
  expect(found(JSON.stringify({ ...reserved, session_id: '' }))).toEqual([])
  const conflict = await call('/v1/reservations', { session_id: 'other', reserved_value: INPUTS.value })
  expect(found(JSON.stringify({ ...conflict, value: '' }))).toEqual([])
  await call(`/v1/reservations/${id}/complete`, { fencing_token: token, result: { secret: INPUTS.result } })
  for (const refused of [
    await call('/v1/reservations', { session_id: 's', reserved_value: 'v' }, INPUTS.wrongToken),
    await call(`/v1/reservations/${id}${INPUTS.value}/release`, { fencing_token: 1 }),
    await call('/v1/reservations', `{"session_id": "${INPUTS.session}", "${INPUTS.malformed}`),
    await call(`/v1/${INPUTS.path}`, {}),
    await call('/v1/reservations', { session_id: INPUTS.session, reserved_value: [INPUTS.value] }),
  ]) {
    expect(refused.type).toMatch(/problems/)
    const { detail, ...rest } = refused
    expect(found(JSON.stringify(rest))).toEqual([])
    // A path that does not exist is repeated to the client that requested it.
    expect(found(String(detail)).filter((word) => word !== INPUTS.path)).toEqual([])
  }
})

test('log, metrics, probes, traces and the last words of the process hold none of the secrets', async () => {
  // Nodes that refuse the password, answer with errors, and are gone: the errors of the Redis client hold their commands.
  const [first, second, third] = servers.urls.map((url) => new Redis(url))
  await first!.call('ACL', 'SETUSER', 'first', 'resetpass', '>another')
  await second!.call('ACL', 'SETUSER', 'sidecar', '-evalsha', '-eval')
  for (const client of [first, second])
    await client!.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  for (const client of [first, second, third]) client!.disconnect()
  await post('while-nodes-refuse', `{"secret":"${INPUTS.body}"}`)
  await servers.kill(2)
  await eventually('a request without a quorum', async () =>
    (await post('without-a-quorum', `{"secret":"${INPUTS.body}"}`)).includes('quorum-unavailable'),
  )
  const metrics = await (await fetch(`${sidecar.admin}/metrics`)).text()
  const ready = await (await fetch(`${sidecar.admin}/readyz`)).text()
  const unknown = await (
    await fetch(`${sidecar.admin}/${INPUTS.path}?${INPUTS.query}`, { headers: HEADERS })
  ).text()
  expect(metrics).toContain('fencepost_decisions_total')
  expect(found(metrics)).toEqual([])
  expect(found(ready)).toEqual([])
  expect(found(unknown).filter((word) => word !== INPUTS.path && word !== INPUTS.query)).toEqual([])

  sidecar.process.signal('SIGTERM')
  await sidecar.process.exited
  expect(told).toContain('fencepost is serving')
  expect(found(told)).toEqual([])
  expect(traces).toContain('resourceSpans')
  expect(found(traces)).toEqual([])
})

test.each<[what: string, env: Record<string, string>]>([
  [
    'nodes',
    { FENCEPOST_REDIS_NODES: `redis://u:${INPUTS.redisUrlPassword}@a:1,http://u:${INPUTS.redisPassword}@b` },
  ],
  ['the application', { FENCEPOST_UPSTREAM: `http://u:${INPUTS.urlUser}@a:1` }],
  [
    'required TLS',
    {
      FENCEPOST_REQUIRE_TLS: 'on',
      FENCEPOST_REDIS_NODES: `redis://u:${INPUTS.redisUrlPassword}@a,redis://:${INPUTS.redisPassword}@b,redis://c`,
    },
  ],
  ['an unknown variable', { FENCEPOST_REDIS_PASWORD: INPUTS.redisPassword }],
  ['a secret instead of its file', { FENCEPOST_API_TOKEN_FILE: INPUTS.apiToken }],
])('the errors of a wrong configuration of %s do not show its secrets', async (_what, env) => {
  for (const command of [['config', 'check'], ['config', 'print'], ['serve']]) {
    let output = ''
    await using refused = new TestProcess(process.execPath, [MAIN_PROGRAM, ...command], {
      env: { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:9', ...env },
      onOutput: (text) => {
        output += text
      },
    })
    expect(await refused.exited).toMatchObject({ code: 78 })
    expect(output).toMatch(/FENCEPOST_/)
    expect(found(output)).toEqual([])
  }
})

test('the search finds what is there, also encoded or cut', () => {
  for (const shape of [
    INPUTS.body,
    INPUTS.body.toUpperCase(),
    `a${Buffer.from(INPUTS.body).toString('base64')}`,
    `a${Buffer.from(INPUTS.body).toString('hex')}b`,
    INPUTS.body.slice(0, 25),
  ])
    expect(found(`x ${shape} y`)).toContain(INPUTS.body)
})
