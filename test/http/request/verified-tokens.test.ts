/**
 * Clients that are known by a verified bearer token: a renewed token is the same client, and nothing but a valid token of another
 * client is another one. On the proxy, on the reservation API and in the checks of gateways alike.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import type { VerifyToken } from '../../../src/core/request/principal.ts'
import { createEnvoyCaller, type EnvoyCaller } from '../../../src/http/envoy/caller.ts'
import { createKeySet } from '../../../src/jwt/key-set.ts'
import { createTokenVerifier } from '../../../src/jwt/token-verifier.ts'
import { systemClock } from '../../../src/system/clock.ts'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { stackOfTests } from '../../support/during-tests.ts'
import { type GatewayListener, startGatewayListener } from '../../support/gateway-listener.ts'
import { route, startProxy, TEST_SCOPE, type TestProxy } from '../../support/proxy.ts'
import { startReservationApi, type TestApi } from '../../support/reservation-api.ts'
import { PATIENT, type Sidecar, startSidecar } from '../../support/sidecar.ts'
import {
  AUDIENCE,
  ISSUER,
  type Key,
  keySetOf,
  makeKey,
  parsedKeys,
  sign,
  signWithPublicKey,
  unsigned,
  verifiedBy,
} from '../../support/token-issuer.ts'

const stack = stackOfTests()
let key: Key
let rsa: Key
let stranger: Key
let withdrawn: Key
let verifyToken: VerifyToken
let application: TestApplication
let proxy: TestProxy
let gateway: GatewayListener
let api: TestApi
/** A whole sidecar, for what Envoy asks over gRPC. */
let sidecar: Sidecar
let envoy: EnvoyCaller

const routes = [route({ principal: verifiedBy({}) })]

beforeAll(async () => {
  key = await makeKey('ec')
  rsa = await makeKey('rsa', 'RS256')
  stranger = await makeKey('ec')
  withdrawn = await makeKey('withdrawn')
  const keySet = createKeySet({
    initial: await parsedKeys(key, rsa, withdrawn),
    clock: systemClock,
    fetchKeys: () => Promise.reject(new Error('there is a file')),
    onChange: () => {},
  })
  keySet.replace(await parsedKeys(key, rsa))
  verifyToken = createTokenVerifier(() => keySet, systemClock)
  application = stack.use(await startApplication())
  const scope = { ...TEST_SCOPE, verifyToken }
  proxy = stack.use(await startProxy(application.origin, { routes, options: { scope } }))
  gateway = stack.use(await startGatewayListener({ options: { routes, scope } }))
  api = stack.use(await startReservationApi({ options: { routes, principal: scope } }))
  sidecar = stack.use(await startSidecar(await settingsWith(await keySetOf(key, rsa))))
  envoy = stack.use(createEnvoyCaller(undefined))
})

async function settingsWith(keySet: string): Promise<Record<string, string>> {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-tokens-'))
  stack.defer(() => rmSync(folder, { recursive: true }))
  const [jwksFile, config] = [join(folder, 'keys.json'), join(folder, 'fencepost.json')]
  writeFileSync(jwksFile, keySet)
  const jwt = { issuer: ISSUER, audience: AUDIENCE, jwksFile }
  const things = { name: 'things', match: { paths: ['/things'] }, mode: 'header', principal: { jwt } }
  writeFileSync(config, JSON.stringify({ routes: [things] }))
  return {
    ...PATIENT,
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_CONFIG: config,
    FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0',
  }
}

let keys = 0
const newKey = () => {
  keys += 1
  return `k-${keys}`
}
const nowS = () => Math.floor(Date.now() / 1_000)
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** Statuses of the three ways that a gateway asks: HTTP, ext_authz over gRPC, ext_proc. */
async function checkedEverywhere(
  idempotencyKey: string,
  headers: Record<string, string>,
): Promise<readonly number[]> {
  calls += 1
  const of = (service: string) => ({
    id: `call-${calls}`,
    method: 'POST',
    path: '/things',
    host: 'shop',
    headers: { 'idempotency-key': `${idempotencyKey}-${service}`, ...headers },
    body: '{}',
  })
  const executed = () => ({ status: 201, headers: new Headers(), text: 'executed' })
  return [
    await checked(idempotencyKey, headers),
    (await envoy.check(sidecar.gatewayGrpc, of('ext_authz'), 10_000)).status,
    (await envoy.process(sidecar.gatewayGrpc, of('ext_proc'), executed, 10_000)).status,
  ]
}
let calls = 0

