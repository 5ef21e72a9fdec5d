/**
 * A charset of utf-8 on JSON makes no difference, whatever the body, and no other charset is ever taken for it.
 * The vectors in test/vectors/content-type.json are the table of header values; here are the bodies around them.
 *
 * Source: RFC 8259, sections 8.1 and 11; RFC 4627, section 3, for how readers detect UTF-16 and UTF-32.
 */
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalJson, isJsonText } from '../../../src/core/formats/canonical-json.ts'
import { JSON_DEPTH_MAX, JSON_VALUES_MAX } from '../../../src/core/formats/json.ts'
import { compileRules } from '../../../src/core/request/fingerprint.ts'
import type { FingerprintPolicy } from '../../../src/core/routes/route.ts'
import { pairs } from '../../support/arbitrary-json.ts'
import { fingerprintOf, hashOf, headOf, JSON_HEAD } from '../../support/requests.ts'

const UTF8_HEAD = headOf('application/json; charset=utf-8')
const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

test('two JSON bodies are one with the charset on one of them exactly when they are one without it', async () => {
  await fc.assert(
    fc.asyncProperty(pairs, async ([a, b]) => {
      const same = (await hashOf(JSON_HEAD, a)) === (await hashOf(JSON_HEAD, b))
      expect((await hashOf(JSON_HEAD, a)) === (await hashOf(UTF8_HEAD, b))).toBe(same)
    }),
    { numRuns: 1_000 },
  )
})

test('a JSON text in UTF-16 or UTF-32 is never taken for one in UTF-8', () => {
  const encodings: readonly ((text: string) => Buffer)[] = [
    (text) => Buffer.from(text, 'utf16le'),
    (text) => Buffer.from(text, 'utf16le').swap16(),
    (text) => utf32(text),
    (text) => utf32(text).swap32(),
  ]
  fc.assert(
    fc.property(fc.json({ stringUnit: 'binary' }), fc.constantFrom(...encodings), (text, encode) => {
      expect(isJsonText(canonicalJson(encode(text)))).toBe(false)
    }),
    { numRuns: 1_000 },
  )
})

describe('a request with and one without the charset', () => {
  const SAME = true
  const OTHER = false
  const gzip = (type: string) => headOf(type, ['Content-Encoding', 'gzip'])
  const unknown = (type: string) => headOf(type, ['Content-Encoding', 'lzma'])

  test.each<[what: string, head: typeof headOf, body: string | Uint8Array, same: boolean]>([
    ['JSON', headOf, '{"a":1}', SAME],
    ['JSON with a lone surrogate, compared byte for byte', headOf, '"\\ud800"', SAME],
    ['JSON with minus zero, compared byte for byte', headOf, '-0', SAME],
    ['JSON in gzip', gzip, gzipSync('{"a":1}'), SAME],
    ['no bytes in gzip', gzip, gzipSync(''), SAME],
    // Whatever was not read to its end may be other text for a reader that guesses.
    ['what is no JSON in gzip', gzip, gzipSync('{'), OTHER],
    ['bytes that are no gzip', gzip, '{"a":1}', OTHER],
    ['a coding that is not known', unknown, '{"a":1}', OTHER],
    ['JSON of the depth limit', headOf, deep(JSON_DEPTH_MAX), SAME],
    ['JSON deeper than the limit', headOf, deep(JSON_DEPTH_MAX + 1), OTHER],
    ['JSON with as many values as the limit', headOf, `[${Array(JSON_VALUES_MAX - 1).fill(1)}]`, SAME],
    ['JSON with one value more', headOf, `[${Array(JSON_VALUES_MAX).fill(1)}]`, OTHER],
  ])('%s', async (_what, head, body, same) => {
    const [plain, charset] = [head('application/json'), head('application/json; charset=utf-8')]
    expect((await hashOf(plain, body)) === (await hashOf(charset, body))).toBe(same)
  })

  test('under another charset the body is compared byte for byte', async () => {
    const latin = headOf('application/json; charset=iso-8859-1')
    expect(await fingerprintOf(latin, '{"a":1}')).toMatchObject({ body: { form: 'bytes' } })
    expect(await hashOf(latin, '{"a":1}')).toBe(await hashOf(latin, '{"a":1}'))
    expect(await hashOf(latin, '{"a":1}')).not.toBe(await hashOf(latin, '{"a": 1}'))
  })

  test.each<[rules: string, policy: FingerprintPolicy, same: boolean]>([
    [
      'a part of the body is excluded',
      { headers: [], ignore: [], body: { kind: 'exclude', pointers: ['/a'] } },
      SAME,
    ],
    [
      'a part of the body is included',
      { headers: [], ignore: [], body: { kind: 'include', pointers: ['/a'] } },
      SAME,
    ],
    [
      'no included part is there',
      { headers: [], ignore: [], body: { kind: 'include', pointers: ['/b'] } },
      SAME,
    ],
    // The operator chose the lines of this header, so they are compared as they came.
    [
      'Content-Type is one of the chosen headers',
      { headers: ['content-type'], ignore: [], body: { kind: 'all' } },
      OTHER,
    ],
  ])('rules: %s', async (_rules, policy, same) => {
    const compiled = compileRules(policy)
    if (compiled.kind === 'invalid') return expect.fail(compiled.detail)
    const [one, other] = [
      await fingerprintOf(JSON_HEAD, '{"a":1,"c":2}', compiled.rules),
      await fingerprintOf(UTF8_HEAD, '{"a":1,"c":2}', compiled.rules),
    ]
    expect(one.hash === other.hash).toBe(same)
  })
})

/** Little-endian. */
function utf32(text: string): Buffer {
  const points = [...text].map((character) => character.codePointAt(0)!)
  const bytes = Buffer.alloc(4 * points.length)
  for (const [index, point] of points.entries()) bytes.writeUInt32LE(point, 4 * index)
  return bytes
}
