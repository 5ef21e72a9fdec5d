import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  decodeOutcome,
  type StoredOutcome,
  sameContent,
  saysOtherwise,
} from '../../../src/core/record/stored-outcome.ts'
import { storedOutcomeOf } from '../../../src/core/routes/settlement.ts'
import { encodeOutcome } from '../../support/encoded-outcome.ts'

const outcome: Extract<StoredOutcome, { kind: 'response' }> = {
  kind: 'response',
  status: 201,
  headers: [
    ['Content-Type', 'application/json'],
    ['X-Note', 'Grüße\tund mehr'],
  ],
  body: Buffer.from('{"id":1}'),
  completedAtWallMs: 1_767_225_600_000,
}

describe('an outcome comes back as it was', () => {
  test.each<[string, StoredOutcome]>([
    ['a response', outcome],
    ['a response without headers or body', { ...outcome, headers: [], body: Buffer.alloc(0) }],
    ['a response with every byte', { ...outcome, body: Buffer.from([...Array(256).keys()]) }],
    ['a tombstone', { kind: 'tombstone', status: 200, completedAtWallMs: 1 }],
    ['a tombstone with a location', { kind: 'tombstone', status: 303, location: '/a', completedAtWallMs: 1 }],
    ['a result', { kind: 'result', result: { deep: [1, null, 'ü'] }, completedAtWallMs: 1 }],
    ['a result that is null', { kind: 'result', result: null, completedAtWallMs: 1 }],
  ])('%s', (_, stored) => {
    expect(decodeOutcome(encodeOutcome(stored))).toEqual({ kind: 'intact', outcome: stored })
  })

  test('an outcome is encoded to the same bytes every time, so that nodes can compare it', () => {
    expect(
      encodeOutcome(outcome).equals(encodeOutcome({ ...outcome, body: Buffer.from(outcome.body) })),
    ).toBe(true)
  })
})

/** When it ends: at no time. */
const NEVER = Buffer.alloc(10, 0xff)

/** Forged bytes with a digest that fits. */
function forged(head: unknown, body = ''): Buffer {
  const headBytes = Buffer.from(typeof head === 'string' ? head : JSON.stringify(head))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(headBytes.length)
  const rest = Buffer.concat([NEVER, length, headBytes, Buffer.from(body)])
  return Buffer.concat([Buffer.of(1), createHash('sha256').update(rest).digest(), rest])
}

describe('damage is refused with its reason, and never replayed in part', () => {
  const bytes = encodeOutcome(outcome)
  const head = { kind: 'response', status: 201, headers: [], completedAtWallMs: 1 }

  test('the forger of these tests knows the format', () => {
    expect(decodeOutcome(forged(head, 'body')).kind).toBe('intact')
  })

  test.each<[what: string, damaged: Buffer, reason?: string]>([
    ['no bytes', Buffer.alloc(0), '0 bytes, at least 47 expected'],
    ['cut within the digest', bytes.subarray(0, 20), '20 bytes'],
    ['cut within the head', bytes.subarray(0, 60), 'wrong digest'],
    ['cut within the body', bytes.subarray(0, -1), 'wrong digest'],
    ['bytes after the end', Buffer.concat([bytes, Buffer.of(0)]), 'wrong digest'],
    ['an older version', Buffer.concat([Buffer.of(0), bytes.subarray(1)]), 'version 0, only 1 is known'],
    [
      'a later version',
      Buffer.concat([Buffer.of(3), bytes.subarray(1)]),
      'version 3, only 1 is known, and a later fencepost may have written it',
    ],
    [
      'an encrypted one',
      Buffer.concat([Buffer.of(2, 7), Buffer.from('2026-02'), bytes]),
      'encrypted with the key "2026-02", which this sidecar does not have: give it',
    ],
    [
      'one with a name that no key has',
      Buffer.concat([Buffer.of(2, 7), Buffer.from('\x1b[2Jabc'), bytes]),
      'encrypted with the key (no name that a key can have), which',
    ],
    ['a head that is not JSON', forged('{"kind":'), 'head is not JSON'],
    ['a head that is no object', forged('null')],
    ['a head that is a list', forged([])],
    ['another kind', forged({ ...head, kind: 'surprise' })],
    ['no status', forged({ ...head, status: undefined })],
    ['an informational status', forged({ ...head, status: 100 })],
    ['a status beyond the classes', forged({ ...head, status: 1000 })],
    ['a broken status', forged({ ...head, status: 200.5 })],
    ['a status as text', forged({ ...head, status: '200' })],
    ['no time', forged({ ...head, completedAtWallMs: undefined })],
    ['headers as an object', forged({ ...head, headers: { a: 'b' } })],
    ['a header of three parts', forged({ ...head, headers: [['a', 'b', 'c']] })],
    ['a header value that is a number', forged({ ...head, headers: [['a', 1]] })],
    ['a header split by CR LF', forged({ ...head, headers: [['a', 'b\r\nSet-Cookie: c']] })],
    ['a header split by LF', forged({ ...head, headers: [['a', 'b\nc']] })],
    ['a header ending in LF', forged({ ...head, headers: [['a', 'b\n']] })],
    ['a header with NUL', forged({ ...head, headers: [['a', 'b\0']] })],
    ['a header beyond Latin-1', forged({ ...head, headers: [['a', '€']] })],
    ['a header name with LF', forged({ ...head, headers: [['a\n', 'b']] })],
    ['a header name with a colon', forged({ ...head, headers: [['a:', 'b']] })],
    ['a header without a name', forged({ ...head, headers: [['', 'b']] })],
    [
      'a location split by CR LF',
      forged({ kind: 'tombstone', status: 303, location: '/\r\n', completedAtWallMs: 1 }),
    ],
    [
      'a location that is a number',
      forged({ kind: 'tombstone', status: 303, location: 1, completedAtWallMs: 1 }),
    ],
  ])('%s', (_, damaged, reason = 'not the shape') => {
    expect(decodeOutcome(damaged)).toEqual({ kind: 'damaged', reason: expect.stringContaining(reason) })
  })

  test('a head longer than the record', () => {
    const rest = Buffer.concat([NEVER, Buffer.of(0, 0, 1, 0), Buffer.from('{}')])
    const long = Buffer.concat([Buffer.of(1), createHash('sha256').update(rest).digest(), rest])
    expect(decodeOutcome(long)).toEqual({ kind: 'damaged', reason: 'head is longer than the record' })
  })

  test('any single flipped bit', () => {
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const flipped = Buffer.from(bytes)
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect(decodeOutcome(flipped).kind, `bit ${bit}`).toBe('damaged')
    }
  })
})

