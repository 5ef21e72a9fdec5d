/** Requests that name one entity are executed one after the other, each under a larger token than the last. */
import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { parsePathPattern } from '../../../src/core/routes/path-pattern.ts'
import { startApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { hold, openWire, route, startProxy } from '../../support/proxy.ts'
import { startReservationApi } from '../../support/reservation-api.ts'

const serial = route({
  entities: [{ in: 'header', name: 'x-account' }],
  entityWaitMs: 10_000,
})

test('different requests of one account never overlap; those of another account do not wait', async () => {
  let inside = 0
  let most = 0
  const tokens: number[] = []
  await using application = await startApplication(async (request, response) => {
    if (request.values('x-account')[0] === '42') {
      inside += 1
      most = Math.max(most, inside)
      tokens.push(Number(request.values('fencepost-fencing-token')[0]))
      await new Promise(setImmediate)
      inside -= 1
    }
    response.end('done')
  })
  await using proxy = await startProxy(application.origin, { routes: [serial] })
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      proxy.post(`k${index}`, `{"n":${index}}`, { 'x-account': '42' }),
    ),
  )
  expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(200))
  expect(most).toBe(1)
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
  expect(new Set(tokens).size).toBe(12)
  expect((await proxy.post('other', '{}', { 'x-account': '43' })).status).toBe(200)
  expect((await proxy.post('none', '{}')).status).toBe(200)
})

test('a request whose wait ends gets a problem and is not executed, and its retry is', async () => {
  const held = hold()
  await using application = await startApplication(async (request, response) => {
    if (request.values('idempotency-key')[0] === 'first') await held.released
    response.end('done')
  })
  await using proxy = await startProxy(application.origin, { routes: [{ ...serial, entityWaitMs: 50 }] })
  const account = { 'x-account': '42' }
  const first = proxy.post('first', '{}', account)
  await eventually('the application works', () => application.seen.length === 1)
  const second = await proxy.post('second', '{"n":2}', account)
  expect([second.status, ((await second.json()) as { code: string }).code]).toEqual([409, 'entity-busy'])
  expect(second.headers.get('retry-after')).not.toBeNull()
  expect(application.seen.length).toBe(1)
  held.release()
  expect((await first).status).toBe(200)
  const retried = await proxy.post('second', '{"n":2}', account)
  expect([retried.status, retried.headers.get('idempotency-status')]).toEqual([200, 'created'])
  // A duplicate is answered from the record without waiting.
  expect((await proxy.post('first', '{}', account)).headers.get('idempotency-status')).toBe('replayed')
})

/** Bug: the claim stayed, and the entity was free at once, so the next request of the account ran beside the work that the hold was for. */
test.each<[what: string, status: number, headers: Record<string, string>]>([
  ['the route holds', 503, {}],
  ['the application holds', 500, { 'Fencepost-Outcome': 'hold' }],
])('the entity of an answer that %s stays locked, like its key', async (_what, status, headers) => {
  await using application = await startApplication((_request, response) => {
    response.writeHead(status, headers).end()
  })
  const holding = { ...serial, entityWaitMs: 0, store: { 503: 'hold' } } as const
  await using proxy = await startProxy(application.origin, { routes: [holding] })
  const account = { 'x-account': '42' }
  expect((await proxy.post('first', '{}', account)).status).toBe(status)
  const other = await proxy.post('other', '{}', account)
  expect(await other.json()).toMatchObject({ code: 'entity-busy' })
  expect(application.seen.length).toBe(1)
})

/** Bug: the entity was free with the first part of an event stream, so the next request of the account ran beside the rest. */
test.each<[what: string, headers: Record<string, string>, ends: (response: ServerResponse) => void]>([
  ['an event stream', { 'Content-Type': 'text/event-stream' }, (response) => response.end('data: 2\n\n')],
  ['one that is cut', { 'Content-Type': 'text/event-stream' }, (response) => response.destroy()],
  ['a body that is too long to be stored', {}, (response) => response.end()],
])('the next request of an account waits for the end of an answer: %s', async (_what, headers, ends) => {
  const held = hold()
  await using application = await startApplication(async (request, response) => {
    if (request.values('idempotency-key')[0] !== 'first') return void response.end('done')
    response.writeHead(200, headers).write('x'.repeat(2_000))
    await held.released
    ends(response)
  })
  await using proxy = await startProxy(application.origin, {
    routes: [{ ...serial, storedResponseLimitBytes: 1_000 }],
  })
  const account = { 'x-account': '42' }
  // With the head: the stream is passed on, and recorded.
  const first = await proxy.post('first', '{}', account)
  expect(first.headers.get('idempotency-status')).toBe('created')
  const second = proxy.post('second', '{}', account)
  await eventually('it waits', () => proxy.proxy.inFlight() === 2)
  expect(application.seen.length).toBe(1)
  held.release()
  await first.text().catch(() => 'cut')
  expect((await second).status).toBe(200)
})

