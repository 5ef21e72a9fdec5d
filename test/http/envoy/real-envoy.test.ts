/**
 * Real Envoy with the ext_proc configuration that is shipped, in front of a real sidecar, a real application and real
 * nodes: what the client gets, and what the application is asked to do.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { connect } from 'node:http2'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { stackOfTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { FETCH_MS_MAX, fetchProgram } from '../../support/fetched-programs.ts'
import { EXT_PROC, type Gateway, startGateway } from '../../support/gateways.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/otlp-receiver.ts'
import { posted } from '../../support/post.ts'
import { type RedisServers, startRedisServers } from '../../support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../../support/sidecar.ts'

const stack = stackOfTests()
let nodes: RedisServers
let sidecar: Sidecar
let application: TestApplication
let envoy: Gateway
let collector: OtlpReceiver

beforeAll(async () => {
  await fetchProgram('envoy')
  collector = stack.use(await startOtlpReceiver())
  nodes = stack.use(await startRedisServers(3, { founded: true }))
  application = stack.use(await startApplication())
  sidecar = stack.use(
    await startSidecar({
      ...collector.env,
      // Of the other tests' requests none is recorded.
      FENCEPOST_TRACE_SAMPLE_RATIO: '0',
      FENCEPOST_TRACE_BAGGAGE: 'on',
      FENCEPOST_REDIS_NODES: nodes.nodesSetting,
      FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0',
      // A client that bypasses Envoy: one record, whichever way a request comes.
      FENCEPOST_UPSTREAM: application.origin,
      FENCEPOST_CLAIM_BUDGET: '2s',
      FENCEPOST_NODE_DEADLINE: '1s',
      FENCEPOST_LEASE: '20s',
      FENCEPOST_BODY_LIMIT: '512KiB',
      FENCEPOST_STORED_RESPONSE_LIMIT: '64KiB',
    }),
  )
  envoy = stack.use(await startGateway(EXT_PROC, application.origin, { 8083: sidecar.gatewayGrpc }))
}, FETCH_MS_MAX)

let seenBefore = 0
beforeEach(() => {
  seenBefore = application.seen.length
  application.respond = answered
})

const answered: TestApplication['respond'] = (_request, response, execution) => {
  response.writeHead(201, { 'Content-Type': 'application/json', Location: `/payments/${execution}` })
  response.end(JSON.stringify({ execution }))
}

const seen = () => application.seen.slice(seenBefore)

function post(key: string, more: Record<string, string> = {}, body = '{"amount":1}', origin = envoy.origin) {
  return fetch(`${origin}/payments`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key, ...more },
    body,
  })
}

test('an unprotected request passes, without headers of the sidecar', async () => {
  const answer = await fetch(`${envoy.origin}/things?page=2`, { headers: { 'Fencepost-Fencing-Token': '1' } })
  expect(answer.status).toBe(201)
  const [request] = seen()
  expect([request!.method, request!.target]).toEqual(['GET', '/things?page=2'])
  expect(request!.values('fencepost-fencing-token')).toEqual([])
})

test('the first request passes with its token, a concurrent duplicate gets 409, a later duplicate the first answer', async () => {
  const key = randomUUID()
  const held = Promise.withResolvers<void>()
  application.respond = async (request, response, execution) => {
    await held.promise
    await answered(request, response, execution)
  }
  const first = post(key, { 'Fencepost-Fencing-Token': '7', 'Fencepost-Attempt': '9' })
  await eventually('the application has the request', () => seen().length === 1)
  const duplicate = await post(key)
  expect(duplicate.status).toBe(409)
  expect(Number(duplicate.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(duplicate.headers.get('content-type')).toContain('application/problem+json')
  expect(duplicate.headers.get('idempotency-status')).toBe('in-progress')
  expect(await duplicate.json()).toMatchObject({ status: 409, code: 'request-in-progress' })

  held.resolve()
  const answer = await first
  const text = await answer.text()
  expect([answer.status, answer.headers.get('idempotency-status')]).toEqual([201, 'created'])
  const [request] = seen()
  expect(request!.body.toString()).toBe('{"amount":1}')
  expect(request!.values('fencepost-fencing-token')).toEqual([expect.stringMatching(/^[1-9][0-9]{14,15}$/)])
  expect(request!.values('fencepost-attempt')).toEqual(['1'])

  const later = await post(key)
  expect([later.status, later.headers.get('idempotency-status')]).toEqual([201, 'replayed'])
  expect(later.headers.get('location')).toBe(answer.headers.get('location'))
  expect(await later.text()).toBe(text)
  const direct = await post(key, {}, undefined, sidecar.proxy)
  expect([direct.status, direct.headers.get('idempotency-status'), await direct.text()]).toEqual([
    201,
    'replayed',
    text,
  ])
  expect(seen()).toHaveLength(1)
})

/** Bug: the span of an ext_proc request was over before its decision was told: neither had the other, and its log line no trace_id. */
test('the request that Envoy shows is a span of its trace, and the application gets trace and state of the key', async () => {
  const [trace, caller] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')]
  const answer = await post(randomUUID(), {
    traceparent: `00-${trace}-${caller}-01`,
    baggage: 'user=7,fencepost.key_state=forged',
  })
  expect(answer.status).toBe(201)
  const span = await collector.until('the span of the request', (spans) =>
    spans.find(({ traceId, parentSpanId }) => traceId === trace && parentSpanId === caller),
  )
  const [request] = seen()
  const lockId = request!.values('fencepost-lock-id')[0]
  expect(span.attributes).toMatchObject({
    'fencepost.entrypoint': 'ext_proc',
    'fencepost.outcome': 'acquired',
    'fencepost.lock_id': lockId,
    'http.response.status_code': 201,
  })
  await sidecar.process.line(new RegExp(`"event":"decided".*"lock_id":"${lockId}".*`), {})
  expect(sidecar.process.output).toMatch(new RegExp(`"trace_id":"${trace}"`))
  expect(request!.values('traceparent')).toEqual([`00-${trace}-${span.spanId}-01`])
  expect(request!.values('baggage')).toEqual([
    `user=7,fencepost.lock_id=${lockId},fencepost.key_hash=${lockId?.slice(0, 16)},fencepost.key_state=claimed`,
  ])
})

