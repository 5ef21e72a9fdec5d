/** Without a key, a request that may be another one is executed: through the real proxy. */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { lines } from '../../support/header-lines.ts'
import { openWire, route, startProxy, TEST_SCOPE, type TestProxy } from '../../support/proxy.ts'
import { changingCookie, changingHeader, lastingCookie, lastingHeader } from '../../support/told-apart.ts'

let application: TestApplication
let byContent: TestProxy
let keyed: TestProxy

beforeAll(async () => {
  application = await startApplication()
  byContent = await startProxy(application.origin, { routes: [route({ match: {}, mode: 'content' })] })
  // Of its clients nobody is believed to be who a header says.
  const options = { scope: { ...TEST_SCOPE, trusted: false } }
  keyed = await startProxy(application.origin, { routes: [route({ match: {} })], options })
})

afterAll(async () => {
  for (const each of [keyed, byContent, application]) await each[Symbol.asyncDispose]()
})

type Line = readonly [name: string, value: string]
let number = 0

/** What became of requests that differ in these lines alone; each group has a body of its own. */
async function told(proxy: TestProxy, ...requests: readonly (readonly Line[])[]): Promise<readonly string[]> {
  number += 1
  const statuses: string[] = []
  for (const lines of requests) {
    await using wire = await openWire(proxy.port)
    const body = `{"order":${number}}`
    const given = new Set(lines.map(([name]) => name.toLowerCase()))
    const type = given.has('content-type') ? [] : ['Content-Type: application/json']
    const key = proxy === keyed ? [`Idempotency-Key: headers-${number}`] : []
    const head = [
      'POST /orders HTTP/1.1',
      `Host: ${given.has('host') ? lines[0]![1] : 'a'}`,
      `Content-Length: ${body.length}`,
      `Connection: close${given.has('x-hop') ? ', x-hop' : ''}`,
      ...type,
      ...key,
      ...lines.filter(([name]) => name !== 'host').map(([name, value]) => `${name}: ${value}`),
    ]
    wire.send(`${head.join('\r\n')}\r\n\r\n${body}`)
    await wire.ended
    statuses.push(/^Idempotency-Status: (.*)$/im.exec(wire.received())?.[1]?.trim() ?? wire.received())
  }
  return statuses
}

const TWO = ['created', 'created']
const ONE = ['created', 'replayed']
const value = fc.stringMatching(/^[a-z0-9]{1,8}$/)
/** They say how the message is read. */
const FRAMING =
  /^(content-length|transfer-encoding|expect|upgrade|http2-settings|te|trailer|(proxy-)?connection)$/

test('a pair that differs in one header, cookie or type that is not known to change is executed twice', async () => {
  const difference = fc.oneof(
    fc.tuple(lastingHeader, value, value),
    fc.tuple(lastingCookie, value, value).map(([name, a, b]) => ['cookie', `${name}=${a}`, `${name}=${b}`]),
    fc.tuple(value, value).map(([a, b]) => ['content-type', `application/${a}`, `application/${b}`]),
  )
  await fc.assert(
    fc.asyncProperty(difference, async ([name = '', first = '', second = '']) => {
      fc.pre(first !== second)
      expect(await told(byContent, [[name, first]], [[name, second]], [[name, first]])).toEqual([
        ...TWO,
        'replayed',
      ])
    }),
    { numRuns: 60 },
  )
})

test('a pair that differs only in what is known to change is executed once', async () => {
  const difference = fc.oneof(
    fc.tuple(
      changingHeader.filter((name) => !FRAMING.test(name)),
      value,
      value,
    ),
    fc.tuple(changingCookie, value, value).map(([name, a, b]) => ['cookie', `${name}=${a}`, `${name}=${b}`]),
  )
  await fc.assert(
    fc.asyncProperty(difference, async ([name = '', first = '', second = '']) => {
      expect(await told(byContent, [[name, first]], [[name, second]], [])).toEqual([...ONE, 'replayed'])
    }),
    { numRuns: 60 },
  )
})

test('with a key, a header that nobody knows makes no mismatch', async () => {
  await fc.assert(
    fc.asyncProperty(lastingHeader, value, value, async (name, first, second) => {
      expect(await told(keyed, [[name, first]], [[name, second]], [])).toEqual([...ONE, 'replayed'])
    }),
    { numRuns: 30 },
  )
})

/** Bugs, each: the second request was not executed, and its client got 201 with the answer to the first. */
test.each<[name: string, first: string, second: string]>([
  ['Accept', 'application/pdf', 'text/csv'],
  ['If-Match', '"1"', '"2"'],
  ['Content-Disposition', 'attachment; filename="a"', 'attachment; filename="b"'],
  ['X-Trino-Schema', 'sales', 'audit'],
  ['X-Container-Read', '.r:*', '.r:-'],
  ['DOLAPIKEY', 'ann', 'bob'],
  ['X-Appwrite-Key', 'ann', 'bob'],
  ['x_api_key', 'ann', 'bob'],
  ['Cookie', 'session=ann', 'session=bob'],
  ['X-Forwarded-User', 'ann', 'bob'],
  ['Stripe-Account', 'acct_1', 'acct_2'],
  ['SOAPAction', '"urn:pay"', '"urn:refund"'],
  ['Upload-Offset', '0', '2'],
  ['X-Shopify-Topic', 'orders/create', 'orders/paid'],
  ['X-Goog-Message-Number', '10', '23'],
  ['HX-Prompt', 'yes', 'no'],
  ['X-Hook-Secret', 'a', 'b'],
  ['X-Idempotency-Key', 'a', 'b'],
  ['Idempotency-Key', 'a', 'b'],
  ['X-Attempt-Id', 'a', 'b'],
  ['Sec-Fetch-Site', 'cross-site', 'same-origin'],
  ['X_Request_Id', 'a', 'b'],
  // Two shops of one application: an anonymous form for the second got the answer of the first.
  ['host', 'acme.example', 'globex.example'],
  ['X-Forwarded-Host', 'acme.example', 'globex.example'],
  ['X-Original-Host', 'acme.example', 'globex.example'],
  ['Forwarded', 'for=10.0.0.1;host=acme.example', 'for=10.0.0.1;host=globex.example'],
  ['Forwarded', 'for=10.0.0.1; HOST = "acme.example:8080"', 'for=10.0.0.1; HOST = "acme.example:9090"'],
])('two requests that differ in %s are two', async (name, first, second) => {
  expect(await told(byContent, [[name, first]], [[name, second]], [])).toEqual([...TWO, 'created'])
})

