import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson, canonicalNumber } from '../../../src/core/formats/canonical-json.ts'
import { JSON_DEPTH_MAX, JSON_VALUES_MAX } from '../../../src/core/formats/json.ts'
import { fuzzFingerprints } from '../../fuzz/fingerprints.ts'
import { document } from '../../support/arbitrary-json.ts'
import { meaningOf } from '../../support/exact-json.ts'
import { fetchProgram } from '../../support/fetched-programs.ts'

// The vectors in test/vectors/canonical-json.json are the table; these are the properties that a table cannot show.

const canonical = (text: string) => canonicalJson(Buffer.from(text, 'utf8'))

/** `values.json` has a number that the standard rounds (333333333.33333329): two that it makes one are two here. */
test('the published test data of RFC 8785: each output byte for byte, but for the number that it would change', async () => {
  const data = await fetchProgram('jsonCanonicalization')
  const read = (folder: string, file: string) => readFileSync(join(data, folder, file))
  const results = readdirSync(join(data, 'input')).map((file) => {
    const result = canonicalJson(read('input', file))
    return result.kind === 'raw'
      ? `${file}: ${result.reason}`
      : Buffer.from(result.text).equals(read('output', file))
  })
  expect(results.toSorted()).toEqual([true, true, true, true, true, 'values.json: number_not_exact'])
})

test('two documents have one fingerprint exactly when they mean the same, or are the same bytes where that is lossy', async () => {
  await fuzzFingerprints({ pairs: 3_000 })
})

test('a canonical text is its own canonical text and keeps the meaning; a lossy text is refused', () => {
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
])('%s: compared byte for byte, without an exception', (_name, text, reason) => {
  expect(canonical(text)).toMatchObject({ kind: 'raw', reason })
})

test('a million zeros around a number do not change it', () => {
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