test('an answer is replayed byte for byte, with each stored header line', async () => {
  const key = randomUUID()
  const bytes = Buffer.from(Array.from({ length: 512 }, (_, index) => index % 256))
  application.respond = (_request, response) => {
    response.writeHead(200, [
      ...['Content-Type', 'application/octet-stream', 'Link', '</a>; rel=next', 'Link', '</b>; rel=prev'],
      ...['Set-Cookie', 'secret', 'Fencepost-Outcome', 'store', 'Idempotency-Status', 'forged'],
    ])
    response.end(bytes)
  }
  const first = await post(key)
  expect(first.headers.get('idempotency-status')).toBe('created')
  expect(first.headers.has('fencepost-outcome')).toBe(false)
  expect(first.headers.get('set-cookie')).toBe('secret')
  expect(Buffer.from(await first.arrayBuffer())).toEqual(bytes)
  const later = await post(key)
  expect(later.headers.get('idempotency-status')).toBe('replayed')
  expect(later.headers.get('content-type')).toBe('application/octet-stream')
  expect(later.headers.get('link')).toBe('</a>; rel=next, </b>; rel=prev')
  expect(later.headers.has('set-cookie')).toBe(false)
  expect(Buffer.from(await later.arrayBuffer())).toEqual(bytes)
  expect(seen()).toHaveLength(1)
})

test('a request and an answer without body and content type pass unchanged', async () => {
  const key = randomUUID()
  application.respond = (_request, response) => {
    response.writeHead(204).end()
  }
  const remove = () =>
    fetch(`${envoy.origin}/payments`, { method: 'POST', headers: { 'Idempotency-Key': key } })
  const answers = [await remove(), await remove()]
  expect(answers.map(({ status, headers }) => [status, headers.get('idempotency-status')])).toEqual([
    [204, 'created'],
    [204, 'replayed'],
  ])
  expect(answers[1]!.headers.get('content-type')).toBeNull()
  expect(seen()).toHaveLength(1)
})

test('the key of another request is refused with 422, and without a key the content is the key', async () => {
  const key = randomUUID()
  expect((await post(key, {}, '{"amount":1}')).status).toBe(201)
  expect((await post(key, {}, '{"amount":2}')).status).toBe(422)
  expect(seen()).toHaveLength(1)
  const body = JSON.stringify({ id: randomUUID() })
  const headers = { 'content-type': 'application/json' }
  const keyless = () => fetch(`${envoy.origin}/payments`, { method: 'POST', headers, body })
  const [first, again] = [await keyless(), await keyless()]
  expect([first.headers.get('idempotency-status'), again.headers.get('idempotency-status')]).toEqual([
    'created',
    'replayed',
  ])
  expect(seen()).toHaveLength(2)
})

test.each([
  ['the limit of the route, stated', 600_000, true],
  ['the limit of the route, in chunks', 600_000, false],
  ['what Envoy holds back', 3_000_000, false],
])('a body above %s is refused with 413 and not executed', async (_, length, stated) => {
  const answer = await fetch(`${envoy.origin}/payments`, {
    method: 'POST',
    headers: { 'Idempotency-Key': randomUUID() },
    body: stated ? 'x'.repeat(length) : new Blob(['x'.repeat(length)]).stream(),
    duplex: 'half',
  } as RequestInit)
  expect(answer.status).toBe(413)
  expect(seen()).toEqual([])
})