test('a reservation keeps requests of the same entity away', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, {
    routes: [{ ...serial, entityWaitMs: 0 }],
  })
  await using api = await startReservationApi({ nodes: proxy.nodes })
  const reserved = await api.reserve({ session_id: 's', reserved_value: 'v', entities: ['42'] })
  const account = { 'x-account': '42' }
  expect((await proxy.post('k', '{}', account)).status).toBe(409)
  await api.call(`/v1/reservations/${reserved.id}/complete`, { fencing_token: reserved.token })
  expect((await proxy.post('k', '{}', account)).status).toBe(201)
  const [seen] = application.seen
  expect(Number(seen?.values('fencepost-fencing-token')[0])).toBeGreaterThan(reserved.token)
})

test('an entity of the body is found in a compressed one, too', async () => {
  await using application = await startApplication(async (_request, response) => {
    response.end('done')
  })
  await using proxy = await startProxy(application.origin, {
    routes: [route({ entities: [{ in: 'body', pointer: '/account' }], entityWaitMs: 0 })],
  })
  await using api = await startReservationApi({ nodes: proxy.nodes })
  const ask = (key: string) =>
    fetch(`${proxy.origin}/things`, {
      method: 'POST',
      body: gzipSync('{"account":42}'),
      headers: { 'idempotency-key': key, 'content-type': 'application/json', 'content-encoding': 'gzip' },
    })
  expect((await ask('k1')).status).toBe(200)
  await api.reserve({ session_id: 's', reserved_value: 'v', entities: ['42'] })
  expect((await ask('k2')).status).toBe(409)
})

/** Bug: an escape stayed one, so `ann%40shop.example` in a path was another entity than the reserved `ann@shop.example`, and both worked at once. */
test.each<[where: string, entity: string, path: string]>([
  ['as it is', 'ann@shop.example', '/users/ann@shop.example/credit'],
  ['with an escape', 'ann@shop.example', '/users/ann%40shop.example/credit'],
  ['beyond ASCII', 'café au lait+', '/users/caf%C3%A9%20au%20lait+/credit'],
  ['with parameters, which Java servers cut off', '42', '/users/42;v=1/credit'],
  ['with bytes that are no text', '%FF', '/users/%FF/credit'],
  ['in a query', 'ann@shop.example', '/credit?user=ann%40shop.example'],
  ['in a query, with a space', 'ann b', '/credit?user=ann+b'],
])('every spelling of an entity in a path or query is one entity: %s', async (_where, entity, path) => {
  await using application = await startApplication()
  const inPath = parsePathPattern('/users/{user}/credit')
  if (inPath.kind !== 'pattern') throw new Error(inPath.reason)
  const byPath = route({
    name: 'by-path',
    match: { paths: [inPath.pattern] },
    entities: [{ in: 'path', parameter: 'user' }],
    entityWaitMs: 0,
  })
  const byQuery = route({ entities: [{ in: 'query', name: 'user' }], entityWaitMs: 0 })
  await using proxy = await startProxy(application.origin, { routes: [byPath, byQuery] })
  await using api = await startReservationApi({ nodes: proxy.nodes })
  await api.reserve({ session_id: 's', reserved_value: 'v', entities: [entity] })
  const wire = await answerOnWire(proxy.port, path)
  expect(wire).toContain('"code":"entity-busy"')
  expect(application.seen).toEqual([])
})

/** `fetch` would write some of the paths anew. */
async function answerOnWire(port: number, target: string): Promise<string> {
  await using wire = await openWire(port)
  wire.send(
    `POST ${target} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
  )
  await wire.ended
  return wire.received()
}
