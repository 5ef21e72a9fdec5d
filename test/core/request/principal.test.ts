import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import type { HeaderList } from '../../../src/core/header-list.ts'
import {
  ANONYMOUS,
  principalOf,
  principalFrom as principalOfHead,
} from '../../../src/core/request/principal.ts'
import type { PrincipalSource as AnySource, VerifiedJwt } from '../../../src/core/routes/route.ts'

type PrincipalSource = Exclude<AnySource, VerifiedJwt>

const believed = { clientHeader: 'x-client', trusted: true }
const principalBy = (...of: Parameters<typeof principalOfHead>) => principalOfHead(...of).principal
const principalFrom = (source: PrincipalSource, headers: HeaderList) => principalBy(source, headers, believed)
const sha256 = (text: string) => createHash('sha256').update(text, 'latin1').digest('hex')
const token = (payload: string) => `Bearer e30.${Buffer.from(payload).toString('base64url')}.c2ln`
const JWT = { kind: 'jwt', claim: 'sub' } as const
const jwt = (payload: string) => principalFrom(JWT, [['Authorization', token(payload)]])

test('the principal of one Authorization line is the SHA-256 of its bytes', () => {
  expect(principalOf(['Bearer abc'])).toBe(sha256('Bearer abc'))
  expect(principalOf(['Basic \u00e9'])).toBe(sha256('Basic \u00e9'))
  expect(principalOf([''])).toBe(sha256(''))
  expect(principalOf([])).toBe(ANONYMOUS)
})

// Bug: two users whom the application knew by X_User were one to us, and got each other's answers.
test('a header that names the client names it in every spelling', () => {
  const user = (name: string) => principalFrom({ kind: 'header', name: 'x-user' }, [['X_User', name]])
  expect(user('ann')).not.toBe(user('ben'))
})

test('no two principals collide', () => {
  const header = (name: string, ...values: string[]) =>
    principalFrom(
      { kind: 'header', name },
      values.map((value) => [name.toUpperCase(), value] as const),
    )
  const all = [
    principalOf([]),
    principalOf(['']),
    principalOf(['a']),
    principalOf(['A']),
    principalOf(['a', 'b']),
    principalOf(['b', 'a']),
    principalOf(['a, b']),
    principalOf(['\u0161']),
    principalOf(['a\u0161']),
    principalOf(['["a","b"]']),
    header('x-client-id', ANONYMOUS),
    header('x-client-id', sha256('a')),
    header('x-client-id', 'a', 'b'),
    header('x-client', 'a', 'b'),
    jwt('{"sub":"a"}'),
    jwt('{"sub":"š"}'),
    jwt('{"sub":"a\\u0000"}'),
    jwt('{"sub":1}'),
    jwt('{"sub":"1"}'),
    principalFrom({ kind: 'jwt', claim: 'iss' }, [['authorization', token('{"iss":"a"}')]]),
  ]
  expect(new Set(all).size).toBe(all.length)
})

test('a claim is the same principal whatever else the token says', () => {
  expect(jwt('{"sub":"a","iat":1}')).toBe(jwt('{ "iat":2, "sub":"a" }'))
})

test.each<[name: string, payload: string]>([
  ['no such claim', '{"iss":"a"}'],
  ['a null claim', '{"sub":null}'],
  ['the claim twice', '{"sub":"a","sub":"b"}'],
  ['an inexact claim', '{"sub":9007199254740993}'],
  ['no object', '[1]'],
  ['no JSON', '{'],
])('%s: the whole Authorization line decides', (_name, payload) => {
  expect(jwt(payload)).toBe(sha256(token(payload)))
})

test('without the configured header Authorization decides', () => {
  const source = { kind: 'header', name: 'x-client-id' } as const
  expect(principalFrom(source, [['authorization', 'a']])).toBe(sha256('a'))
  expect(principalFrom(source, [])).toBe(ANONYMOUS)
  expect(principalFrom({ kind: 'authorization' }, [['AUTHORIZATION', 'a']])).toBe(sha256('a'))
  expect(principalFrom(JWT, [['authorization', 'Basic a']])).toBe(sha256('Basic a'))
})

const AUTHORIZATION = { kind: 'authorization' } as const
const BY_HEADER = { kind: 'header', name: 'x-user' } as const

test.each<[what: string, source: PrincipalSource, headers: HeaderList, names: boolean]>([
  ['a request without credentials', AUTHORIZATION, [], true],
  ['a request without the header of its route', BY_HEADER, [], true],
  ['a request without the claim of its route', JWT, [], true],
  ['a request with credentials', AUTHORIZATION, [['Authorization', 'Bearer a']], false],
  ['a request with empty credentials', AUTHORIZATION, [['Authorization', '']], false],
  ['a request with the header of its route', BY_HEADER, [['X-User', 'a']], false],
  ['a request with the claim of its route', JWT, [['Authorization', token('{"sub":"a"}')]], false],
])(
  'of %s, the client header names the client: only where it would be anonymous',
  (_what, source, headers, names) => {
    const without = principalFrom(source, headers)
    const of = (...values: string[]) =>
      principalFrom(source, [...headers, ...values.map((value) => ['X-Client', value] as const)])
    expect(without === ANONYMOUS).toBe(names)
    expect(new Set([without, of('a'), of('b'), of('A'), of(''), of('a', 'b'), of('a, b')]).size).toBe(
      names ? 7 : 1,
    )
    const unbelieved = { ...believed, trusted: false }
    expect(principalBy(source, [...headers, ['X-Client', 'a']], unbelieved)).toBe(
      principalBy(source, headers, unbelieved),
    )
  },
)

test('a claim that is not verified counts of a trusted peer only: of another, Authorization decides', () => {
  const headers: HeaderList = [['Authorization', token('{"sub":"victim"}')]]
  const untrusting = { ...believed, trusted: false }
  expect(principalBy(JWT, headers, untrusting)).toBe(principalBy(AUTHORIZATION, headers, untrusting))
  expect(principalBy(JWT, headers, believed)).not.toBe(principalBy(AUTHORIZATION, headers, believed))
})

test.each<[what: string, source: PrincipalSource, headers: HeaderList, stated: boolean]>([
  ['nobody', AUTHORIZATION, [], false],
  ['credentials', AUTHORIZATION, [['authorization', 'a']], false],
  // Many applications have a header of that name: it must not hide their cookies.
  ['a trusted peer that names the client', AUTHORIZATION, [['x-client', 'a']], false],
  ['the header of the route', BY_HEADER, [['x-user', 'a']], true],
  ['nobody, on a route with a header', BY_HEADER, [], false],
  ['credentials, on a route with a header', BY_HEADER, [['authorization', 'a']], false],
  ['the claim of the route', JWT, [['authorization', token('{"sub":"a"}')]], true],
  ['nobody, on a route with a claim', JWT, [], false],
])('of %s: whether the route states who asks', (_what, source, headers, stated) => {
  expect(principalOfHead(source, headers, believed).stated).toBe(stated)
})

test('a client that is known by its cookies is one while those of analytics change', () => {
  const by = (cookie: string) => principalFrom({ kind: 'header', name: 'cookie' }, [['Cookie', cookie]])
  expect(by('session=a; _dd_s=2')).toBe(by('_dd_s=1; session=a'))
  expect(by('session=a')).not.toBe(by('session=b'))
  expect(by('_dd_s=1')).toBe(ANONYMOUS)
})
