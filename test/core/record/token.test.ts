import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import {
  formatToken,
  millisecondOf,
  NO_TOKEN,
  parseToken,
  TokenSource,
  tokenAt,
} from '../../../src/core/record/token.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
/** Its monotonic clock stands still. */
const clockAt = (wallMs: () => number): Clock => ({
  wallMs,
  monoMs: () => 0,
  timer: () => ({ cancel: () => {} }),
})
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
        const source = new TokenSource(clockAt(() => wallMs))
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
    const source = new TokenSource(clockAt(() => NOW_MS))
    expect(source.next()).toBe(tokenAt(NOW_MS))
    expect(source.next()).toBe(tokenAt(NOW_MS) + 1)
    const seen = tokenAt(NOW_MS) + 500
    const above = source.next(seen)
    expect(above).toBeGreaterThan(seen)
    expect(above).toBeLessThanOrEqual(seen + 1024)
    expect(source.next(5)).toBe(above + 1)
  })
  test('two processes propose different tokens in one millisecond, also above the same fence', () => {
    const [one, other] = [0.25, 0.75].map(
      (share) =>
        new TokenSource(
          clockAt(() => NOW_MS),
          share,
        ),
    )
    expect(one?.next()).not.toBe(other?.next())
    const fence = tokenAt(NOW_MS + 5) + 700
    expect(one?.next(fence)).not.toBe(other?.next(fence))
    expect(millisecondOf(one?.next() ?? 0) - NOW_MS).toBeLessThanOrEqual(6)
  })
  test('proposed tokens stay near the time of nodes that found our clock ahead', () => {
    let wallMs = NOW_MS + 3_600_000
    const source = new TokenSource(clockAt(() => wallMs))
    source.next()
    source.rewindTo(NOW_MS)
    expect(source.next()).toBe(tokenAt(NOW_MS) + 1)
    wallMs += 10
    expect(source.next()).toBe(tokenAt(NOW_MS + 10))
  })
  describe('after nodes found our clock ahead', () => {
    const rewound = async () => {
      const clock = new VirtualClock(NOW_MS + 60_000)
      const source = new TokenSource(clock)
      source.next()
      source.rewindTo(NOW_MS)
      await clock.advance(1_000)
      expect(source.next()).toBe(tokenAt(NOW_MS + 1_000))
      return { clock, source }
    }
    test('tokens are at our clock again as soon as it is set right', async () => {
      const { clock, source } = await rewound()
      clock.stepWall(-60_000)
      await clock.advance(1)
      expect(source.next()).toBe(tokenAt(NOW_MS + 1_001))
    })
    test('tokens do not fall behind by the time in which our machine was suspended', async () => {
      const { clock, source } = await rewound()
      clock.stepWall(30_000)
      expect(source.next()).toBe(tokenAt(NOW_MS + 31_000))
    })
    test('tokens catch up with the nodes where both of our clocks were slowed down until they were right', async () => {
      const { clock, source } = await rewound()
      await clock.advance(540_000)
      expect(source.next()).toBe(tokenAt(NOW_MS + 541_000))
      source.catchUpWith(() => NOW_MS + 601_000)
      expect(source.next()).toBe(tokenAt(NOW_MS + 601_000))
      // Late answers of an earlier round.
      source.catchUpWith(() => NOW_MS + 599_000)
      await clock.advance(1)
      expect(source.next()).toBe(tokenAt(NOW_MS + 601_001))
    })
    test('tokens never follow the nodes beyond our clock', async () => {
      const { clock, source } = await rewound()
      source.catchUpWith(() => NOW_MS + 600_000)
      expect(source.next()).toBe(tokenAt(clock.wallMs()))
    })
    test('tokens increase, whatever our clock does and the nodes show', () => {
      const steps = fc.array(
        fc.record({ stepMs: fc.integer({ min: -10_000, max: 10_000 }), nodesMs: fc.nat(20_000) }),
      )
      fc.assert(
        fc.property(steps, (taken) => {
          let wallMs = NOW_MS + 5_000
          const source = new TokenSource(clockAt(() => wallMs))
          source.rewindTo(NOW_MS)
          let last = NO_TOKEN
          return taken.every(({ stepMs, nodesMs }) => {
            wallMs += stepMs
            source.catchUpWith(() => NOW_MS + nodesMs)
            const next = source.next()
            const larger = next > last
            last = next
            return larger
          })
        }),
      )
    })
  })
  test('a node that is ahead of us does not lower proposed tokens', () => {
    const source = new TokenSource(clockAt(() => NOW_MS))
    const first = source.next()
    source.rewindTo(NOW_MS + 60_000)
    expect(source.next()).toBe(first + 1)
  })
})
