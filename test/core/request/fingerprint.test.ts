import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DECODED_BYTES_MAX } from '../../../src/core/formats/content-coding.ts'
import { bytesOf, frame, frameText, unframe, utf8Text } from '../../../src/core/formats/framing.ts'
import {
  BODY_BYTES_MAX,
  compileRules,
  DEFAULT_LIMITS,
  DEFAULT_RULES,
  fingerprint,
  type RequestHead,
  SCHEME_VERSION,
} from '../../../src/core/request/fingerprint.ts'
import type { FingerprintPolicy } from '../../../src/core/routes/route.ts'
import { lines } from '../../support/header-lines.ts'
import { fingerprintOf, HEAD, hashOf, headOf, JSON_HEAD } from '../../support/requests.ts'

const SAME = true
const OTHER = false
const FORM = headOf('application/x-www-form-urlencoded')

const multipart = (boundary: string, content = 'v', name = 'n'): [RequestHead, string] => [
  headOf(`multipart/form-data; boundary=${boundary}`),
  `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${content}\r\n--${boundary}--\r\n`,
]
const gzipped = (text: string): [RequestHead, Uint8Array] => [
  headOf('application/json', ['Content-Encoding', 'gzip']),
  gzipSync(text),
]
/** A preamble and an epilogue are allowed, so each boundary picks its own form out of the same bytes. */
const twoForms = (subtype: string): [[RequestHead, string], [RequestHead, string]] => {
  const body = multipart('A', '1', 'amount')[1] + multipart('B', '100', 'amount')[1]
  return [
    [headOf(`multipart/${subtype}; boundary=A`), body],
    [headOf(`multipart/${subtype}; boundary=B`), body],
  ]
}
const withHeader = (name: string, value: string): RequestHead => ({ ...HEAD, headers: [[name, value]] })

