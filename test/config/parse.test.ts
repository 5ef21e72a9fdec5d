import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { duration, file, fraction, headerName, integer, onOff, size } from '../../src/config/parse.ts'
import type { ValueKind } from '../../src/config/value.ts'
import { parseDuration, parseSize, printDuration, printSize } from '../../src/core/quantity.ts'

const noFile = () => {
  throw new Error('no such file')
}
const read = <T>(kind: Pick<ValueKind<T>, 'parse'>, text: string) => {
  const parsed = kind.parse(text, noFile)
  return parsed.kind === 'value' ? parsed.value : 'refused'
}

describe('durations', () => {
  test.each<[text: string, ms: number | undefined]>([
    ['500ms', 500],
    ['30s', 30_000],
    ['5m', 300_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['0s', 0],
    // A number without a unit is seconds to one reader and milliseconds to the next.
    ['30', undefined],
    ['', undefined],
    ['s', undefined],
    ['1.5s', undefined],
    ['-1s', undefined],
    ['+1s', undefined],
    ['1 s', undefined],
    [' 1s', undefined],
    ['1s ', undefined],
    ['1S', undefined],
    ['1min', undefined],
    ['1h30m', undefined],
    ['010s', undefined],
    ['1e3s', undefined],
    ['0x10s', undefined],
    ['١s', undefined],
    ['99999999999999999d', undefined],
  ])('%j is %s', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  test('printing and parsing gives the same number', () => {
    fc.assert(
      fc.property(fc.nat({ max: Number.MAX_SAFE_INTEGER }), (ms) => parseDuration(printDuration(ms)) === ms),
    )
  })

  test('below and above the limits they are refused', () => {
    const kind = duration({ minMs: 100, maxMs: 1_000 })
    expect(['99ms', '100ms', '1s', '1001ms'].map((text) => read(kind, text))).toEqual([
      'refused',
      100,
      1_000,
      'refused',
    ])
    expect(kind.parse('30', noFile)).toEqual({ kind: 'refused', reason: 'it has no unit' })
  })
})

describe('sizes', () => {
  test.each<[text: string, bytes: number | undefined]>([
    ['0B', 0],
    ['512B', 512],
    ['256KiB', 262_144],
    ['1MiB', 1_048_576],
    ['2GiB', 2_147_483_648],
    ['1048576', undefined],
    // 1,000 or 1,024? Only one notation says.
    ['1MB', undefined],
    ['1kb', undefined],
    ['1M', undefined],
    ['1.5MiB', undefined],
  ])('%j is %s', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes)
  })

  test('printing and parsing gives the same number', () => {
    fc.assert(
      fc.property(fc.nat({ max: Number.MAX_SAFE_INTEGER }), (bytes) => parseSize(printSize(bytes)) === bytes),
    )
  })

  test('above the limit they are refused', () => {
    expect(read(size({ minBytes: 0, maxBytes: 1_024 }), '1025B')).toBe('refused')
  })
})

test.each<[kind: Pick<ValueKind<unknown>, 'parse'>, text: string, value: unknown]>([
  [integer({ min: 0, max: 10 }), '10', 10],
  [integer({ min: 0, max: 10 }), '11', 'refused'],
  [integer({ min: 0, max: 10 }), '10abc', 'refused'],
  [integer({ min: 0, max: 10 }), '1e1', 'refused'],
  [integer({ min: 0, max: 10 }), '', 'refused'],
  [fraction(), '0.25', 0.25],
  [fraction(), '1/3', 1 / 3],
  [fraction(), '1', 1],
  [fraction(), '3/2', 'refused'],
  [fraction(), '1/0', 'refused'],
  [fraction(), '.5', 'refused'],
  [fraction(), '50%', 'refused'],
  [onOff(), 'on', true],
  [onOff(), 'off', false],
  [onOff(), 'yes', 'refused'],
  [onOff(), 'ON', 'refused'],
  [headerName(), 'X-Tenant', 'x-tenant'],
  [headerName(), 'X Tenant', 'refused'],
  [headerName(), 'x-tenant:', 'refused'],
  [file(), '/secret', 'refused'],
])('%# %j is %j', (kind, text, value) => {
  expect(read(kind, text)).toEqual(value)
})

test('shares are printed so that they are read back', () => {
  for (const text of ['0', '1', '1/3', '1/10', '0.3', '2/3']) {
    const share = read(fraction(), text)
    expect(share).not.toBe('refused')
    expect(read(fraction(), fraction().print(share as number))).toBe(share)
  }
})

test('a file is read at once, without the line break at its end, and refused where it is empty', () => {
  const files: Record<string, string> = { '/token': 'abc\n', '/empty': ' \n' }
  const readFile = (path: string) => files[path] ?? noFile()
  expect(file().parse('/token', readFile)).toEqual({
    kind: 'value',
    value: { path: '/token', content: 'abc' },
  })
  expect(file().parse('/empty', readFile)).toEqual({ kind: 'refused', reason: 'the file is empty' })
  expect(file().parse('/none', readFile)).toEqual({ kind: 'refused', reason: 'no such file' })
})
