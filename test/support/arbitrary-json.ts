/** JSON texts that are often, and often nearly, the same: for tests that compare their meaning. */
import fc from 'fast-check'

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

/** Spellings of a few strings, so that names repeat. */
const strings = fc.oneof(
  fc.constantFrom('"a"', '"\\u0061"', '"b"', '"\\/"', '"/"', '"\\n"', '"\\u000A"', '"\\ud800"', '"\\udc00"'),
  fc.constantFrom('"\\ud83d\\ude00"', '"😀"', '"é"', '"e\\u0301"', '"__proto__"', '""', '"1"', '"\\u20ac"'),
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
)

const space = fc.constantFrom('', '', ' ', '\n', '\t', '\r\n ')
const joined = (parts: readonly string[], gap: string) => parts.join(`${gap},`)

export const { document } = fc.letrec<{ document: string; array: string; object: string }>((tie) => ({
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
export const pairs = fc.oneof(
  fc.tuple(document, document),
  document.map((text) => [text, respelt(text)] as const),
  fc.tuple(numbers, numbers).map(([a, b]) => [`{"n":${a}}`, `{ "n" : ${b} }`] as const),
  fc
    .array(fc.tuple(strings, numbers), { maxLength: 5 })
    .map((members) => [members, members.toReversed()].map((list) => `{${list.map((m) => m.join(':'))}}`))
    .map(([a, b]) => [a!, b!] as const),
)

/** Through the platform's own reader and writer, which is lossy: the meaning is equal only sometimes. */
function respelt(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 1)
}