test('the stored part of any answer of an application can be replayed', () => {
  const policy = {
    store: [] as never,
    storedHeaders: ['x', 'location'],
    omittedHeaders: [],
    bodyStorage: 'full' as const,
    redact: [],
  }
  const name = fc.oneof(fc.constantFrom('X-Note', 'Location', 'ETag', 'x'), fc.string())
  const value = fc.string({ unit: 'binary' })
  const response = fc.record({
    status: fc.integer({ min: 200, max: 999 }),
    headers: fc.array(fc.tuple(name, value), { maxLength: 4 }),
    body: fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    oversized: fc.constantFrom(undefined, { stream: (async function* () {})() }),
  })
  fc.assert(
    fc.property(response, ({ oversized, ...rest }) => {
      const whole = oversized === undefined ? rest : { ...rest, oversized }
      const stored = storedOutcomeOf(whole, policy, 1)
      expect(decodeOutcome(encodeOutcome(stored))).toEqual({ kind: 'intact', outcome: stored })
    }),
    { numRuns: 500 },
  )
})

describe('two encoded outcomes', () => {
  const said = (result: unknown, completedAtWallMs = 1, token?: number) =>
    encodeOutcome({ kind: 'result', result, completedAtWallMs }, token)

  test.each<[what: string, one: Buffer, other: Buffer, same: boolean, otherwise: boolean]>([
    ['of one holder, at two moments, are one', said('paid', 1, 7), said('paid', 2, 7), true, false],
    ['of two holders that say the same are two', said('paid', 1, 7), said('paid', 1, 8), false, true],
    ['of one holder that say two things are two', said('paid', 1, 7), said('not paid', 1, 7), false, true],
    // Bug: a worker whose maps have no order was told of its own result, sent again, that it is another one.
    [
      'whose members stand in another order are one',
      said({ a: [1, { c: 2, d: 3 }], b: 4 }, 1, 7),
      said({ b: 4, a: [1, { d: 3, c: 2 }] }, 1, 7),
      true,
      false,
    ],
    [
      'whose elements stand in another order are two',
      said({ a: [1, 2] }, 1, 7),
      said({ a: [2, 1] }, 1, 7),
      false,
      true,
    ],
    [
      'one of which has a member more are two',
      said({ a: 1 }, 1, 7),
      said({ a: 1, b: null }, 1, 7),
      false,
      true,
    ],
    ['one of no result and one of null are two', said(undefined, 1, 7), said(null, 1, 7), false, true],
    ['one of which does not say who completed it, are one', said('paid', 1), said('paid', 2, 7), true, false],
    ['one of which is damaged, are not compared', said('paid'), Buffer.from('?'), false, false],
  ])('%s', (_, one, other, same, otherwise) => {
    expect([sameContent(one, other), sameContent(other, one)]).toEqual([same, same])
    expect([saysOtherwise(one, other), saysOtherwise(other, one)]).toEqual([otherwise, otherwise])
  })

  test('the token of the holder comes back, and an invalid one is damage', () => {
    expect(decodeOutcome(said('paid', 1, 7))).toMatchObject({ kind: 'intact', token: 7 })
    expect(decodeOutcome(said('paid', 1, 7.5)).kind).toBe('damaged')
  })
})
