import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FORM_PAIRS_MAX, readUrlencodedForm } from '../../../src/core/request/body-form.ts'

const read = (text: string) => readUrlencodedForm(Buffer.from(text, 'latin1'))

test.each<[body: string, pairs: [string, string][]]>([
  ['', []],
  [
    'a=1&b=2',
    [
      ['a', '1'],
      ['b', '2'],
    ],
  ],
  [
    'a=1&a=1',
    [
      ['a', '1'],
      ['a', '1'],
    ],
  ],
  ['a+b=%20+%2B', [['a b', '  +']]],
  ['a=b=c', [['a', 'b=c']]],
  ['=', [['', '']]],
  ['%3D=%26', [['=', '&']]],
  [
    'a=%c3%A9&b=%C3%a9',
    [
      ['a', '\xc3\xa9'],
      ['b', '\xc3\xa9'],
    ],
  ],
  ['a=%2541', [['a', '%41']]],
])('%j', (body, pairs) => {
  expect(read(body)).toEqual({ kind: 'pairs', pairs })
})

test.each([
  ['a', 'piece_without_value'],
  ['a=1&', 'piece_without_value'],
  ['&', 'piece_without_value'],
  ['a=%', 'broken_escape'],
  ['a=%4', 'broken_escape'],
  ['%zz=1', 'broken_escape'],
  // Bug: `a=1;b=2` was one with `a=1%3Bb=2`, and is two values for Perl and older Python; a NUL at the end is none for Rack.
  ['a=1;b=2', 'unescaped_byte'],
  ['a=1\0', 'unescaped_byte'],
  ['a=1\r\n', 'unescaped_byte'],
  ['a=\xc3\xa9', 'unescaped_byte'],
])('%j: compared byte for byte', (body, reason) => {
  expect(read(body)).toMatchObject({ kind: 'raw', reason })
})

test('pairs are read as the platform reads them, however they are escaped', () => {
  const char = fc.constantFrom('a', 'é', '&', '=', '+', ' ', '%', '\0', '😀')
  const word = fc.array(char, { maxLength: 4 }).map((chars) => chars.join(''))
  fc.assert(
    fc.property(fc.array(fc.tuple(word, word), { minLength: 1, maxLength: 4 }), (pairs) => {
      const utf8 = (text: string) => Buffer.from(text, 'utf8').toString('latin1')
      const expected = { kind: 'pairs', pairs: pairs.map((pair) => pair.map(utf8)) }
      expect(read(new URLSearchParams(pairs).toString())).toEqual(expected)
      expect(read(pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&'))).toEqual(expected)
    }),
  )
})

test('a form of 10,000 pairs is read, one of 10,001 is compared byte for byte', () => {
  const form = (pairs: number) => read(new Array(pairs).fill('a=1').join('&'))
  expect(form(FORM_PAIRS_MAX).kind).toBe('pairs')
  expect(form(FORM_PAIRS_MAX + 1)).toMatchObject({
    reason: 'too_many_pairs',
    detail: '10001 pairs, at most 10000',
  })
})
