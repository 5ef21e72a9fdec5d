/** Checks have the same quotas and principals as requests of the proxy. */
import { expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { type GatewayListener, startGatewayListener } from '../../support/gateway-listener.ts'
import { heldClock } from '../../support/held-clock.ts'
import { posted } from '../../support/post.ts'
import { openWire } from '../../support/proxy.ts'

const check = ({ origin }: GatewayListener, key: string, headers: Record<string, string> = {}) =>
  posted(`${origin}/v1/gateway/ext-authz/things`, { 'idempotency-key': key, ...headers }, '{}')

test('a tenant with too many new records gets the limit, another tenant passes, and duplicates do not count', async () => {
  const quotaClock = heldClock()
  await using gateway = await startGatewayListener({ tenants: { newRecordsPerSecondMax: 2 }, quotaClock })
  const hop = { 'x-request-id': 'one' }
  expect((await check(gateway, 'a', hop)).status).toBe(200)
  for (let duplicate = 0; duplicate < 5; duplicate += 1) expect((await check(gateway, 'a')).status).toBe(409)
  expect((await check(gateway, 'b')).status).toBe(200)
  const refused = await check(gateway, 'c')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
  expect(refused.headers.get('fencepost-reservation-id')).toBeNull()
  expect(await refused.json()).toMatchObject({
    code: 'tenant-new-records',
    detail: expect.stringContaining('more than 2 new records within a second'),
  })
  // Bug: the log said that a tenant is refused, and not which.
  expect(gateway.events.findLast(({ kind }) => kind === 'decided')).toMatchObject({
    decision: 'overloaded',
    tenant: 'default',
  })
  expect((await check(gateway, 'c', { 'x-tenant-id': 'other' })).status).toBe(200)
  expect(gateway.claimed().length).toBe(3)
  quotaClock.advance(1_000)
  expect((await check(gateway, 'c')).status).toBe(200)
})

test('a tenant with too many checks in flight gets the limit, and a slow check occupies its own quota', async () => {
  await using gateway = await startGatewayListener({ tenants: { inFlightMax: 1 } })
  await using slow = await openWire(gateway.port)
  slow.send(
    'POST /v1/gateway/ext-authz/things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: a\r\nContent-Length: 2\r\n\r\n{',
  )
  const refused = await eventually('the place is taken', async () => {
    const answer = await check(gateway, `b-${Math.random()}`)
    return answer.status === 429 ? answer : undefined
  })
  expect(await refused.json()).toMatchObject({
    code: 'tenant-in-flight',
    detail: expect.stringContaining('1 requests of this tenant are under way'),
  })
  expect((await check(gateway, 'b', { 'x-tenant-id': 'other' })).status).toBe(200)
  slow.send('}')
  await eventually('its answer', () => slow.received().startsWith('HTTP/1.1 200'))
  expect((await check(gateway, 'd')).status).toBe(200)
})

test('a check that makes no new record frees its quota: refused, without a key, or of a client that disconnects', async () => {
  await using gateway = await startGatewayListener({ tenants: { newRecordsPerSecondMax: 1, inFlightMax: 1 } })
  await using gone = await openWire(gateway.port)
  gone.send(
    'POST /v1/gateway/ext-authz/things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: a\r\nContent-Length: 2\r\n\r\n{',
  )
  await eventually('it is under way', async () => (await check(gateway, 'a,b')).status === 429)
  gone.socket.destroy()
  await eventually('its place is free', async () => (await check(gateway, 'a,b')).status === 400)
  expect((await check(gateway, '', {})).status).toBe(400)
  const keyless = await fetch(`${gateway.origin}/v1/gateway/ext-authz/things`, { method: 'POST', body: '{}' })
  expect(keyless.status).toBe(200)
  expect(gateway.claimed().length).toBe(0)
  expect((await check(gateway, 'a')).status).toBe(200)
})

test('a check whose body does not fit in the memory for bodies gets 503 with Retry-After and the limit', async () => {
  await using gateway = await startGatewayListener({ bodyMemoryBytes: 2 })
  const refused = await check(gateway, 'a')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
  expect(await refused.json()).toMatchObject({
    code: 'too-many-bytes-in-flight',
    detail: expect.stringContaining('more than 1 bytes'),
  })
  expect(gateway.claimed()).toEqual([])
})

test('without Authorization the client header of a trusted peer names the principal', async () => {
  await using gateway = await startGatewayListener()
  const statuses = async (of: GatewayListener, ...clients: Record<string, string>[]) => {
    const told: number[] = []
    for (const headers of clients) told.push((await check(of, 'same', headers)).status)
    return told
  }
  const asked = [
    {},
    { 'x-client-id': 'a' },
    { 'x-client-id': 'b' },
    { 'x-client-id': 'a' },
    { authorization: 'Bearer t' },
    { authorization: 'Bearer t', 'x-client-id': 'a' },
  ]
  expect(await statuses(gateway, ...asked)).toEqual([200, 200, 200, 409, 200, 409])

  const scope = {
    defaults: { tenant: 'default', env: 'test', apiVersion: 'v1' },
    tenantHeader: 'x-tenant-id',
    versionHeader: 'x-api-version',
    clientHeader: 'x-client-id',
    trusted: false,
  }
  await using untrusting = await startGatewayListener({ options: { scope } })
  expect(await statuses(untrusting, ...asked)).toEqual([200, 409, 409, 409, 200, 409])
})
