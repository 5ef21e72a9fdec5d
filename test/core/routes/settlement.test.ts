import { describe, expect, test } from 'vitest'
import type { HeaderList } from '../../../src/core/header-list.ts'
import type { ApplicationResponse } from '../../../src/core/ports.ts'
import {
  dispositionOf,
  type Settlement,
  type StoringPolicy,
  storedHeadersOf,
  storedOutcomeOf,
} from '../../../src/core/routes/settlement.ts'
import { lines } from '../../support/header-lines.ts'
import { STORING as policy } from '../../support/policies.ts'

const disposition = (status: number, headers: HeaderList = [], store: StoringPolicy['store'] = {}) =>
  dispositionOf({ status, headers, body: Buffer.alloc(0) }, { ...policy, store })

describe('the settlement of an answer', () => {
  test('by default the status decides what an answer settles', () => {
    // Bug: a page of Laravel that had fetched a new CSRF token after 419 got the same 419 again, as long as the record was kept; and so did
    // each client that complied with a refusal which was not on a list of those to release.
    const verdicts = [400, 402, 409, 410, 422]
    const expected = (status: number): Settlement => {
      if (status === 206) return 'hold'
      // Bug: Cloudflare in front of the application says 524 where it has waited for 100 s, and the work went on beside its retry.
      if ([408, 499, 502, 504, 520, 522, 524].includes(status)) return 'unknown'
      return status < 400 || verdicts.includes(status) ? 'store' : 'release'
    }
    for (let status = 200; status <= 999; status += 1) {
      expect(disposition(status), String(status)).toBe(expected(status))
    }
  })

  test.each<[status: number, headers: HeaderList, store: StoringPolicy['store'], Settlement]>([
    // The route decides: the exact status before its class.
    [503, [], { '5xx': 'store' }, 'store'],
    [503, [], { '5xx': 'store', '503': 'hold' }, 'hold'],
    [404, [], { '4xx': 'release' }, 'release'],
    [206, [], { '206': 'store' }, 'store'],
    // Bug: `hold` of a status beside `Retry-After` was ignored, and the request was executed twice.
    [503, [['Retry-After', '5']], { '503': 'hold' }, 'hold'],
    [503, [['Retry-After', '5']], { '5xx': 'hold' }, 'hold'],
    [503, [['Retry-After', '5']], { '503': 'store' }, 'store'],
    [401, [['WWW-Authenticate', 'DPoP']], { '401': 'store' }, 'store'],
    // A refusal that asks for another form of the request is none of it, whatever the class says.
    ...lines(
      'Accept-Encoding: identity',
      'Accept-Post: application/json',
      'Accept-Patch: application/json-patch+json',
      'DPoP-Nonce: n',
      'WWW-Authenticate: Bearer error="invalid_token"',
      'Payment-Required: e30=',
    ).flatMap(([name, value]): [number, HeaderList, StoringPolicy['store'], Settlement][] => [
      [400, [[name!, value!]], { '4xx': 'store' }, 'release'],
      [422, [[name!, value!]], {}, 'release'],
      // Where nobody knows what was done it is no refusal; and what is done is done, whatever may come next.
      [408, [[name!, value!]], {}, 'unknown'],
      [201, [[name!, value!]], {}, 'store'],
    ]),
    // An application that refuses and asks for a retry has not settled the request, whatever the class says.
    [409, [['Retry-After', '5']], { '4xx': 'store' }, 'release'],
    [404, [['retry-after', '']], {}, 'release'],
    [503, [['Retry-After', '5']], { '5xx': 'store' }, 'release'],
    // A gateway between here and the application does not know, also where its page says when to come back.
    [504, [['Retry-After', '5']], {}, 'unknown'],
    [502, [['Retry-After', '5']], { '503': 'hold' }, 'unknown'],
    [502, [['Retry-After', '5']], { '5xx': 'store' }, 'store'],
    // Bug: `4xx: release`, for refusals whose cause was mended, released a request that was still at work, too.
    [408, [], { '4xx': 'release' }, 'unknown'],
    [499, [], { '4xx': 'release' }, 'unknown'],
    [504, [], { '5xx': 'release' }, 'unknown'],
    [408, [], { '4xx': 'release', '408': 'release' }, 'release'],
    [504, [], { '504': 'release' }, 'release'],
    [524, [['Retry-After', '5']], {}, 'unknown'],
    [504, [], { '5xx': 'hold' }, 'hold'],
    [502, [], { '502': 'store' }, 'store'],
    [504, [['Fencepost-Outcome', 'release']], {}, 'release'],
    // Nor does a framework whose time limit was reached, unless it says that a retry is welcome.
    [408, [['Retry-After', '5']], {}, 'release'],
    [408, [], { '4xx': 'store' }, 'store'],
    // A 202 has settled it: its header says when to fetch the result, and another execution would be one too many.
    [202, [['Retry-After', '5']], {}, 'store'],
    [303, [['Retry-After', '5']], {}, 'store'],
    [200, [['Retry-After', '5']], { '200': 'release' }, 'release'],
    // The application's own header precedes everything.
    [500, [['Fencepost-Outcome', 'store']], {}, 'store'],
    [200, [['fencepost-outcome', ' Release ']], {}, 'release'],
    [200, lines('fencepost-outcome: hold', 'Retry-After: 5'), { '200': 'store' }, 'hold'],
    [200, lines('fencepost-outcome: store', 'fencepost-outcome: release'), {}, 'release'],
    // An unknown value is ignored.
    [500, [['fencepost-outcome', 'keep']], {}, 'release'],
    [200, [['fencepost-outcome', '']], {}, 'store'],
  ])('%i %j under %j: %s', (status, headers, store, expected) => {
    expect(disposition(status, headers, store)).toBe(expected)
  })
})

