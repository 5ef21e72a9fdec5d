/**
 * The whole identity of a request, from its header lines to its record, for any two requests: one record exactly where
 * tenant, version, principal, method, path and key are equal, one fingerprint exactly where the query is, too. A
 * request that a caller of the reservation API describes has the same record as the request itself.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { brotliCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { HeaderList } from '../../../src/core/header-list.ts'
import type { PrincipalSource } from '../../../src/core/routes/route.ts'
import type { AdmittedRequest } from '../../../src/http/request/admission.ts'
import { identify, type ScopeRules, scopeOf } from '../../../src/http/request/identify.ts'
import { wantedBy } from '../../../src/http/reservations/reserve.ts'
import { eventually } from '../../support/eventually.ts'
import { route } from '../../support/proxy.ts'

const RULES: ScopeRules = {
  defaults: { tenant: 'default', env: 'test', apiVersion: 'v1' },
  tenantHeader: 'x-tenant-id',
  versionHeader: 'x-api-version',
  clientHeader: 'x-client-id',
  trusted: true,
}

type Asked = {
  readonly tenant: string | undefined
  readonly version: string | undefined
  readonly authorization: readonly string[]
  readonly client: readonly string[]
  readonly user: readonly string[]
  readonly method: string
  readonly path: string
  readonly query: string | undefined
  readonly key: string
}

/** Few and alike, so that equal, nearly equal and exchanged values are frequent. */
const word = fc.constantFrom('a', 'A', 'b', 'a:b', 'default', 'v1', 'anonymous', '__proto__')
const lines = fc.array(word, { maxLength: 2 })
const asked: fc.Arbitrary<Asked> = fc.record({
  tenant: fc.option(word, { nil: undefined }),
  version: fc.option(word, { nil: undefined }),
  authorization: fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, lines),
  client: lines,
  user: fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, lines),
  method: fc.constantFrom('POST', 'PUT', 'post'),
  path: fc.constantFrom('/a', '/a/', '/A', '/%61', '/a/../a', '/'),
  query: fc.constantFrom(undefined, '', 'a', 'a=', 'a=b&b=a', 'b=a&a=b'),
  key: word,
})

/** Equal in all but at most one field; any two otherwise are unequal nearly always. */
const pairs = fc.oneof(
  fc.tuple(asked, asked),
  fc
    .tuple(
      asked,
      asked,
      fc.constantFrom<keyof Asked>(
        'tenant',
        'version',
        'authorization',
        'client',
        'user',
        'method',
        'path',
        'query',
        'key',
      ),
    )
    .map(([one, other, field]): [Asked, Asked] => [one, { ...one, [field]: other[field] }]),
)

const headersOf = ({ tenant, version, authorization, client, user, key }: Asked): HeaderList => [
  ['Host', 'shop'],
  ...(tenant === undefined ? [] : [['X-Tenant-Id', tenant] as const]),
  ...(version === undefined ? [] : [['X-Api-Version', version] as const]),
  ...authorization.map((line) => ['Authorization', line] as const),
  ...client.map((line) => ['X-Client-Id', line] as const),
  ...user.map((line) => ['X-User', line] as const),
  ['Idempotency-Key', key],
]

const SOURCES: readonly PrincipalSource[] = [{ kind: 'authorization' }, { kind: 'header', name: 'x-user' }]

/** The rule a second time, written differently: what must be equal for two requests to have one principal. */
function principalSaid(
  { user, authorization, client }: Asked,
  source: PrincipalSource,
  trusted: boolean,
): unknown {
  if (source.kind === 'header' && user.length > 0) return ['user', user]
  if (authorization.length > 0) return ['authorization', authorization]
  return trusted && client.length > 0 ? ['client', client] : 'anonymous'
}

const { defaults } = RULES
const recordSaid = (one: Asked, source: PrincipalSource, trusted: boolean) =>
  JSON.stringify([
    trusted ? (one.tenant ?? defaults.tenant) : defaults.tenant,
    trusted ? (one.version ?? defaults.apiVersion) : defaults.apiVersion,
    principalSaid(one, source, trusted),
    one.method,
    one.path,
    one.key,
  ])

async function identified(one: Asked, source: PrincipalSource, rules: ScopeRules) {
  const { method, path, query } = one
  const target = query === undefined ? path : `${path}?${query}`
  const headers = headersOf(one)
  const request: AdmittedRequest = { method, target, path, query, host: 'shop', httpVersion: '1.1', headers }
  const scope = scopeOf(request, rules)
  if ('code' in scope) return expect.fail(scope.detail)
  const subject = { request, body: Buffer.from('{}'), route: route({ principal: source }), params: {} }
  const told = await identify(subject, scope, rules)
  return told.kind === 'identified' ? told : expect.fail(told.kind)
}

