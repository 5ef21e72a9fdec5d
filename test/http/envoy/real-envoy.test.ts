/**
 * Real Envoy with the ext_proc configuration that is shipped, in front of a real sidecar, a real application and real nodes:
 * what the client gets, and what the application is asked to do.
 */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { FETCH_MS_MAX, fetchProgram } from '../../support/fetched-programs.ts'
import { EXT_PROC, type Gateway, startGateway } from '../../support/gateways.ts'
import { type RedisServers, startRedisServers } from '../../support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../../support/sidecar.ts'

const stack = new AsyncDisposableStack()
let nodes: RedisServers
let sidecar: Sidecar
let application: TestApplication
let envoy: Gateway

beforeAll(async () => {
  await fetchProgram('envoy')
  nodes = stack.use(await startRedisServers(3))
  application = stack.use(await startApplication())
  sidecar = stack.use(
    await startSidecar({
      FENCEPOST_REDIS_NODES: nodes.nodesSetting,
      FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0',
      // A client without Envoy between: one record, whichever way a request comes.
      FENCEPOST_UPSTREAM: application.origin,
      FENCEPOST_CLAIM_BUDGET: '2s',
      FENCEPOST_NODE_DEADLINE: '1s',
      FENCEPOST_LEASE: '20s',
    }),
  )
  envoy = stack.use(await startGateway(EXT_PROC, application.origin, { 8083: sidecar.gatewayGrpc }))
}, FETCH_MS_MAX)
afterAll(() => stack.disposeAsync())

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

test('what is not protected goes through, without a word of ours', async () => {
  const answer = await fetch(`${envoy.origin}/things?page=2`, { headers: { 'Fencepost-Fencing-Token': '1' } })
  expect(answer.status).toBe(201)
  const [request] = seen()
  expect([request!.method, request!.target]).toEqual(['GET', '/things?page=2'])
  expect(request!.values('fencepost-fencing-token')).toEqual([])
})

test('the first passes with its token, a concurrent duplicate gets 409, a later one the first answer', async () => {
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
