/**
 * Which headers tell two requests apart. The properties try what nobody thought of; `test/http/proxy/counted-headers.test.ts` sends the named
 * cases through the proxy.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { HeaderList } from '../../../src/core/header-list.ts'
import { CHANGING_COOKIES } from '../../../src/core/request/changing-cookies.ts'
import {
  COMPARED_WITH_KEY,
  countedByContent,
  countedWithKey,
  type HeaderRules,
  isChanging,
} from '../../../src/core/request/counted-headers.ts'
import { compileRules, fingerprint } from '../../../src/core/request/fingerprint.ts'
import { lastingCookies } from '../../../src/core/request/lasting-cookies.ts'
import { HEAD } from '../../support/requests.ts'
import { changingCookie, changingHeader, lastingCookie, lastingHeader } from '../../support/told-apart.ts'

const ALL: HeaderRules = { headers: 'all', ignored: new Set() }
const counted = (headers: HeaderList, rules = ALL) => countedByContent(headers, rules, false)
const value = fc.stringMatching(/^[!-~]{1,20}$/)
const others = fc.array(fc.tuple(lastingHeader, value), { maxLength: 4 })

async function hashes(headers: HeaderList) {
  const printed = []
  for (const by of ['content', 'key'] as const) {
    const one = await fingerprint({ ...HEAD, headers }, new Uint8Array(), undefined, undefined, by)
    printed.push(one.kind === 'fingerprint' ? one.hash : one.kind)
  }
  return { content: printed[0], key: printed[1] }
}

test('a header that is not known to change tells two requests apart by content, and never with a key', async () => {
  await fc.assert(
    fc.asyncProperty(lastingHeader, value, value, others, async (name, first, second, rest) => {
      fc.pre(first !== second)
      const [one, two, none] = [[[name, first], ...rest], [[name, second], ...rest], rest] as HeaderList[]
      const all = await Promise.all([one!, two!, none!].map(hashes))
      expect(new Set(all.map(({ content }) => content)).size).toBe(3)
      expect(new Set(all.map(({ key }) => key)).size).toBe(1)
    }),
    { numRuns: 1_000 },
  )
})

test('a header that is known to change tells none apart', async () => {
  await fc.assert(
    fc.asyncProperty(changingHeader, value, value, others, async (name, first, second, rest) => {
      const [one, two, none] = [[[name, first], ...rest], [[name, second], ...rest], rest] as HeaderList[]
      const all = await Promise.all([one!, two!, none!].map(hashes))
      expect(new Set(all.map(({ content }) => content)).size).toBe(1)
    }),
    { numRuns: 1_000 },
  )
})

test('a cookie counts, unless it is known as one of analytics, bot management or load balancing', () => {
  fc.assert(
    fc.property(lastingCookie, changingCookie, value, value, (lasting, changing, a, b) => {
      const [first, second] = [a, b].map((text) => text.replaceAll(/[;"]/g, ''))
      fc.pre(first !== second)
      const by = (line: string) => JSON.stringify(counted([['Cookie', line]]))
      expect(by(`${lasting}=${first}`)).not.toBe(by(`${lasting}=${second}`))
      expect(by(`${changing}=${first}; ${lasting}=1`)).toBe(by(`${lasting}=1;${changing}=${second}`))
      expect(by(`${changing}=${first}`)).toBe('[]')
    }),
    { numRuns: 1_000 },
  )
})

test('every name of the data is a cookie that changes, and an id has a digit', () => {
  for (const name of CHANGING_COOKIES.names) expect(lastingCookies(`${name}=1`)).toBeUndefined()
  for (const [start, end] of CHANGING_COOKIES.patterns) {
    expect(lastingCookies(`${start}1A${end}=1`)).toBeUndefined()
    expect(lastingCookies(`${start}_login${end}=1`)).toBe(`${start}_login${end}=1`)
  }
})

test.each([
  ['a semicolon between quotes ends no cookie', 'a="x; _ga=1; y"; b=2', 'a="x; _ga=1; y"; b=2'],
  ['behind the quotes another one begins', 'a="x;y"; _ga=1; b=2', 'a="x; y"; b=2'],
  ['spaces around a cookie say nothing', ' a=1;b=2 ; _dd_s=3', 'a=1; b=2'],
  ['another spelling is another cookie', '_GA=1; _dd_s_=2', '_GA=1; _dd_s_=2'],
])('of cookies: %s', (_what, line, lasting) => expect(lastingCookies(line)).toBe(lasting))

// Bug: a line of 16 KiB took 0.3 s. Of this one a pattern that tries each space against the rest takes longer than a test may.
test('a cookie of spaces is as good as any', () => {
  const line = `a=${' '.repeat(60_000)}b`
  expect(lastingCookies(line)).toBe(line)
})

// What a gateway or a browser states of its user, conditions, and what only looks like a counter or a date.
test.each(
  'x-forwarded-user x-forwarded-client-cert x-attempt-id x-csrf-token sec-fetch-site origin referer if-match accept-language x-event-timestamp x-document-signature x-idempotency-key idempotency-key content-digest x_request_id'.split(
    ' ',
  ),
)('%s counts', (name) => expect(isChanging(name)).toBe(false))

test('what Connection names ends at this hop, and each line of a header counts, in its order', () => {
  const lines: HeaderList = [
    ['X-B', '2'],
    ['Connection', 'close, X-Hop'],
    ['x-hop', '1'],
    ['x-b', '1'],
    ['X-A', ''],
  ]
  expect(counted(lines)).toEqual([
    ['x-a', ''],
    ['x-b', '2', '1'],
  ])
})

test('of what gateways state of the way the hosts count, as they came', () => {
  const lines: HeaderList = [
    ['Forwarded', 'for=10.0.0.1;host=Acme.example:443;proto=https, for=10.0.0.2; Host = "b\\";c"'],
    ['Forwarded', 'for=10.0.0.3'],
    ['X-Forwarded-Host', 'Acme.example, gate-1'],
    ['Host', 'gate-2'],
    ['X-Forwarded-For', '10.0.0.1'],
  ]
  expect(counted(lines)).toEqual([
    ['forwarded', 'host=Acme.example:443;Host = "b\\";c"'],
    ['host', 'gate-2'],
    ['x-forwarded-host', 'Acme.example, gate-1'],
  ])
  expect(countedWithKey(lines, ALL)).toEqual([])
})

test('a route that names headers counts these alone; one that ignores some counts the others', () => {
  const lines: HeaderList = [
    ['X-A', '1'],
    ['X-B', '2'],
    ['Cookie', 'a=1; b=2; _ga=3'],
    ['User-Agent', 'c'],
  ]
  expect(counted(lines, { headers: ['user-agent', 'x-c'], ignored: new Set() })).toEqual([
    ['user-agent', 'c'],
    ['x-c'],
  ])
  expect(counted(lines, { headers: [], ignored: new Set() })).toEqual([])
  const ignored = new Set(['x-a', 'cookie:b'])
  expect(counted(lines, { headers: 'all', ignored })).toEqual([
    ['cookie', 'a=1'],
    ['x-b', '2'],
  ])
  expect(countedByContent(lines, { headers: 'all', ignored }, true)).toEqual([['x-b', '2']])
})

test('with a key, what is asked for and for whom is compared, in any spelling, and what the route names', () => {
  const names = Object.values(COMPARED_WITH_KEY).flatMap((row) => row.split(' '))
  for (const name of [...names, 'Stripe_Account', 'x-org-id', 'X-Scope-OrgID'])
    expect(countedWithKey([[name, '1']], ALL)).toEqual([[name.toLowerCase(), '1']])
  for (const name of ['accounts', 'cookie', 'x-api-key', 'if-match'])
    expect(countedWithKey([[name, '1']], ALL)).toEqual([])
  const named: HeaderRules = { headers: ['if-match', 'x-c'], ignored: new Set() }
  expect(countedWithKey([['If-Match', '1']], named)).toEqual([['if-match', '1'], ['x-c']])
  expect(countedWithKey([['Prefer', '1']], { headers: 'all', ignored: new Set(['prefer']) })).toEqual([])
})

test('what is ignored is part of the scheme', () => {
  const scheme = (ignore: readonly string[]) => {
    const compiled = compileRules({ headers: 'all', ignore, body: { kind: 'all' } })
    return compiled.kind === 'rules' ? compiled.rules.scheme : compiled.detail
  }
  expect(new Set([scheme([]), scheme(['x-a']), scheme(['x-b']), scheme(['x-a', 'x-b'])]).size).toBe(4)
  expect(scheme(['x-b', 'x-a', 'x-b'])).toBe(scheme(['x-a', 'x-b']))
})

// Bug: what an application behind CGI reads as a header that the route named did not count.
test('a header that a route names counts in every spelling', () => {
  const named: HeaderRules = { headers: ['x-mode'], ignored: new Set() }
  const of = (headers: HeaderList) => [
    countedByContent(headers, named, false),
    countedWithKey(headers, named),
  ]
  expect(of([['X_Mode', 'live']])).not.toEqual(of([['X_Mode', 'test']]))
  expect(of([['X-Moded', 'live']])).toEqual(of([]))
})
