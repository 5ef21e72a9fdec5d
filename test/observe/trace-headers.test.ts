// The headers of a trace: whether it is recorded, and what the application gets.
import { describe, expect, test } from 'vitest'
import { inheritedOr, isRecorded, withTrace } from '../../src/observe/trace-headers.ts'
import { seededRandom, seedOfRun } from '../support/seeded-random.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const random = seededRandom(seedOfRun('trace headers'))

describe('whether a request is recorded', () => {
  const never = { sampleRatio: 0, random }
  const always = { sampleRatio: 1, random }
  test.each<[why: string, traceparent: string | undefined, options: typeof never, recorded: boolean]>([
    ['its caller records it', `00-${TRACE}-${PARENT}-01`, never, true],
    ['its caller does not', `00-${TRACE}-${PARENT}-00`, always, false],
    ['only the lowest flag says so', `00-${TRACE}-${PARENT}-02`, always, false],
    ['a later version has more behind the flags', `cc-${TRACE}-${PARENT}-01-more`, never, true],
    ['it begins here: our share decides', undefined, always, true],
    ['the same, of none', undefined, never, false],
    ['a trace of zeros is none', `00-${'0'.repeat(32)}-${PARENT}-00`, always, true],
    ['a version that is forbidden is none', `ff-${TRACE}-${PARENT}-00`, always, true],
    ['text that is no trace is none', 'nonsense', always, true],
    ['the first version has nothing behind the flags', `00-${TRACE}-${PARENT}-01-more`, never, false],
  ])('%s', (_, traceparent, options, recorded) => {
    expect(isRecorded(traceparent, options)).toBe(recorded)
  })

  test('of many traces that begin here a hundredth is recorded', () => {
    let recorded = 0
    for (let i = 0; i < 100_000; i += 1)
      if (isRecorded(undefined, { sampleRatio: 0.01, random })) recorded += 1
    expect(recorded).toBeGreaterThan(800)
    expect(recorded).toBeLessThan(1_200)
  })
})

describe('without recording the application gets', () => {
  const sent = (headers: readonly (readonly [string, string])[], own = {}) =>
    withTrace(headers, inheritedOr(headers, random), own)

  test('the trace of the caller, as it came', () => {
    const headers = [
      ['Traceparent', `00-${TRACE}-${PARENT}-00`],
      ['tracestate', 'vendor=1'],
      ['X-Other', 'y'],
    ] as const
    expect(sent(headers)).toEqual(headers)
  })

  test('an unrecorded trace of our own where the caller sent none or nonsense', () => {
    for (const headers of [[], [['traceparent', 'nonsense']], [['tracestate', 'vendor=1']]] as const) {
      const [[name, value] = [], ...others] = sent(headers)
      expect(name).toBe('traceparent')
      expect(value).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
      expect(others).toEqual([])
    }
  })

  test('the baggage without members that only we may set, and with ours where configured', () => {
    const headers = [['Baggage', 'user=7,fencepost.lock_id=forged']] as const
    expect(Object.fromEntries(sent(headers, { lock_id: 'a-1' }))).toMatchObject({
      baggage: 'user=7,fencepost.lock_id=a-1',
    })
    expect(sent([['baggage', 'fencepost.lock_id=forged']]).map(([name]) => name)).toEqual(['traceparent'])
  })
})
