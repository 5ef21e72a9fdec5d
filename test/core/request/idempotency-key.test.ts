import fc from 'fast-check'
import { expect, test } from 'vitest'
import { KEY_BYTES_MAX, parseIdempotencyKey } from '../../../src/core/request/idempotency-key.ts'

// The vectors in test/vectors/idempotency-key.json are the table; these are the properties of all values.

const RELAXED = { strict: false, minLength: 1 }
const STRICT = { strict: true, minLength: 1 }
const quoted = (key: string) => `"${key.replace(/["\\]/g, '\\$&')}"`

test('the quoted and the raw form of one key are one key', () => {
  const raw = fc.stringMatching(/^[!#-+\--~][!-+\--~]{0,40}$/)
  fc.assert(
    fc.property(raw, (key) => {
      expect(parseIdempotencyKey([key], RELAXED)).toEqual({ kind: 'key', key })
      expect(parseIdempotencyKey([quoted(key)], RELAXED)).toEqual({ kind: 'key', key })
      expect(parseIdempotencyKey([quoted(key)], STRICT)).toEqual({ kind: 'key', key })
      expect(parseIdempotencyKey([key], STRICT)).toMatchObject({ kind: 'invalid', reason: 'unquoted' })
    }),
  )
})

test('every accepted key is 1 to 255 bytes of printable ASCII', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), fc.boolean(), (value, strict) => {
      const parsed = parseIdempotencyKey([value], { strict, minLength: 1 })
      if (parsed.kind === 'key') expect(parsed.key).toMatch(/^[ -~]{1,255}$/)
      else expect(parsed.kind).toBe('invalid')
    }),
  )
})

test('a detail has the numbers and never the key', () => {
  const parsed = parseIdempotencyKey(['secret'.repeat(50)], RELAXED)
  expect(parsed).toMatchObject({ detail: `the key has 300 bytes, at most ${KEY_BYTES_MAX} are accepted` })
  expect(parseIdempotencyKey(['secret'], { strict: false, minLength: 16 })).toMatchObject({
    detail: 'the key has 6 characters, at least 16 are expected',
  })
})