test.each<[string, string, HeaderList, Settlement]>([
  ['a declined card', '{"error":"card_declined"}', [], 'store'],
  ['the challenge of x402, version 1', '{"x402Version":1,"accepts":[]}', [], 'release'],
  ['a body that is not read', '\x1f\x8b', [['Content-Encoding', 'gzip']], 'release'],
])('402 with %s: %s, %j: %s', (_, body, headers, expected) => {
  expect(dispositionOf({ status: 402, headers, body: Buffer.from(body) }, policy)).toBe(expected)
})

test('409 says of a further attempt only that the one before it may be at work', () => {
  const further = (headers: HeaderList, store: StoringPolicy['store']) =>
    dispositionOf({ status: 409, headers, body: Buffer.alloc(0) }, { ...policy, store }, 2)
  expect(further([], {})).toBe('release')
  // Whoever knows better says so.
  expect(further([], { '409': 'store' })).toBe('store')
  expect(further([['Fencepost-Outcome', 'store']], {})).toBe('store')
})

/**
 * Bug: every answer of gRPC-Web was 200, so that a service which was unavailable for a second was unavailable to each retry, as long as the
 * record was kept.
 */
describe('an answer of gRPC-Web says in its own status what it settles', () => {
  const said = (code: number, store: StoringPolicy['store'] = {}): Settlement => {
    const headers: HeaderList = [
      ['Content-Type', 'application/grpc-web'],
      ['Grpc-Status', String(code)],
    ]
    return disposition(200, headers, store)
  }

  test('they settle what the status of HTTP that stands for them does', () => {
    const unknown = { 1: 'CANCELLED', 4: 'DEADLINE_EXCEEDED' }
    const released = {
      2: 'UNKNOWN',
      5: 'NOT_FOUND',
      7: 'PERMISSION_DENIED',
      8: 'RESOURCE_EXHAUSTED',
      12: 'UNIMPLEMENTED',
      13: 'INTERNAL',
      14: 'UNAVAILABLE',
      15: 'DATA_LOSS',
      16: 'UNAUTHENTICATED',
    }
    for (let code = 0; code <= 16; code += 1) {
      const expected = code in unknown ? 'unknown' : code in released ? 'release' : 'store'
      expect(said(code), String(code)).toBe(expected)
    }
  })

  test('a code that nobody has defined is UNKNOWN', () => expect(said(99)).toBe('release'))
  test('a route means the status of HTTP that stands for it', () => {
    expect(said(14, { '503': 'store' })).toBe('store')
    expect(said(5, { '4xx': 'release' })).toBe('release')
    expect(said(0, { '200': 'release' })).toBe('release')
  })
  test('an error of HTTP stays one', () =>
    expect(disposition(503, lines('Content-Type: application/grpc-web', 'Grpc-Status: 0'))).toBe('release'))
})