describe('which requests are one request', () => {
  type Request = [head: RequestHead, body: string | Uint8Array]
  test.each<[name: string, first: Request, second: Request, same: boolean]>([
    // JSON: its meaning.
    [
      '2^53 + 1 and 2^53',
      [JSON_HEAD, '{"id":9007199254740993}'],
      [JSON_HEAD, '{"id":9007199254740992}'],
      OTHER,
    ],
    ['another order, 1 and 1.0', [JSON_HEAD, '{"a":1,"b":2}'], [JSON_HEAD, '{"b":2,"a":1.0}'], SAME],
    ['a member twice and once', [JSON_HEAD, '{"a":1,"a":2}'], [JSON_HEAD, '{"a":2}'], OTHER],
    ['-0 and 0', [JSON_HEAD, '-0'], [JSON_HEAD, '0'], OTHER],
    ['1e400 and 1e401', [JSON_HEAD, '1e400'], [JSON_HEAD, '1e401'], OTHER],
    ['two lone surrogates', [JSON_HEAD, '"\\ud800"'], [JSON_HEAD, '"\\ud801"'], OTHER],
    [
      'two invalid bytes',
      [JSON_HEAD, Buffer.from('22ff22', 'hex')],
      [JSON_HEAD, Buffer.from('22fe22', 'hex')],
      OTHER,
    ],
    ['with and without a byte order mark', [JSON_HEAD, '\ufeff{}'], [JSON_HEAD, '{}'], OTHER],
    ['__proto__ and no member', [JSON_HEAD, '{"__proto__":{"a":1}}'], [JSON_HEAD, '{}'], OTHER],
    ['the number 1 and the string "1"', [JSON_HEAD, '1'], [JSON_HEAD, '"1"'], OTHER],
    ['null and no member', [JSON_HEAD, '{"a":null}'], [JSON_HEAD, '{}'], OTHER],
    ['elements in another order', [JSON_HEAD, '[1,2]'], [JSON_HEAD, '[2,1]'], OTHER],
    ['a canonical text under a type that is no JSON', [JSON_HEAD, '{}'], [headOf('text/plain'), '{}'], OTHER],
    ['whitespace of what is no JSON by type', [HEAD, '{ }'], [HEAD, '{}'], OTHER],
    // Content codings.
    ['gzip and identity', gzipped('{"a":1,"b":2}'), [JSON_HEAD, '{"b":2, "a":1}'], SAME],
    ['two gzips of two contents', gzipped('{"a":1}'), gzipped('{"a":2}'), OTHER],
    ['the bytes of a gzip, not announced as such', [JSON_HEAD, gzipped('{}')[1]], gzipped('{}'), OTHER],
    // Forms.
    ['+ and %20', [FORM, 'a=1+2'], [FORM, 'a=1%202'], SAME],
    ['escapes of unreserved characters', [FORM, '%61=%7E'], [FORM, 'a=~'], SAME],
    ['a form in another order', [FORM, 'a=1&b=2'], [FORM, 'b=2&a=1'], OTHER],
    ['an escaped & and a real one', [FORM, 'a=1%26b=2'], [FORM, 'a=1&b=2'], OTHER],
    ['with and without a value', [FORM, 'a='], [FORM, 'a'], OTHER],
    // Multipart.
    ['another boundary', multipart('X'), multipart('----y'), SAME],
    ['another content', multipart('X'), multipart('X', 'w'), OTHER],
    ['another name', multipart('X'), multipart('X', 'v', 'm'), OTHER],
    ['a name and content that shift', multipart('X', 'bc', 'a'), multipart('X', 'c', 'ab'), OTHER],
    ['one body that holds two forms, read by one boundary and by the other', ...twoForms('form-data'), OTHER],
    ['the same under a type whose parts we do not read', ...twoForms('mixed'), OTHER],
    // Everything around the body.
    ['another tenant', [HEAD, ''], [{ ...HEAD, tenant: 'Acme' }, ''], OTHER],
    [
      'a colon on the other side',
      [{ ...HEAD, tenant: 'a:b', env: 'c' }, ''],
      [{ ...HEAD, tenant: 'a', env: 'b:c' }, ''],
      OTHER,
    ],
    ['another API version', [HEAD, ''], [{ ...HEAD, apiVersion: 'v2' }, ''], OTHER],
    ['another principal', [HEAD, ''], [{ ...HEAD, principal: 'f'.repeat(64) }, ''], OTHER],
    ['another method', [HEAD, ''], [{ ...HEAD, method: 'PATCH' }, ''], OTHER],
    ['%2f and / in the path', [{ ...HEAD, path: '/a%2fb' }, ''], [{ ...HEAD, path: '/a/b' }, ''], OTHER],
    ['/a/../b and /b', [{ ...HEAD, path: '/a/../b' }, ''], [{ ...HEAD, path: '/b' }, ''], OTHER],
    ['no query and an empty one', [HEAD, ''], [{ ...HEAD, query: '' }, ''], OTHER],
    [
      'names of a query in another order',
      [{ ...HEAD, query: 'a=1&b=2' }, ''],
      [{ ...HEAD, query: 'b=2&a=1' }, ''],
      SAME,
    ],
    [
      'values of a query in another order',
      [{ ...HEAD, query: 'a=1&a=2' }, ''],
      [{ ...HEAD, query: 'a=2&a=1' }, ''],
      OTHER,
    ],
    ['a header that the rules did not choose', [HEAD, ''], [withHeader('X-Request-Id', '1'), ''], SAME],
    ['a header that says who asks', [HEAD, ''], [withHeader('Cookie', 'a=1'), ''], SAME],
    ['a header that says what is asked for', [HEAD, ''], [withHeader('SOAPAction', '""'), ''], OTHER],
    ['another one', [withHeader('Depth', '1'), ''], [withHeader('Overwrite', '1'), ''], OTHER],
    [
      'case of such a name',
      [withHeader('Upload-Offset', '1'), ''],
      [withHeader('upload-offset', '1'), ''],
      SAME,
    ],
    ['another key', [withHeader('Idempotency-Key', 'a'), ''], [withHeader('Idempotency-Key', 'b'), ''], SAME],
    ['case of the type', [JSON_HEAD, '{}'], [headOf('Application/JSON'), '{}'], SAME],
    ['no type and an empty one', [HEAD, ''], [headOf(''), ''], OTHER],
  ])('%s', async (_name, [firstHead, first], [secondHead, second], same) => {
    expect((await hashOf(firstHead, first)) === (await hashOf(secondHead, second))).toBe(same)
  })
})

describe('chosen headers', () => {
  const rulesFor = (...headers: string[]) => rulesOf({ headers, ignore: [], body: { kind: 'all' } })
  const hash = async (...headers: [string, string][]) =>
    (await fingerprintOf({ ...HEAD, headers }, '', rulesFor('X-A', 'x-b'))).hash

  test.each<[name: string, first: [string, string][], second: [string, string][], same: boolean]>([
    ['absent and empty', [], [['x-a', '']], OTHER],
    ['case of the name', [['X-A', '1']], [['x-a', '1']], SAME],
    ['case of the value', [['x-a', 'v']], [['x-a', 'V']], OTHER],
    ['two lines and one list', lines('x-a: 1', 'x-a: 2'), [['x-a', '1, 2']], OTHER],
    ['lines in another order', lines('x-a: 1', 'x-a: 2'), lines('x-a: 2', 'x-a: 1'), OTHER],
    ['headers in another order', lines('x-a: 1', 'x-b: 2'), lines('x-b: 2', 'x-a: 1'), SAME],
    ['one header or the other', [['x-a', '1']], [['x-b', '1']], OTHER],
    ['bytes above ASCII', [['x-a', '\u00e9']], [['x-a', '\u00c3\u00a9']], OTHER],
    [
      'one that nobody has to choose beside them',
      lines('x-a: 1', 'depth: 0'),
      lines('x-a: 1', 'depth: 1'),
      OTHER,
    ],
  ])('%s', async (_name, first, second, same) => {
    expect((await hash(...first)) === (await hash(...second))).toBe(same)
  })
})

