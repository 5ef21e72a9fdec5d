import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson } from '../../src/core/canonical-json.ts'
import { canonicalNumber } from '../../src/core/decimal.ts'
import { JSON_DEPTH_MAX, JSON_VALUES_MAX } from '../../src/core/json.ts'
import { meaningOf } from '../support/exact-json.ts'
import { hashOf, JSON_HEAD } from '../support/requests.ts'

// The vectors in test/vectors/canonical-json.json are the table; here is what a table cannot show.

const canonical = (text: string) => canonicalJson(Buffer.from(text, 'utf8'))

/** Spellings that are often, and often nearly, one number. */
const numbers = fc.oneof(
  fc.constantFrom(
    ...[
      '0',
      '0.0',
      '-0',
      '-0.0',
      '1',
      '1.0',
      '1e0',
      '10e-1',
      '0.1e1',
      '-1',
      '0.1',
      '1e-1',
      '0.10',
      '1e2',
      '100',
    ],
    ...[
      '9007199254740991',
      '9007199254740992',
      '9007199254740993',
      '9007199254740992.0',
      '9.007199254740993e15',
    ],
    ...['1e23', '100000000000000000000000', '99999999999999991611392', '1e400', '10e399', '1e-400', '5e-324'],
    ...['4.9e-324', '1.7976931348623157e308', '1.7976931348623158e308', '0.30000000000000004', '0.3'],
  ),
  fc.tuple(fc.integer({ min: -50, max: 50 }), fc.integer({ min: -3, max: 3 })).map(([n, e]) => `${n}e${e}`),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  fc.stringMatching(/^-?[1-9][0-9]{0,24}(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?$/),
)

/** Spellings of a few strings, so that names meet each other and themselves. */
const strings = fc.oneof(
  fc.constantFrom('"a"', '"\\u0061"', '"b"', '"\\/"', '"/"', '"\\n"', '"\\u000A"', '"\\ud800"', '"\\udc00"'),
  fc.constantFrom('"\\ud83d\\ude00"', '"😀"', '"é"', '"e\\u0301"', '"__proto__"', '""', '"1"', '"\\u20ac"'),
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
)

const space = fc.constantFrom('', '', ' ', '\n', '\t', '\r\n ')
const joined = (parts: readonly string[], gap: string) => parts.join(`${gap},`)

const { document } = fc.letrec<{ document: string; array: string; object: string }>((tie) => ({
  document: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false'),
    numbers,
    strings,
    tie('array'),
    tie('object'),
  ),
  array: fc
    .tuple(fc.array(tie('document'), { maxLength: 4 }), space)
    .map(([items, gap]) => `[${gap}${joined(items, gap)}${gap}]`),
  object: fc.tuple(fc.array(fc.tuple(strings, tie('document')), { maxLength: 4 }), space).map(
    ([members, gap]) =>
      `{${gap}${joined(
        members.map((member) => member.join(`${gap}:`)),
        gap,
      )}${gap}}`,
  ),
}))

/** The same document again or another one; and the same members in another order, spelt in another way. */
const pairs = fc.oneof(
  fc.tuple(document, document),
  document.map((text) => [text, respelt(text)] as const),
  fc.tuple(numbers, numbers).map(([a, b]) => [`{"n":${a}}`, `{ "n" : ${b} }`] as const),
  fc
    .array(fc.tuple(strings, numbers), { maxLength: 5 })
    .map((members) => [members, members.toReversed()].map((list) => `{${list.map((m) => m.join(':'))}}`))
    .map(([a, b]) => [a!, b!] as const),
)

/** Through the platform's own reader and writer, which merges what is lossy: a spelling that is equal only sometimes. */
function respelt(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 1)
}

test('two documents have one fingerprint exactly when they mean the same, or are the same bytes where that is lossy', async () => {
  await fc.assert(
    fc.asyncProperty(pairs, async ([a, b]) => {
      const [first, second] = [meaningOf(a), meaningOf(b)]
      const expected =
        first.lossless && second.lossless
          ? first.text === second.text
          : Buffer.from(a, 'utf8').equals(Buffer.from(b, 'utf8'))
      expect((await hashOf(JSON_HEAD, a)) === (await hashOf(JSON_HEAD, b))).toBe(expected)
    }),
    { numRuns: 3_000 },
  )
})