async function told(idempotencyKey: string, headers: Record<string, string>): Promise<string> {
  const answer = await proxy.post(idempotencyKey, '{}', headers)
  await answer.arrayBuffer()
  return `${answer.status} ${answer.headers.get('idempotency-status')}`
}

const checked = async (idempotencyKey: string, headers: Record<string, string>) =>
  (
    await fetch(`${gateway.origin}/v1/gateway/ext-authz/things`, {
      method: 'POST',
      body: '{}',
      headers: { 'idempotency-key': idempotencyKey, ...headers },
    })
  ).status

const reserved = async (session: string, idempotencyKey: string, headers: Record<string, string>) => {
  const request = {
    method: 'POST',
    path: '/things',
    headers: { 'idempotency-key': idempotencyKey, ...headers },
    body: '{}',
  }
  const { status, body } = await api.call('/v1/reservations', { session_id: session, request })
  return status === 201 ? 201 : `${status} ${String(body.code)}`
}

test('a refreshed token must not defeat deduplication', async () => {
  const [k, first, renewed] = [
    newKey(),
    await sign(key),
    await sign(key, { iat: nowS() + 1, exp: nowS() + 7_200, jti: 'b' }),
  ]
  expect(renewed).not.toBe(first)
  expect(await told(k, bearer(first))).toBe('201 created')
  expect(await told(k, bearer(renewed))).toBe('201 replayed')
  expect(await told(k, bearer(await sign(rsa)))).toBe('201 replayed')

  expect(await checkedEverywhere(k, bearer(first))).toEqual([200, 200, 201])
  // Of ext_proc the answer is recorded, and replayed.
  expect(await checkedEverywhere(k, bearer(renewed))).toEqual([409, 409, 201])
  const mallorys = bearer(await sign(key, { sub: 'mallory' }))
  expect(await checkedEverywhere(k, mallorys)).toEqual([200, 200, 201])
  expect(await reserved('a', k, bearer(first))).toBe(201)
  expect(await reserved('b', k, bearer(renewed))).toBe('409 reservation-conflict')
})

test('another subject is another client', async () => {
  const k = newKey()
  expect(await told(k, bearer(await sign(key)))).toBe('201 created')
  expect(await told(k, bearer(await sign(key, { sub: 'mallory' })))).toBe('201 created')
})

test('by default, the hash of Authorization decides: there a renewed token is another client', async () => {
  await using plain = await startProxy(application.origin, { routes: [route()] })
  const statusOf = async (headers: Record<string, string>) =>
    (await plain.post('k', '{}', headers)).headers.get('idempotency-status')
  expect(await statusOf(bearer(await sign(key)))).toBe('created')
  expect(await statusOf(bearer(await sign(key, { jti: 'b' })))).toBe('created')
})

type Invalid = readonly [what: string, token: () => Promise<string> | string, reason: string]

const INVALID: readonly Invalid[] = [
  [
    'a token that another key signed, under the same name',
    () => sign(stranger),
    'has a signature that is not its issuer’s',
  ],
  [
    'a changed claim under the signature of another token',
    async () => {
      const [head = '', , signature = ''] = (await sign(key, { sub: 'mallory' })).split('.')
      return unsigned(await sign(key), JSON.parse(Buffer.from(head, 'base64url').toString()), signature)
    },
    'has a signature that is not its issuer’s',
  ],
  [
    'a token of a key that its issuer has withdrawn',
    () => sign(withdrawn),
    'is signed with a key that is none of its issuer’s',
  ],
  ['an expired token', () => sign(key, { exp: nowS() - 60 }), 'is expired'],
  ['a token that never ends', () => sign(key, { exp: undefined }), 'has no claim exp'],
  ['a token that is not valid yet', () => sign(key, { nbf: nowS() + 60 }), 'is not valid yet'],
  ['a token for another audience', () => sign(key, { aud: 'reports' }), 'is for another audience'],
  ['a token for no audience', () => sign(key, { aud: undefined }), 'has no claim aud'],
  ['a token of another issuer', () => sign(key, { iss: 'https://evil.test/' }), 'is of another issuer'],
  ['a token without an issuer', () => sign(key, { iss: undefined }), 'has no claim iss'],
  [
    'a token without the claim that identifies',
    () => sign(key, { sub: undefined }),
    'has no claim sub, which this route identifies clients by',
  ],
  [
    'alg none',
    async () => unsigned(await sign(key), { alg: 'none' }),
    'is no signed JWT, which this route demands',
  ],
  [
    'alg none with bytes for a signature',
    async () => unsigned(await sign(key), { alg: 'none' }, 'c2ln'),
    'is signed with an algorithm that this route does not accept',
  ],
  [
    'HS256 with the public key as secret',
    async () => signWithPublicKey(rsa, await sign(rsa)),
    'is signed with an algorithm that this route does not accept',
  ],
  [
    'a key of the token’s own',
    async () => sign(stranger, {}, { kid: 'mine' }),
    'is signed with a key that is none of its issuer’s',
  ],
  [
    'a header parameter that has to be understood',
    async () => unsigned(await sign(key), { alg: 'ES256', crit: ['x'], x: 1 }, 'c2ln'),
    'is malformed',
  ],
  ['an encrypted token', () => 'a.b.c.d.e', 'is no signed JWT, which this route demands'],
  ['an opaque token', () => 'opaque', 'is no signed JWT, which this route demands'],
]