/** Bug: a stream of Connect that had failed for a moment was recorded as 200, and each retry got the failure. */
test.each<[code: string, store: StoringPolicy['store'], Settlement]>([
  ['unavailable', {}, 'release'],
  ['deadline_exceeded', {}, 'unknown'],
  ['already_exists', {}, 'store'],
  ['unavailable', { '503': 'store' }, 'store'],
])('a stream of Connect that ends with %s, under %j: %s', (code, store, expected) => {
  const end = Buffer.from(JSON.stringify({ error: { code } }))
  const body = Buffer.concat([Buffer.from([0x02, 0, 0, 0, end.length]), end])
  const headers: HeaderList = [['Content-Type', 'application/connect+json']]
  expect(dispositionOf({ status: 200, headers, body }, { ...policy, store })).toBe(expected)
})

/** Bug: nginx that spoke HTTP/1.0 to an application which died made a whole answer of what there was, and each retry got that. */
test.each(['application/connect+proto', 'application/grpc-web'])(
  'an answer of %s without its last frame was broken off; one whose body is not kept is taken by its status',
  (type) => {
    const settled = (body: Buffer) =>
      dispositionOf({ status: 200, headers: [['Content-Type', type]], body }, policy)
    expect(settled(Buffer.from([0, 0, 0, 0, 1, 0x61]))).toBe('unknown')
    expect(settled(Buffer.alloc(0))).toBe('store')
  },
)

