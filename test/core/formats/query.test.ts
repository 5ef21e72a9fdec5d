import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  canonicalQuery,
  percentDecode,
  QUERY_PARAMETERS_MAX,
  queryValues,
} from '../../../src/core/formats/query.ts'

// The vectors in test/vectors/query.json are the table of canonical texts.

test.each<[text: string, decoded: string]>([
  ['a+b%20c', 'a b c'],
  ['%41%7a%7E', 'Az~'],
  ['%c3%A9', '\xc3\xa9'],
  ['%', '%'],
  ['%4', '%4'],
  ['%4g%g4%@1%`1', '%4g%g4%@1%`1'],
  ['%%41', '%A'],
  ['%2541', '%41'],
  ['\xff', '\xff'],
  ['š%41', 'š%41'],
])('%j is decoded to %j', (text, decoded) => {
  expect(percentDecode(text)).toBe(decoded)
})

test.each<[query: string, values: readonly string[]]>([
  ['id=5&x=1', ['5']],
  ['x=1;id=5', ['5']],
  ['id=5&x=1;y=2', ['5']],
  ['id=5;x=1', ['5;x=1', '5']],
  ['id=5%3Bx', ['5%3Bx']],
])('the values of id in %j, also to who takes ; for a divider: %j', (query, values) => {
  expect(queryValues(query, 'id')).toEqual(values)
})

test('decoding undoes the escapes of every byte', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const text = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
      expect(percentDecode(text)).toBe(Buffer.from(bytes).toString('latin1'))
    }),
  )
})

test('a canonical query is its own canonical query', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[ab%6152&=+]{0,12}$/), (query) => {
      const once = canonicalQuery(query)
      if (once.kind !== 'sorted' || /%(?![0-9a-f]{2})/i.test(query)) return
      expect(canonicalQuery(once.text)).toEqual(once)
    }),
  )
})

test('10,000 parameters are sorted, 10,001 stay as they came', () => {
  const query = (parameters: number) => ['z=1', ...new Array(parameters - 1).fill('a=1')].join('&')
  expect(canonicalQuery(query(QUERY_PARAMETERS_MAX))).toMatchObject({ kind: 'sorted' })
  const longer = query(QUERY_PARAMETERS_MAX + 1)
  expect(canonicalQuery(longer)).toEqual({ kind: 'verbatim', text: longer })
})