test.each(INVALID)('%s is refused everywhere, and reads no answer', async (_what, make, reason) => {
  const [k, token] = [newKey(), await make()]
  const seen = application.seen.length
  // A new key and one that the claimed client has used: the answer is the same, so it tells nothing of the other.
  for (const used of [false, true]) {
    if (used) expect(await told(k, bearer(await sign(key)))).toBe('201 created')
    const answer = await proxy.post(k, '{}', bearer(token))
    expect(answer.status).toBe(401)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"')
    expect(await answer.json()).toMatchObject({
      code: 'token-invalid',
      retryable: false,
      detail: `The bearer token ${reason}. Nothing was carried out; send the request again, unchanged, with a valid token.`,
    })
  }
  expect(application.seen.length - seen).toBe(1)
  // Of the key of the claimed client, too.
  for (const checkedKey of [newKey(), k])
    expect(await checkedEverywhere(checkedKey, bearer(token))).toEqual([401, 401, 401])
  expect(await reserved('s', newKey(), bearer(token))).toBe('401 token-invalid')
})

test('a client whose token expired between two tries renews it and gets its answer', async () => {
  const k = newKey()
  expect(await told(k, bearer(await sign(key)))).toBe('201 created')
  expect(await told(k, bearer(await sign(key, { exp: nowS() - 60 })))).toBe('401 null')
  expect(await told(k, bearer(await sign(key)))).toBe('201 replayed')
})

test.each<[what: string, line: string, status: string]>([
  ['no bearer token', 'Basic YTpi', '201 created'],
  ['the scheme in another case', 'bEARER opaque', '401 null'],
  ['the scheme alone', 'Bearer', '401 null'],
  ['two spaces', 'Bearer  opaque', '401 null'],
  ['a tab', 'Bearer\topaque', '401 null'],
  ['a bearer token behind another scheme', 'Basic YTpi, Bearer opaque', '401 null'],
  ['a scheme that begins alike', 'Bearer-ish YTpi', '201 created'],
])('%s: %s', async (_what, authorization, status) => {
  expect(await told(newKey(), { authorization })).toBe(status)
})

test('a request without a token is anonymous, and gets nothing of a client with one', async () => {
  const k = newKey()
  expect(await told(k, bearer(await sign(key)))).toBe('201 created')
  expect(await told(k, {})).toBe('201 created')
})

test('a verified principal reveals no name', async () => {
  const k = newKey()
  const { body } = await api.call('/v1/fingerprint', {
    request: {
      method: 'POST',
      path: '/things',
      headers: { 'idempotency-key': k, ...bearer(await sign(key)) },
    },
  })
  const hash = createHash('sha256')
    .update(JSON.stringify(['https://id.test/', 'iss', '"https://id.test/"', 'sub', '"alice"']))
    .digest('hex')
  expect(JSON.stringify(body)).toContain(`verified:${hash}`)
  expect(JSON.stringify(body)).not.toContain('alice')
})

test('a listener that verifies no tokens refuses what a route wants verified', async () => {
  await using without = await startProxy(application.origin, { routes })
  const answer = await without.post('k', '{}', bearer(await sign(key)))
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
  expect(await answer.json()).toMatchObject({ code: 'token-unverifiable', retryable: true })
})