test.each([
  ['of a stated length', 200_000, true],
  ['in chunks', 200_000, false],
  ['in chunks, and longer than Envoy holds back', 5_000_000, false],
])(
  'an answer %s that is too large to be stored goes to the first request; duplicates get 410',
  async (_, length, stated) => {
    const key = randomUUID()
    application.respond = (_request, response) => {
      response.writeHead(200, {
        'Content-Type': 'text/plain',
        ...(stated ? { 'Content-Length': length } : {}),
      })
      for (let sent = 0; sent < length; sent += 100_000) response.write('x'.repeat(100_000))
      response.end()
    }
    const first = await post(key)
    expect([first.status, first.headers.get('idempotency-status')]).toEqual([200, 'created'])
    expect((await first.text()).length).toBe(length)
    const later = await post(key)
    expect([later.status, later.headers.get('idempotency-status')]).toEqual([410, 'gone'])
    expect(await later.json()).toMatchObject({ code: 'response-not-stored', original_status: 200 })
    expect(seen()).toHaveLength(1)
  },
)

/** Over HTTP/2, where a head can be followed by trailers alone. */
function withTrailers(key: string, body: string | undefined): Promise<Record<string, unknown>> {
  const session = connect(envoy.origin)
  const stream = session.request(
    { ':method': 'POST', ':path': '/payments', 'idempotency-key': key, 'content-type': 'text/plain' },
    { waitForTrailers: true, endStream: false },
  )
  stream.once('wantTrailers', () => stream.sendTrailers({ 'x-checksum': '1' }))
  stream.end(body)
  return new Promise((resolve, reject) => {
    stream.once('response', (head) => {
      resolve({ ...head })
      stream.resume().once('end', () => session.close())
    })
    stream.once('error', reject)
  })
}

test('a request with trailers is claimed like any other; trailers without a body are refused', async () => {
  const key = randomUUID()
  const answers = [await withTrailers(key, 'body'), await withTrailers(key, 'body')]
  expect(answers.map((head) => [head[':status'], head['idempotency-status']])).toEqual([
    [201, 'created'],
    [201, 'replayed'],
  ])
  expect((await withTrailers(randomUUID(), undefined))[':status']).toBe(400)
  expect(seen().map((request) => request.values('fencepost-attempt'))).toEqual([['1']])
  expect(seen().map((request) => request.body.toString())).toEqual(['body'])
})

test('an answer that does not settle the request releases the claim', async () => {
  const key = randomUUID()
  application.respond = (_request, response) => {
    response.writeHead(503).end()
  }
  const first = await post(key)
  expect([first.status, first.headers.get('idempotency-status')]).toEqual([503, 'released'])
  application.respond = answered
  expect((await post(key)).headers.get('idempotency-status')).toBe('created')
  expect(seen().map((request) => request.values('fencepost-attempt'))).toEqual([['1'], ['1']])
})

test('a client gets 502 from an application that breaks off, and the claim stays', async () => {
  const key = randomUUID()
  application.respond = (_request, response) => {
    response.socket?.destroy()
  }
  const first = await post(key)
  expect([first.status, first.headers.get('idempotency-status')]).toEqual([502, 'indeterminate'])
  expect(await first.json()).toMatchObject({ code: 'application-reset' })
  application.respond = answered
  expect((await post(key)).status).toBe(409)
  expect(seen()).toHaveLength(1)
})

test('a client that disconnects ends its request at Envoy; its outcome is unknown, and the claim stays', async () => {
  const key = randomUUID()
  const arrived = Promise.withResolvers<void>()
  const gone = Promise.withResolvers<void>()
  application.respond = (_request, response) => {
    response.once('close', () => gone.resolve())
    arrived.resolve()
  }
  const leaving = new AbortController()
  const left = fetch(`${envoy.origin}/payments`, {
    method: 'POST',
    headers: { 'Idempotency-Key': key },
    body: '{}',
    signal: leaving.signal,
  }).catch(() => 'left')
  await arrived.promise
  leaving.abort()
  expect(await left).toBe('left')
  await gone.promise
  application.respond = answered
  const next = await posted(`${envoy.origin}/payments`, { 'Idempotency-Key': key }, '{}')
  expect(next.status).toBe(409)
  expect(seen()).toHaveLength(1)
})

test('without a listening application the answer is 502, and the next attempt is the first', async () => {
  const gone = await startApplication()
  await using other = await startGateway(EXT_PROC, gone.origin, { 8083: sidecar.gatewayGrpc })
  await gone[Symbol.asyncDispose]()
  const key = randomUUID()
  const first = await post(key, {}, undefined, other.origin)
  expect(first.status).toBe(502)
  expect(await first.json()).toMatchObject({ code: 'application-unreachable' })
  expect((await post(key)).headers.get('idempotency-status')).toBe('created')
  expect(seen().map((request) => request.values('fencepost-attempt'))).toEqual([['1']])
})

describe('without a quorum', () => {
  beforeAll(() => Promise.all([nodes.kill(0), nodes.kill(1)]))

  test('requests get 503 with Retry-After, and none passes', async () => {
    const answer = await post(randomUUID())
    expect(answer.status).toBe(503)
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await answer.json()).toMatchObject({ code: 'quorum-unavailable' })
    expect(seen()).toEqual([])
  })
})

describe('without the sidecar', () => {
  beforeAll(() => sidecar.process.end({ signal: 'SIGKILL' }))

  test('requests get 503, and none passes', async () => {
    expect((await post(randomUUID())).status).toBe(503)
    expect(seen()).toEqual([])
  })
})
