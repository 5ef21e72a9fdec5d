/**
 * Applications tell tenants apart by host. At each entry, a request for another host is another request where the content is the key; and
 * where an entry is not told the host, none is taken for another.
 */
import { request } from 'undici'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { stackOfTests } from '../../support/during-tests.ts'
import { FETCH_MS_MAX } from '../../support/fetched-programs.ts'
import { startGatewayListener } from '../../support/gateway-listener.ts'
import { EXT_PROC, KINDS, startGateway } from '../../support/gateways.ts'
import { route } from '../../support/proxy.ts'
import { between, type Sidecar, startSidecar } from '../../support/sidecar.ts'

const stack = stackOfTests()
let application: TestApplication
let sidecar: Sidecar
const origins: Record<string, string> = {}

beforeAll(async () => {
  application = stack.use(await startApplication())
  sidecar = stack.use(
    await startSidecar({
      ...between('embedded', application),
      FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
      FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0',
    }),
  )
  origins.proxy = sidecar.proxy
  const ports = { 8082: sidecar.gateway, 8083: sidecar.gatewayGrpc }
  const { envoy, kong } = KINDS
  const kinds = { envoy, 'envoy over gRPC': KINDS['envoy over gRPC'], ext_proc: EXT_PROC, kong }
  for (const [name, kind] of Object.entries(kinds))
    origins[name] = stack.use(await startGateway(kind, application.origin, ports)).origin
}, FETCH_MS_MAX)

type Lines = Readonly<Record<string, string>>
/** @returns whether the request was, or would be, executed */
type Ask = (path: string, lines: Lines) => Promise<boolean>

async function answered(url: string, method: string, lines: Lines, body = '{"item":7}') {
  const headers = { 'content-type': 'application/json', ...lines }
  const answer = await request(url, { method: method as 'POST', headers, body })
  return { status: answer.statusCode, text: await answer.body.text() }
}

/** Through a sidecar or a gateway, to the application. */
const through =
  (name: string): Ask =>
  async (path, lines) => {
    const before = application.seen.length
    await answered(origins[name] + path, 'POST', lines)
    return application.seen.length > before
  }

/** A gateway's question, in the words of a prefix. */
const asked = (
  call: string,
  prefix: string,
  { host, ...lines }: Lines,
  path: string,
  gateway = sidecar.gateway,
) =>
  answered(`${gateway}/v1/gateway/${call}`, 'POST', {
    [`${prefix}method`]: 'POST',
    [`${prefix}uri`]: path,
    ...(host === undefined ? {} : { [`${prefix}host`]: host }),
    ...lines,
  })

const DESCRIBED = [
  ['forward-auth', 'x-forwarded-'],
  ['check', 'fencepost-original-'],
] as const

/** A description that the API has not seen yet is another request. */
const seen = new Set<string>()
const fingerprint = (path: string, headers: Lines) =>
  answered(
    `${sidecar.api}/v1/fingerprint`,
    'POST',
    {},
    JSON.stringify({
      request: {
        method: 'POST',
        path,
        headers: { 'content-type': 'application/json', ...headers },
        body: '{}',
      },
    }),
  )

const ENTRIES: readonly (readonly [entry: string, ask: Ask])[] = [
  ...['proxy', 'envoy', 'envoy over gRPC', 'ext_proc', 'kong'].map((name) => [name, through(name)] as const),
  ...DESCRIBED.map(
    ([call, prefix]) =>
      [
        call,
        async (path: string, lines: Lines) => (await asked(call, prefix, lines, path)).status === 200,
      ] as const,
  ),
  [
    '/v1/fingerprint',
    async (path, lines) => {
      const { hash } = JSON.parse((await fingerprint(path, lines)).text)
      const isNew = !seen.has(hash)
      seen.add(hash)
      return isNew
    },
  ],
]

let path = ''
let count = 0
beforeEach(() => {
  count += 1
  path = `/things/${count}`
})

const ACME = { host: 'acme.example' }

describe.each(ENTRIES)('%s', (entry, ask) => {
  test('the same content for another host is executed, and for the same one it is not', async () => {
    expect([await ask(path, ACME), await ask(path, { host: 'globex.example' })]).toEqual([true, true])
    expect(await ask(path, ACME)).toBe(false)
  })

  test.each([
    // There it is the description.
    ...(entry === 'forward-auth' ? [] : ['x-forwarded-host']),
    'x-forwarded-prefix',
    'x-forwarded-user',
    'x-original-host',
  ])('so it is with another %s, which a trusted proxy before it may have said', async (name) => {
    const of = (value: string) => ask(path, { ...ACME, [name]: value })
    expect([await of('acme.example'), await of('globex.example')]).toEqual([true, true])
    expect(await of('acme.example')).toBe(false)
  })
})

const UNSAID = /The request does not say its host.* on a route that takes one\./

test.each(DESCRIBED)(
  '%s: without a host no content is a key; a key of the client is one',
  async (call, prefix) => {
    expect(await asked(call, prefix, {}, path)).toMatchObject({
      status: 400,
      text: expect.stringMatching(UNSAID),
    })
    const keyed = () => asked(call, prefix, { 'idempotency-key': `${call}-4711` }, path)
    expect([(await keyed()).status, (await keyed()).status]).toEqual([200, 409])
  },
)

test('/v1/fingerprint: without a host no content is a key; a key of the client is one', async () => {
  expect(await fingerprint(path, {})).toMatchObject({ status: 400, text: expect.stringMatching(UNSAID) })
  expect((await fingerprint(path, { 'idempotency-key': 'order-4711' })).status).toBe(200)
})

test.each([['auth-request', 'x-original-'] as const, ...DESCRIBED])(
  '%s: a host that is a part of the key is that of the request',
  async (call, prefix) => {
    const named = ['host', 'idempotency-key'].map((name) => ({ in: 'header', name }) as const)
    const byHost = route({ key: { ...route().key, headers: [], parts: named } })
    await using gateway = await startGatewayListener({ options: { routes: [byHost] } })
    const check = async (lines: Lines) =>
      (await asked(call, prefix, { 'idempotency-key': '1001', ...lines }, path, gateway.origin)).status
    expect([await check(ACME), await check({ host: 'globex.example' })]).toEqual([200, 200])
    expect(await check(ACME)).not.toBe(200)
    // Without it there is no key, and the request goes on.
    expect([await check({}), await check({})]).toEqual([200, 200])
  },
)
