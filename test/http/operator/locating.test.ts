/** Whose request it was, from what support has of the client: the record is the one that the proxy would make of the whole request. */
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/load.ts'
import { reservationIdOf } from '../../../src/core/reservations/reservation-id.ts'
import type { PrincipalSource, ProtectedRoute } from '../../../src/core/routes/route.ts'
import type { FindInput } from '../../../src/http/operator/find-schemas.ts'
import { locate } from '../../../src/http/operator/finding.ts'
import { reservationOf } from '../../support/reservation-of.ts'

const loaded = loadConfig(
  { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:9' },
  () => '',
)
if (loaded.kind !== 'ok') throw new Error('the default configuration is invalid')
const [keyed] = loaded.config.routes as readonly [ProtectedRoute]

const located = (input: FindInput, principal: PrincipalSource, trusted: boolean) =>
  locatedIn([{ ...keyed, principal }], input, trusted)

const locatedIn = (routes: readonly ProtectedRoute[], input: FindInput, trusted = false) =>
  locate(input, {
    scope: { tenant: 'shop', env: 'test', apiVersion: 'v1' },
    describing: {
      routes,
      principal: { clientHeader: 'x-client-id', trusted, verifyToken: async () => ({ kind: 'verified' }) },
    },
    secret: { current: async () => [], refreshed: async () => [] },
  })

test('an id of a reservation that can’t be checked now is not called foreign', async () => {
  const id = reservationIdOf(reservationOf(`dedup:shop:test:v1:${'a'.repeat(64)}`), Buffer.alloc(32))
  expect(await located({ reservation_id: id }, { kind: 'authorization' }, false)).toMatchObject({
    kind: 'refused',
    problem: { code: 'quorum-unavailable' },
  })
  expect(await located({ reservation_id: `${id}=` }, { kind: 'authorization' }, false)).toMatchObject({
    kind: 'refused',
    problem: { code: 'reservation-id-invalid' },
  })
})

const KEY = { method: 'POST', path: '/payments', idempotency_key: 'order-4711' }
const requestWith = (headers: Record<string, string>) => ({
  request: {
    method: 'POST',
    path: '/payments',
    headers: { 'idempotency-key': 'order-4711', ...headers },
    body: '{}',
  },
})
const verified = (...claims: readonly string[]): PrincipalSource => ({
  kind: 'verified_jwt',
  claims,
  issuer: 'https://issuer.example',
  audience: 'any',
  algorithms: ['ES256'],
  toleranceMs: 0,
  jwks: {},
})
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const tokenOf = (claims: object) => `Bearer ${part({ alg: 'ES256' })}.${part(claims)}.c2lnbmF0dXJl`

test.each<[string, PrincipalSource, boolean, Record<string, string>]>([
  ['a header', { kind: 'header', name: 'x-customer' }, false, { 'x-customer': 'customer-42' }],
  ['the header of trusted peers', { kind: 'authorization' }, true, { 'x-client-id': 'customer-42' }],
  [
    'a claim',
    { kind: 'jwt', claim: 'sub' },
    true,
    { authorization: tokenOf({ iss: 'a', sub: 'customer-42' }) },
  ],
  ['a verified claim', verified('sub'), false, { authorization: tokenOf({ exp: 1, sub: 'customer-42' }) }],
])(
  'where a route identifies clients by %s, the name finds the record of the request',
  async (_, source, trusted, headers) => {
    const asSent = await located(requestWith(headers), source, trusted)
    expect(asSent).toMatchObject({
      kind: 'keys',
      keys: [expect.stringMatching(/^dedup:shop:test:v1:[0-9a-f]{64}$/)],
    })
    expect(await located({ key: { ...KEY, client: 'customer-42' } }, source, trusted)).toEqual(asSent)
    for (const other of [{ ...KEY, client: 'customer-43' }, KEY])
      expect(await located({ key: other }, source, trusted)).not.toEqual(asSent)
  },
)

test.each<[string, PrincipalSource, object, string]>([
  ['by Authorization', { kind: 'authorization' }, { client: 'a' }, 'Give "authorization", or "principal"'],
  [
    'by a claim that no peer has verified',
    { kind: 'jwt', claim: 'sub' },
    { client: 'a' },
    'Give "authorization"',
  ],
  ['by several claims', verified('iss', 'sub'), { client: 'a' }, 'several claims (iss, sub)'],
  [
    'by a header, and two say it',
    { kind: 'header', name: 'x' },
    { client: 'a', principal: 'anonymous' },
    'Leave one of them out',
  ],
])(
  'where a route identifies clients %s, a name is refused with what to give',
  async (_, source, whose, told) => {
    expect(await located({ key: { ...KEY, ...whose } }, source, false)).toEqual({
      kind: 'refused',
      problem: { code: 'request-invalid', detail: expect.stringContaining(told) },
    })
  },
)

// Bug: the record of such a path was called absent, and the next request executed. A browser shows the path so that was sent as gr%C3%BCn.
test('a path that no request can have is refused, with how it is sent', async () => {
  expect(await locatedIn([keyed], { key: { ...KEY, path: '/payments/grün' } })).toEqual({
    kind: 'refused',
    problem: {
      code: 'request-invalid',
      detail: 'No request can have this path. It was sent percent-encoded: /payments/gr%C3%BCn',
    },
  })
})

describe('where routes are for hosts and headers, which support does not have', () => {
  const everyPost: ProtectedRoute = { ...keyed, name: 'every-post', match: { methods: ['POST'] } }
  const ofShop: ProtectedRoute = {
    ...keyed,
    name: 'of-shop',
    match: { hosts: ['shop.example.com'] },
    principal: { kind: 'header', name: 'x-customer' },
  }
  const ofPartner: ProtectedRoute = {
    ...keyed,
    name: 'of-partner',
    match: { headers: [{ kind: 'present', name: 'x-partner' }] },
    key: { ...keyed.key, parts: [{ in: 'header', name: 'x-partner' }] },
  }
  const toShop = requestWith({ host: 'shop.example.com', 'x-customer': 'customer-42' })
  const toAnother = requestWith({ host: 'other.example.com' })

  // Bug: the key was made as if no route for a host or a header were there. The record was called absent, and the next request executed.
  test('the record of each route that it may be is meant', async () => {
    const routes = [ofShop, everyPost]
    const [shop, another] = [await locatedIn(routes, toShop), await locatedIn(routes, toAnother)]
    expect(await locatedIn(routes, { key: { ...KEY, client: 'customer-42' } })).toMatchObject(shop)
    expect(await locatedIn(routes, { key: KEY })).toMatchObject(another)
    const routesAlike = [{ ...ofShop, principal: keyed.principal }, everyPost]
    expect(await locatedIn(routesAlike, { key: KEY })).toEqual(await locatedIn(routesAlike, toShop))
  })

  test('one that takes more than a header is named, where nothing else is found', async () => {
    const plain = await locatedIn([everyPost], { key: KEY })
    expect(await locatedIn([ofPartner, everyPost], { key: KEY })).toEqual({
      ...plain,
      certain: false,
      otherwise: {
        code: 'request-invalid',
        detail:
          'The request may be one of the route of-partner, which makes the key of more than a header. Send the whole request as "request".',
      },
    })
  })

  test('a route after the one that is certain is not asked', async () => {
    expect(await locatedIn([everyPost, ofPartner], { key: KEY })).toEqual(
      await locatedIn([everyPost], { key: KEY }),
    )
  })
})