/** What browsers, gateways, webhooks and client libraries are known to send anew. */
test.each<[what: string, first: readonly Line[], second: readonly Line[]]>([
  [
    // Bug: a second click was a second order.
    'a click while Datadog counts, Google measures, and another server answers',
    [['Cookie', 'session=a; _dd_s=rum=1&expire=1; _ga_X1=GS2.1.s1; AWSALB=srv1']],
    [['cookie', 'session=a;AWSALB=srv2; _dd_s=rum=1&expire=2; _ga_X1=GS2.1.s2; __cf_bm=2']],
  ],
  [
    'a retry through Envoy, from another address',
    lines(
      'x-request-id: a',
      'x-forwarded-for: 10.0.0.1',
      'x-envoy-attempt-count: 1',
      'traceparent: 00-a-b-01',
    ),
    lines(
      'x-request-id: b',
      'x-forwarded-for: 10.0.0.2, 10.0.0.3',
      'x-envoy-attempt-count: 2',
      'x-envoy-expected-rq-timeout-ms: 900',
      'x-real-ip: 10.0.0.2',
    ),
  ],
  [
    'a retry through a content delivery network',
    lines('cf-ray: a', 'cdn-loop: cloudflare', 'via: 1.1 a'),
    lines('cf-ray: b', 'x-amzn-trace-id: Root=1', 'x-amz-cf-id: b'),
  ],
  [
    'a webhook that is signed anew',
    lines('webhook-id: e', 'webhook-timestamp: 1', 'webhook-signature: v1,a'),
    lines('webhook-id: e', 'webhook-timestamp: 2', 'webhook-signature: v1,b', 'X-Delivery-Attempt: 2'),
  ],
  [
    'a retry of a client library',
    lines('User-Agent: lib/1', 'x-stainless-retry-count: 0', 'amz-sdk-invocation-id: i'),
    lines(
      'User-Agent: lib/1 retry',
      'x-stainless-retry-count: 1',
      'amz-sdk-request: attempt=2',
      'amz-sdk-invocation-id: i',
      'Date: x',
    ),
  ],
  ['a page that is loaded again', [['Sec-CH-UA', 'a']], [['Cache-Control', 'max-age=0']]],
  [
    'a retry through another gateway that states the host',
    [['Forwarded', 'for=10.0.0.1;host=acme.example;proto=https']],
    [['forwarded', 'by=gate-2;host=acme.example, for=10.0.0.2']],
  ],
  ['a header of one hop', [['X-Hop', '1']], [['X-Hop', '2']]],
])('%s is one request', async (_what, first, second) => {
  expect(await told(byContent, first, second)).toEqual(ONE)
})

test('with a key, what is asked for and for whom is compared', async () => {
  for (const name of ['Content-Range', 'X-HTTP-Method-Override', 'X-Amz-Target', 'Dry-Run', 'Stripe_Account'])
    expect(await told(keyed, [[name, '1']], [[name, '1']], [[name, '2']])).toEqual([...ONE, 'mismatch'])
})

test('a route states its own rule, and then only that counts', async () => {
  const policy = route().fingerprint
  const proxyOf = (differs: Parameters<typeof route>[0]) =>
    startProxy(application.origin, { routes: [route({ mode: 'content', ...differs })] })
  await using formula = await proxyOf({ fingerprint: { ...policy, headers: [] } })
  expect(await told(formula, [['Cookie', 'a=1']], [['Accept', 'text/csv']])).toEqual(ONE)
  expect(await told(formula, [['Authorization', 'Bearer a']], [['Authorization', 'Bearer b']])).toEqual(TWO)

  await using ignoring = await proxyOf({
    fingerprint: { ...policy, ignore: ['x-attempt-id', 'cookie:seen', 'host'] },
  })
  expect(await told(ignoring, [['host', 'sidecar-1:8080']], [['host', 'sidecar-2:8080']])).toEqual(ONE)
  const [first, second]: readonly Line[][] = [
    lines('X-Attempt-Id: a', 'Cookie: user=1; seen=1'),
    lines('X-Attempt-Id: b', 'Cookie: user=1; seen=2'),
  ]
  expect(await told(ignoring, first!, second!, [['Cookie', 'user=2']])).toEqual([...ONE, 'created'])

  await using named = await proxyOf({ principal: { kind: 'header', name: 'x-user' } })
  const by = (user: string, cookie: string): readonly Line[] => [
    ['X-User', user],
    ['Cookie', cookie],
  ]
  expect(await told(named, by('a', 's=1'), by('a', 's=2'), by('b', 's=2'))).toEqual([...ONE, 'created'])
  // Nobody has said who asks there.
  expect(await told(named, [['Cookie', 's=1']], [['Cookie', 's=2']])).toEqual(TWO)
})
