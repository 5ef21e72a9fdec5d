/** Whose request it was, from what support has of the client: the record is the one that the proxy would make of the whole request. */
import { expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/load.ts'
import { reservationIdOf } from '../../../src/core/reservations/reservation-id.ts'
import type { PrincipalSource, ProtectedRoute } from '../../../src/core/routes/route.ts'
import type { FindInput } from '../../../src/http/operator/find-schemas.ts'
import { locate } from '../../../src/http/operator/locating.ts'
import { reservationOf } from '../../support/reservation-of.ts'

const loaded = loadConfig(
  { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:9' },
  () => '',
)
if (loaded.kind !== 'ok') throw new Error('the default configuration is invalid')
const [keyed] = loaded.config.routes as readonly [ProtectedRoute]

const located = (input: FindInput, principal: PrincipalSource, trusted: boolean) =>
  locate(input, {
    scope: { tenant: 'shop', env: 'test', apiVersion: 'v1' },
    describing: {
      routes: [{ ...keyed, principal }],
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
