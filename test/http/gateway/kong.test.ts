/**
 * Kong's plugin where it differs from the other gateways: lost answers, oversized bodies, and clients of HTTP/2.
 * It runs under nginx's Lua module with a stand-in for Kong's PDK (test/support/kong).
 */
import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { makeAuthority } from '../../support/certificates.ts'
import { stackOfTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { type Gateway, KINDS, startGateway } from '../../support/gateways.ts'
import { type LosingRelay, startLosingRelay } from '../../support/losing-relay.ts'
import { openWire } from '../../support/proxy.ts'
import { type Sidecar, startSidecar } from '../../support/sidecar.ts'

const stack = stackOfTests()
let sidecar: Sidecar
let application: TestApplication
let relay: LosingRelay
let kong: Gateway

beforeAll(async () => {
  const authority = stack.use(makeAuthority())
  const { certFile, keyFile } = authority.sign('gateway')
  const env = { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0' }
  sidecar = stack.use(await startSidecar(env))
  const overTls = stack.use(
    await startSidecar({
      ...env,
      FENCEPOST_TLS_LISTENERS: 'gateway',
      FENCEPOST_TLS_CERT_FILE: certFile,
      FENCEPOST_TLS_KEY_FILE: keyFile,
    }),
  )
  application = stack.use(await startApplication())
  relay = stack.use(await startLosingRelay(sidecar.gateway))
  kong = stack.use(
    await startGateway(KINDS.kong, application.origin, { 8082: relay.origin, 8443: overTls.gateway }),
  )
})

const counted = { respond: undefined as TestApplication['respond'] | undefined, seenBefore: 0 }
beforeEach(() => {
  counted.respond ??= application.respond
  application.respond = counted.respond
  counted.seenBefore = application.seen.length
})

const seen = () => application.seen.slice(counted.seenBefore)
const post = (key: string, { path = '/payments', body = '{}' } = {}) =>
  fetch(kong.origin + path, { method: 'POST', headers: { 'Idempotency-Key': key }, body })

test('the claim of an application that does not answer stays, because it may still be working', async () => {
  const key = randomUUID()
  application.respond = (_request, response) => {
    response.socket?.destroy()
  }
  expect((await post(key)).status).toBe(502)
  const next = await post(key)
  expect(next.status).toBe(409)
  expect(Number(next.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(seen()).toHaveLength(1)
})

test.each<[outcome: string, status: number, next: number]>([
  ['store', 503, 409],
  ['release', 201, 201],
  ['hold', 201, 409],
])(
  'the application’s own outcome header counts, and does not reach the client: %s',
  async (outcome, status, next) => {
    const key = randomUUID()
    application.respond = (_request, response) => {
      response.writeHead(status, { 'Fencepost-Outcome': outcome }).end()
    }
    const first = await post(key)
    expect([first.status, first.headers.has('fencepost-outcome')]).toEqual([status, false])
    expect((await post(key)).status).toBe(next)
  },
)

test('a body too large for the gateway passes without a key; with one the key alone counts', async () => {
  const body = 'x'.repeat(65_537)
  const headers = { 'content-type': 'application/json' }
  const keyless = () => fetch(`${kong.origin}/payments`, { method: 'POST', headers, body })
  expect([(await keyless()).status, (await keyless()).status]).toEqual([201, 201])
  const key = randomUUID()
  expect((await post(key, { body })).status).toBe(201)
  expect((await post(key, { body: `${body}y` })).status).toBe(409)
  expect(seen().map(({ body: got }) => got.length)).toEqual([body.length, body.length, body.length])
})

test('a body that nginx keeps in a file is compared like any other', async () => {
  const key = randomUUID()
  const body = 'x'.repeat(20_000)
  expect((await post(key, { body })).status).toBe(201)
  expect((await post(key, { body: `${body}y` })).status).toBe(422)
})

test('for a client of HTTP/2 the report goes out after the answer', async () => {
  const key = randomUUID()
  expect((await post(key, { path: '/http2/payments' })).status).toBe(201)
  await eventually('the next is told that it was completed', async () => {
    const next = await post(key, { path: '/http2/payments' })
    expect(next.status).toBe(409)
    return !next.headers.has('retry-after')
  })
  expect(seen()).toHaveLength(1)
})

test('a check whose answer is lost on a keep-alive connection is sent again, and is the same check', async () => {
  // Kong keeps this connection.
  expect((await post(randomUUID())).status).toBe(201)
  relay.loseNextAnswer()
  const lostBefore = relay.lost
  expect((await post(randomUUID())).status).toBe(201)
  expect(relay.lost).toBe(lostBefore + 1)
  expect(seen().map((request) => request.values('fencepost-attempt'))).toEqual([['1'], ['1']])
})

test('a report whose answer is lost is sent again, without a further effect', async () => {
  const key = randomUUID()
  application.respond = (_request, response) => {
    // The check has been answered by now: the answer to the report is lost.
    relay.loseNextAnswer()
    response.writeHead(201).end()
  }
  const lostBefore = relay.lost
  expect((await post(key)).status).toBe(201)
  expect(relay.lost).toBe(lostBefore + 1)
  const later = await post(key)
  expect([later.status, later.headers.has('retry-after')]).toEqual([409, false])
})

test('checks work over TLS, also on a keep-alive connection', async () => {
  for (let request = 0; request < 2; request += 1)
    expect((await post(randomUUID(), { path: '/tls-unverified/payments' })).status).toBe(201)
  expect(seen().map((request) => request.values('fencepost-attempt'))).toEqual([['1'], ['1']])
})

/** Bug: a body that is not handed on came after the check: over a slow upload the lease ended, and a retry was executed beside it. */
test('a request holds no claim before all of its body is there, also of one too long to be handed on', async () => {
  const key = randomUUID()
  const { host, port } = new URL(kong.origin)
  await using slow = await openWire(Number(port))
  slow.send(
    `POST /payments HTTP/1.1\r\nHost: ${host}\r\nIdempotency-Key: ${key}\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n`,
  )
  await eventually('it is to go on', () => slow.received().startsWith('HTTP/1.1 100 '))
  const body = 'x'.repeat(100_000)
  expect((await post(key, { body })).status).toBe(201)
  slow.send(body)
  await eventually('its answer', () => slow.received().includes('HTTP/1.1 409 '))
  expect(seen()).toHaveLength(1)
})

test('a certificate that no CA signed is refused: no request passes, however often the check is sent', async () => {
  // Some handshakes end at once, and are refused in another way.
  for (let request = 0; request < 200; request += 1)
    expect((await post(randomUUID(), { path: '/tls/payments' })).status).toBe(503)
  expect(seen()).toEqual([])
})

test('a request with more header lines than Kong forwards is refused', async () => {
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`x${index}`, '1']))
  const answer = await fetch(`${kong.origin}/payments`, { method: 'POST', headers: many, body: '{}' })
  expect(answer.status).toBe(400)
  expect(seen()).toEqual([])
})