test('a canonical text is canonical, is what was meant, and is refused exactly where something is lost', () => {
  fc.assert(
    fc.property(document, (text) => {
      const result = canonical(text)
      const meaning = meaningOf(text)
      expect(result.kind).toBe(meaning.lossless ? 'canonical' : 'raw')
      if (result.kind === 'raw') return
      expect(meaningOf(result.text).text).toBe(meaning.text)
      expect(canonical(result.text)).toEqual(result)
    }),
    { numRuns: 3_000 },
  )
})

test('the reader accepts exactly what the platform accepts', () => {
  const nearly = fc.tuple(document, fc.nat(), fc.string({ maxLength: 2 })).map(([text, at, inserted]) => {
    const position = at % (text.length + 1)
    return text.slice(0, position) + inserted + text.slice(position + (at % 2))
  })
  fc.assert(
    fc.property(fc.oneof(nearly, fc.string()), (text) => {
      // Cutting may have left half of a surrogate pair, which UTF-8 cannot carry.
      fc.pre(text.isWellFormed() && !text.startsWith('\ufeff'))
      const result = canonical(text)
      const refused = result.kind === 'raw' && result.reason === 'syntax'
      expect(refused).toBe(!isJson(text))
    }),
    { numRuns: 5_000 },
  )
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

test('every double is its own canonical number', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (double) => {
      fc.pre(!Object.is(double, -0))
      expect(canonicalNumber(String(double))).toEqual({ kind: 'lossless', text: String(double) })
    }),
  )
})

test.each<[name: string, text: string, reason: string]>([
  ['100,000 arrays in each other', '['.repeat(100_000), 'too_deep'],
  ['100,000 objects in each other', '{"a":'.repeat(100_000), 'too_deep'],
  [
    'a million members',
    `{${Array.from({ length: 1_000_000 }, (_, index) => `"${index}":0`).join(',')}}`,
    'too_many_values',
  ],
  ['a million digits', '7'.repeat(1_000_000), 'number_not_exact'],
  ['a million zeros behind a point', `0.${'0'.repeat(1_000_000)}1`, 'number_not_exact'],
  ['a million digits of exponent', `1e${'9'.repeat(1_000_000)}`, 'number_not_exact'],
  ['a million quotes', '"'.repeat(1_000_001), 'syntax'],
  ['a million backslashes', `"${'\\'.repeat(1_000_000)}`, 'syntax'],
])('%s: compared byte for byte, and nothing is thrown', (_name, text, reason) => {
  expect(canonical(text)).toMatchObject({ kind: 'raw', reason })
})

test('a million zeros around a number change nothing', () => {
  const zeros = '0'.repeat(1_000_000)
  expect(canonical(`1${zeros}e-1000000`)).toEqual({ kind: 'canonical', text: '1' })
  expect(canonical(`0.${zeros}1e1000001`)).toEqual({ kind: 'canonical', text: '1' })
})

test('the limits are where their names say', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  expect(canonical(nested(JSON_DEPTH_MAX)).kind).toBe('canonical')
  expect(canonical(nested(JSON_DEPTH_MAX + 1))).toMatchObject({
    reason: 'too_deep',
    detail: expect.stringContaining('64'),
  })
  expect(canonical(`[${new Array(JSON_DEPTH_MAX).fill('[],{}')}]`).kind).toBe('canonical')
  // The array itself is one value.
  const flat = (items: number) => `[${new Array(items).fill(0)}]`
  expect(canonical(flat(JSON_VALUES_MAX - 1)).kind).toBe('canonical')
  expect(canonical(flat(JSON_VALUES_MAX))).toMatchObject({
    reason: 'too_many_values',
    detail: expect.stringContaining('100000'),
  })
})
