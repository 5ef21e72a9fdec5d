// Two requests are the same when their JSON means the same; values that JSON cannot carry are refused.
import { expect, test } from 'vitest'
import { canonicalJson, derivedKey, requestHash } from '../../packages/saga/src/request-hash.ts'

test.each<[unknown, string]>([
  [{ b: 1, a: 2 }, '{"a":2,"b":1}'],
  [{ a: { d: [3, { z: 0, y: -0 }], c: null } }, '{"a":{"c":null,"d":[3,{"y":0,"z":0}]}}'],
  // RFC 8785, section 3.2.3: sorted by UTF-16 code units, so that U+1F600 (D83D…) comes before U+FB33.
  [{ '\u{fb33}': 1, '\u{1f600}': 2, '\u20ac': 3 }, '{"€":3,"😀":2,"\u{fb33}":1}'],
  [[1e21, 1e-7, 4.5, 0.000001], '[1e+21,1e-7,4.5,0.000001]'],
  [{ at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
  [{ a: undefined, b: 1 }, '{"b":1}'],
  [JSON.parse('{"__proto__":1,"a":2}'), '{"__proto__":1,"a":2}'],
  ['"\\\n\u0007', '"\\"\\\\\\n\\u0007"'],
])('%j', (value, text) => {
  expect(canonicalJson(value)).toBe(text)
})

test.each<[string, unknown]>([
  ['undefined', undefined],
  ['undefined in an array', [undefined]],
  ['a BigInt', { amount: 1n }],
  ['NaN', Number.NaN],
  ['a lone surrogate', '\ud800'],
  ['a Map', new Map()],
  ['a function', { f: () => 1 }],
])('%s is refused', (_, value) => {
  expect(() => requestHash(value)).toThrow(/may not contain/)
})

test('nesting is bounded by a number and not by the stack', () => {
  let deep: unknown = 1
  for (let level = 0; level < 100_000; level += 1) deep = [deep]
  expect(() => requestHash(deep)).toThrow('at most 200 levels')
})

test('derived keys of different lists differ', () => {
  expect(derivedKey(['ab', 'c'])).not.toBe(derivedKey(['a', 'bc']))
  expect(derivedKey(['ab', 'c'])).toBe(derivedKey(['ab', 'c']))
})
