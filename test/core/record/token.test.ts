import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  formatToken,
  millisecondOf,
  NO_TOKEN,
  parseToken,
  TokenSource,
  tokenAt,
} from '../../../src/core/record/token.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const token = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })

describe('a token on a node', () => {
  test('a token has sixteen digits until the year 2248', () => {
    expect(formatToken(tokenAt(NOW_MS))).toBe('1809639014400000')
    expect(formatToken(NO_TOKEN)).toBe('0'.repeat(16))
    expect(tokenAt(Date.UTC(2248, 0, 1))).toBeLessThan(Number.MAX_SAFE_INTEGER)
  })
  test('a formatted token is parsed to the same token', () => {
    fc.assert(fc.property(token, (one) => parseToken(formatToken(one)) === one))
  })
  test('tokens have the same order as text and as numbers', () => {
    fc.assert(
      fc.property(token, token, (one, other) => formatToken(one) < formatToken(other) === one < other),
    )
  })
  test('a token names its millisecond', () => {
    expect(millisecondOf(tokenAt(NOW_MS))).toBe(NOW_MS)
    expect(millisecondOf(tokenAt(NOW_MS) + 1023)).toBe(NOW_MS)
    expect(millisecondOf(tokenAt(NOW_MS) + 1024)).toBe(NOW_MS + 1)
  })
  test.each([
    '',
    '1',
    '000000000000001',
    '00000000000000001',
    '0x00000000000001',
    ' 000000000000001',
    '-000000000000001',
    '1e00000000000001',
  ])('%j is no token', (text) => {
    expect(() => parseToken(text)).toThrow('not a fencing token')
  })
  test('a token above 2^53 - 1 is refused, because it would lose digits', () => {
    expect(parseToken('9007199254740991')).toBe(Number.MAX_SAFE_INTEGER)
    expect(() => parseToken('9007199254740993')).toThrow('above 2^53 - 1')
  })
})

describe('the tokens that a process proposes', () => {
  test('proposed tokens increase, whatever the clock does', () => {
    const steps = fc.array(fc.integer({ min: -10_000, max: 10_000 }))
    fc.assert(
      fc.property(steps, (clockSteps) => {
        let wallMs = NOW_MS
        let last = NO_TOKEN
        const source = new TokenSource(() => wallMs)
        return clockSteps.every((step) => {
          wallMs += step
          const next = source.next()
          const larger = next > last
          last = next
          return larger
        })
      }),
    )
  })
  test('a proposed token is above every token seen, and near the clock', () => {
    const source = new TokenSource(() => NOW_MS)
    expect(source.next()).toBe(tokenAt(NOW_MS))
    expect(source.next()).toBe(tokenAt(NOW_MS) + 1)
    const seen = tokenAt(NOW_MS) + 500
    const above = source.next(seen)
    expect(above).toBeGreaterThan(seen)
    expect(above).toBeLessThanOrEqual(seen + 1024)
    expect(source.next(5)).toBe(above + 1)
  })
  test('two processes propose different tokens in one millisecond, also above the same fence', () => {
    const [one, other] = [0.25, 0.75].map((share) => new TokenSource(() => NOW_MS, share))
    expect(one?.next()).not.toBe(other?.next())
    const fence = tokenAt(NOW_MS + 5) + 700
    expect(one?.next(fence)).not.toBe(other?.next(fence))
    expect(millisecondOf(one?.next() ?? 0) - NOW_MS).toBeLessThanOrEqual(6)
  })
  test('proposed tokens stay near the time of nodes that found our clock ahead', () => {
    let wallMs = NOW_MS + 3_600_000
    const source = new TokenSource(() => wallMs)
    source.next()
    source.rewindTo(NOW_MS)
    expect(source.next()).toBe(tokenAt(NOW_MS) + 1)
    wallMs += 10
    expect(source.next()).toBe(tokenAt(NOW_MS + 10))
  })
  test('a node that is ahead of us does not lower proposed tokens', () => {
    const source = new TokenSource(() => NOW_MS)
    const first = source.next()
    source.rewindTo(NOW_MS + 60_000)
    expect(source.next()).toBe(first + 1)
  })
})