describe('rules', () => {
  test('rules are part of the scheme, whatever their order and repetition', () => {
    const scheme = (policy: FingerprintPolicy) => rulesOf(policy).scheme
    const all = { kind: 'all' } as const
    expect(scheme({ headers: [], ignore: [], body: all })).toBe(SCHEME_VERSION)
    expect(scheme({ headers: ['a', 'B'], ignore: [], body: all })).toBe(
      scheme({ headers: ['b', 'a', 'A'], ignore: [], body: all }),
    )
    const exclude = (...pointers: string[]) =>
      scheme({ headers: [], ignore: [], body: { kind: 'exclude', pointers } })
    expect(exclude('/a', '/b')).toBe(exclude('/b', '/a', '/b'))
    const schemes = [
      scheme({ headers: ['a'], ignore: [], body: all }),
      exclude('/a'),
      scheme({ headers: [], ignore: [], body: { kind: 'include', pointers: ['/a'] } }),
      scheme({ headers: ['exclude', '/a'], ignore: [], body: all }),
    ]
    expect(new Set([SCHEME_VERSION, ...schemes]).size).toBe(5)
  })

  test('an unreadable pointer is an error that names it', () => {
    const policy: FingerprintPolicy = {
      headers: [],
      ignore: [],
      body: { kind: 'include', pointers: ['/a', 'b'] },
    }
    expect(compileRules(policy)).toMatchObject({ kind: 'invalid', pointer: 'b' })
  })
})

describe('no two heads meet', () => {
  // Few and short texts of possible delimiters: equal heads and shifted ones are both common.
  const text = fc.stringMatching(/^[a:%/&=\0]{0,3}$/)
  const head: fc.Arbitrary<RequestHead> = fc.record({
    tenant: text,
    env: text,
    apiVersion: text,
    principal: text,
    method: fc.constantFrom('POST', 'PUT'),
    path: text,
    query: fc.option(fc.stringMatching(/^[ab%6152&=+]{0,6}$/), { nil: undefined }),
    headers: fc.constant([]),
  })
  const shifted = head.map((one): [RequestHead, RequestHead] => [
    one,
    { ...one, tenant: one.env, env: one.tenant },
  ])
  const pairs = fc.oneof(
    fc.tuple(head, head),
    shifted,
    fc.tuple(head, head).map(([a, b]): [RequestHead, RequestHead] => [a, { ...a, query: b.query }]),
  )

  test('two heads have one fingerprint exactly when each part is equal, the query as a reader of queries sees it', async () => {
    await fc.assert(
      fc.asyncProperty(pairs, async ([a, b]) => {
        const equal = (one: RequestHead) => JSON.stringify({ ...one, query: queryMeaning(one.query) })
        expect((await hashOf(a, '')) === (await hashOf(b, ''))).toBe(equal(a) === equal(b))
      }),
      { numRuns: 3_000 },
    )
  })

  /** For each name as an application reads it, its parameters in order with unreserved characters plain. */
  function queryMeaning(query: string | undefined): unknown {
    if (query === undefined) return null
    const byName = new Map<string, string[]>()
    for (const piece of query.split('&')) {
      const name = new URLSearchParams(piece.split('=')[0]!.replace(/%(?![0-9a-f]{2})/gi, '%25')).keys()
      const key = [...name][0] ?? ''
      // In this alphabet the escapes of unreserved characters are those of letters and digits.
      const plain = /%(?![0-9a-f]{2})/i.test(piece)
        ? piece
        : piece.replace(/%[0-9a-f]{2}/gi, (code) => {
            const char = decodeOne(code)
            return /[\w.~-]/.test(char) ? char : code
          })
      byName.set(key, [...(byName.get(key) ?? []), plain])
    }
    return [...byName].sort(([a], [b]) => (a < b ? -1 : 1))
  }

  function decodeOne(code: string): string {
    return Buffer.from(code.slice(1), 'hex').toString('latin1')
  }

  test('frames of different lists differ, and can be taken apart again', () => {
    const lists = fc.array(fc.uint8Array({ maxLength: 3 }), { maxLength: 4 })
    fc.assert(
      fc.property(lists, (parts) => {
        expect(unframe(frame(parts))?.map((part) => [...part])).toEqual(parts.map((part) => [...part]))
      }),
    )
    expect(unframe(Buffer.from('00'))).toBeUndefined()
    expect(unframe(Buffer.from('ffffffffffffffff00', 'hex'))).toBeUndefined()
  })

  test('the frame of byte texts is that of their bytes, whatever their length', () => {
    const bytes = fc.uint8Array({ maxLength: 3 }).map((part) => Buffer.from(part))
    const long = fc
      .constantFrom(255, 256, 257, 65_536, 16_777_216)
      .map((length) => Buffer.alloc(length, 0xe9))
    const lists = fc.array(fc.oneof({ weight: 20, arbitrary: bytes }, { weight: 1, arbitrary: long }), {
      maxLength: 4,
    })
    fc.assert(
      fc.property(lists, (parts) => {
        const texts = parts.map((part) => part.toString('latin1'))
        expect(bytesOf(frameText(texts)).equals(frame(parts))).toBe(true)
      }),
    )
  })

  test('a byte text of UTF-8 has the bytes of UTF-8; a lone surrogate has none', () => {
    for (const text of ['', 'a', '\u007f', '\u0080', 'Zo\u00eb', '\u20ac', '\ud83d\ude00'])
      expect(bytesOf(utf8Text(text)!)).toEqual(Buffer.from(text, 'utf8'))
    expect(utf8Text('a\ud83d')).toBeUndefined()
  })
})