test.each([
  ['believed', true],
  ['not believed', false],
])(
  'two requests are the same exactly when everything that identifies them is equal; scope headers are %s',
  async (_what, trusted) => {
    const rules = { ...RULES, trusted }
    await fc.assert(
      fc.asyncProperty(pairs, fc.constantFrom(...SOURCES), async ([a, b], source) => {
        const [one, other] = [await identified(a, source, rules), await identified(b, source, rules)]
        const equal = recordSaid(a, source, trusted) === recordSaid(b, source, trusted)
        expect(one.recordKey === other.recordKey).toBe(equal)
        if (equal) expect(one.fingerprint === other.fingerprint).toBe(sameQuery(a.query, b.query))
      }),
      { numRuns: 3_000 },
    )
  },
)

/** The order of names does not matter; no query, an empty one, `a` and `a=` are four different queries. */
function sameQuery(one: string | undefined, other: string | undefined): boolean {
  const read = (query: string | undefined) => query?.split('&').sort().join('&')
  return read(one) === read(other)
}

test('a described request has the same identity in the reservation API as in the proxy', async () => {
  await fc.assert(
    fc.asyncProperty(asked, fc.constantFrom(...SOURCES), fc.boolean(), async (one, source, trusted) => {
      const rules = { ...RULES, trusted }
      const routes = [route({ match: {}, principal: source })]
      const headers: Record<string, string[]> = {}
      for (const [name, value] of headersOf(one)) headers[name] = [...(headers[name] ?? []), value]
      const { method, path, query } = one
      const described = { method, path, ...(query === undefined ? {} : { query }), headers, body: '{}' }
      const here = await identified(one, source, rules)
      const [tenant, version] = trusted ? [one.tenant, one.version] : [undefined, undefined]
      const scope = {
        tenant: tenant ?? defaults.tenant,
        env: defaults.env,
        apiVersion: version ?? defaults.apiVersion,
      }
      const there = await wantedBy({ session_id: 's', request: described }, scope, {
        routes,
        principal: rules,
      })
      if (there.kind !== 'wanted') return expect.fail(there.problem.detail)
      expect(there.intents).toEqual([{ recordKey: here.recordKey, fingerprint: here.fingerprint }])
    }),
    { numRuns: 500 },
  )
})

/**
 * Bug: on a route that reads a key or an entity from the body each request kept what its body unpacks to until it was identified: 200 requests
 * of 45 bytes took 900 MB.
 */
test('what a body unpacks to is not kept while a request waits to be identified', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heldBytes = () => {
    collect()
    return process.memoryUsage().arrayBuffers
  }
  const COUNT = 20
  const unpacked = Buffer.from(JSON.stringify({ account: 'a', text: 'x'.repeat(3 * 1024 * 1024) }))
  const body = brotliCompressSync(unpacked)
  let asked = 0
  const keys = Promise.withResolvers<void>()
  const rules: ScopeRules = {
    ...RULES,
    verifyToken: async () => {
      asked += 1
      await keys.promise
      return { kind: 'token_refused', reason: 'is expired' }
    },
  }
  const verified = {
    kind: 'verified_jwt',
    claims: ['sub'],
    issuer: 'https://id.example',
    audience: 'any',
    algorithms: ['RS256'],
    toleranceMs: 0,
    jwks: {},
  } as const
  const subject = {
    request: {
      method: 'POST',
      target: '/payments',
      path: '/payments',
      query: undefined,
      host: 'a',
      httpVersion: '1.1',
      headers: [
        ['Idempotency-Key', 'k'],
        ['Content-Type', 'application/json'],
        ['Content-Encoding', 'br'],
        ['Authorization', 'Bearer a.b.c'],
      ],
    } as const,
    body,
    route: route({ principal: verified, entities: [{ in: 'body', pointer: '/account' }] }),
    params: {},
  }
  const before = heldBytes()
  const identified = new Array(COUNT).fill(0).map(() => identify(subject, RULES.defaults, rules))
  await eventually('all wait for the keys of their issuer', () => asked === COUNT)
  // V8 gives buffers back on a thread of its own, and the last requests have only just asked.
  await expect.poll(() => heldBytes() - before).toBeLessThan(2 * unpacked.length)
  keys.resolve()
  for (const { kind } of await Promise.all(identified)) expect(kind).toBe('refused')
})