describe('which headers are stored', () => {
  const kept = (name: string, value = 'v', extra: string[] = []) =>
    storedHeadersOf([[name, value]], { storedHeaders: extra, omittedHeaders: [] }).length === 1

  test.each([
    'Content-Type',
    'content-language',
    'X-Request-Id',
    'Location',
    'Link',
    'ETag',
    'Last-Modified',
    'Vary',
    'Cache-Control',
    'Access-Control-Allow-Origin',
    'access-control-expose-headers',
    // Bug: a client of an upload (tus, OCI) that got a replay did not learn how far it had come, and gave up; one that was told to look
    // for its result later (202) was told neither when nor where.
    'Upload-Offset',
    'Tus-Resumable',
    'Range',
    'Docker-Upload-UUID',
    'Retry-After',
    'Operation-Location',
    'OData-EntityId',
    'HX-Redirect',
    'Preference-Applied',
    // Bug: a form of Laravel that was validated twice took the replay for a broken server; a broker of events got one that was none; a
    // page that isolates itself did not see the replay.
    // Bug: a client of Connect could not read the replay of a compressed stream.
    'Connect-Content-Encoding',
    'Precognition',
    'Precognition-Success',
    'ce-id',
    'Cross-Origin-Resource-Policy',
    'Trailer-Checksum',
    'datastar-selector',
    'Referrer-Policy',
    'Refresh',
    'Clear-Site-Data',
    'Signature-Input',
    'Lock-Token',
    'Access-Control-Allow-Credentials',
    'X-RateLimit-Remaining-Tokens',
  ])('%s is', (name) => expect(kept(name)).toBe(true))
  test.each([
    'Set-Cookie',
    'Authorization',
    'WWW-Authenticate',
    'Proxy-Authenticate',
    'Date',
    'Server',
    'Connection',
    'Keep-Alive',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Content-Length',
    'Fencepost-Outcome',
    'Idempotency-Omitted',
    // Bug: the token of a login (Keystone of OpenStack) was kept on the nodes for a day, and handed to every duplicate.
    'X-Subject-Token',
    'X-Auth-Token',
    'X-Amz-Security-Token',
    'X_Auth_Token',
    'X-Auth',
    'X-Set-Cookie',
    'Set-Cookie2',
    'X-Session-Id',
    'X-CSRF-Token',
    'X-Api-Key',
    'X-Refreshed-JWT',
    'X-Client-Secret',
    'Strict-Transport-Security',
  ])('%s is not', (name) => expect(kept(name)).toBe(false))
  test.each(['Set-Cookie', 'Connection', 'Fencepost-Token'])(
    '%s is not, though the route asks for it',
    (name) => expect(kept(name, 'v', [name.toLowerCase()])).toBe(false),
  )
  test.each(['Shape', 'X-Continuation-Token'])('%s is where the route names it', (name) =>
    expect(kept(name, 'v', [name.toLowerCase()])).toBe(true),
  )
  test('the record names the credentials that it leaves out, and what the route leaves out', () => {
    const headers: HeaderList = lines(
      'Set-Cookie: a',
      'set-cookie: b',
      'X-Subject-Token: t',
      'X-Page: 1',
      'X-Kept: 2',
      'Date: now',
    )
    const body = Buffer.from('done')
    const stored = storedOutcomeOf(
      { status: 201, headers, body },
      { ...policy, omittedHeaders: ['x-page'] },
      7,
    )
    expect(stored).toMatchObject({
      headers: lines('X-Kept: 2', 'Idempotency-Omitted: set-cookie, x-subject-token, x-page'),
    })
  })
  test('a header that Connection names is not stored, in any case and place', () => {
    const headers: HeaderList = lines('X-Hop: 1', 'Connection: close, x-hop', 'X-Stay: 2')
    expect(storedHeadersOf(headers, policy)).toEqual([['X-Stay', '2']])
  })
  test('repeated headers stay repeated, in their order and case', () => {
    const headers: HeaderList = lines('Link: </a>', 'X-B: 1', 'LINK: </b>')
    expect(storedHeadersOf(headers, policy)).toEqual(headers)
  })
  test.each(['a\r\nb', 'a\nb', 'a\0b', '€'])('a value that could not be replayed (%j) is left out', (value) =>
    expect(kept('X-Note', value)).toBe(false),
  )
})

describe('what is recorded', () => {
  const response: ApplicationResponse = {
    status: 201,
    headers: lines('Location: /payments/1', 'Set-Cookie: a=b'),
    body: Buffer.from('done'),
  }
  const oversized = { stream: (async function* () {})() }

  test('the whole answer is recorded', () => {
    expect(storedOutcomeOf(response, policy, 7)).toEqual({
      kind: 'response',
      status: 201,
      headers: lines('Location: /payments/1', 'Idempotency-Omitted: set-cookie'),
      body: Buffer.from('done'),
      completedAtWallMs: 7,
    })
  })
  test('of an answer without a body its stated length is recorded, and of one with a body the body', () => {
    const headers: HeaderList = [['content-length', '4']]
    expect(storedOutcomeOf({ ...response, headers, body: Buffer.alloc(0) }, policy, 7)).toMatchObject({
      headers: [['Content-Length', '4']],
    })
    expect(storedOutcomeOf({ ...response, headers }, policy, 7)).toMatchObject({ headers: [] })
  })
  test.each([
    ['larger than may be stored', { ...response, oversized }, policy],
    ['of a route that stores no bodies', response, { ...policy, bodyStorage: 'none' as const }],
  ])('an answer %s is recorded as a tombstone with its location', (_, answer, by) => {
    expect(storedOutcomeOf(answer, by, 7)).toEqual({
      kind: 'tombstone',
      status: 201,
      location: '/payments/1',
      completedAtWallMs: 7,
    })
  })
  test('a tombstone has no location where the answer has none, or none that can be replayed', () => {
    for (const headers of [[], [['Location', '/a\r\nb']]] as HeaderList[]) {
      const stored = storedOutcomeOf({ ...response, headers, oversized }, policy, 7)
      expect(stored).toEqual({ kind: 'tombstone', status: 201, completedAtWallMs: 7 })
    }
  })
})