describe('limits and refusals', () => {
  test('a body of the limit is fingerprinted, one byte more is refused with both numbers', async () => {
    const full = new Uint8Array(BODY_BYTES_MAX)
    expect((await fingerprint(HEAD, full)).kind).toBe('fingerprint')
    expect(await fingerprint(HEAD, new Uint8Array(BODY_BYTES_MAX + 1))).toEqual({
      kind: 'body_too_large',
      limitBytes: 1_048_576,
      actualBytes: 1_048_577,
    })
  })

  test('a decompression bomb is not unpacked beyond the limit, and is compared as it came', async () => {
    const bomb = gzipSync(Buffer.alloc(DECODED_BYTES_MAX + 1))
    expect(bomb.length).toBeLessThan(DECODED_BYTES_MAX / 500)
    const { body } = await fingerprintOf(gzipped('')[0], bomb)
    expect(body).toMatchObject({ form: 'bytes', codings: ['gzip'], doubt: { reason: 'decoded_too_large' } })
    expect(body.canonical).toHaveLength(bomb.length)
  })

  test.each<[component: string, head: Partial<RequestHead>]>([
    ['tenant', { tenant: '\ud800' }],
    ['principal', { principal: '\udfff' }],
    ['path', { path: '/\u0161' }],
    ['method', { method: 'PO\u212aT' }],
    ['query', { query: 'a=\u20ac' }],
    ['media_type', { headers: [['content-type', 'text/\u212a']] }],
    ['codings', { headers: [['content-encoding', 'bro\u212aen']] }],
  ])('text that no wire carries is refused, not cut to other bytes: %s', async (component, difference) => {
    expect(await fingerprint({ ...HEAD, ...difference }, new Uint8Array())).toEqual({
      kind: 'not_text',
      component,
    })
  })

  test('the limits are frozen', () => {
    expect(Object.isFrozen(DEFAULT_LIMITS) && Object.isFrozen(DEFAULT_RULES)).toBe(true)
  })

  test('a fingerprint never rejects, whatever the headers and the bytes', async () => {
    const value = fc.oneof(
      fc.constantFrom(
        'application/json',
        'multipart/form-data; boundary=X',
        'gzip',
        'br',
        'deflate, gzip',
        'zstd',
      ),
      fc.constantFrom(
        'application/x-www-form-urlencoded',
        'sha-256=:AAAA:',
        'sha-256',
        '"',
        ';;',
        'a/b;c="\\',
      ),
      fc.string({ unit: 'binary' }),
    )
    const name = fc.constantFrom('content-type', 'content-encoding', 'content-digest')
    const body = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.string().map((text) => Buffer.from(text)),
      fc.string().map((text) => gzipSync(text)),
      fc.string().map((text) => Buffer.from(`--X\r\n${text}\r\n--X--`)),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, value), { maxLength: 4 }), body, async (headers, bytes) => {
        expect(await fingerprint({ ...HEAD, headers }, bytes)).toHaveProperty('kind')
      }),
      { numRuns: 2_000 },
    )
  })
})

function rulesOf(policy: FingerprintPolicy) {
  const compiled = compileRules(policy)
  if (compiled.kind === 'invalid') throw new Error(compiled.detail)
  return compiled.rules
}
