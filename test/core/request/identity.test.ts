import fc from 'fast-check'
import { expect, test } from 'vitest'
import { percentEncode } from '../../../src/core/formats/framing.ts'
import {
  contentMarkOf,
  type Identity,
  isWork,
  recordKey,
  SCOPE_PART_BYTES_MAX,
} from '../../../src/core/request/identity.ts'
import { SECRET_RECORD_KEY } from '../../../src/core/reservations/reservation-secret.ts'
import { INCARNATION_KEY } from '../../../src/redis/keys.ts'

// The vectors in test/vectors/identity.json are the table; these are the properties of all identities.

const PLAIN: Identity = {
  tenant: 'acme',
  env: 'prod',
  apiVersion: 'v1',
  mode: 'header',
  principal: 'anonymous',
  method: 'POST',
  path: '/payments',
  key: 'k',
}

const keyOf = (identity: Identity) => {
  const result = recordKey(identity)
  if (result.kind !== 'record_key') expect.fail(result.detail)
  return result.recordKey
}

const name = fc.oneof(
  fc.stringMatching(/^[a:%.]{1,3}$/),
  fc.constantFrom('incarnation', '.', '..', '__proto__', 'é', 'e\u0301', 'A', '%3A', ' ', '\0'),
)
const text = fc.stringMatching(/^[a:%/&=\0]{0,3}$/)
const scope = { tenant: name, env: name, apiVersion: name }
const identity: fc.Arbitrary<Identity> = fc.oneof(
  fc.record({
    ...scope,
    mode: fc.constant('header' as const),
    principal: text,
    method: text,
    path: text,
    key: text,
  }),
  fc.record({
    ...scope,
    mode: fc.constant('content' as const),
    principal: text,
    method: text,
    path: text,
    fingerprint: text,
  }),
  fc.record({ ...scope, mode: fc.constantFrom('reservation' as const, 'entity' as const), value: text }),
)

/** The same identity, one with two fields exchanged, or any other. */
const pairs = fc.oneof(
  fc.tuple(identity, identity),
  identity.map((one): [Identity, Identity] => [one, { ...one, tenant: one.env, env: one.tenant }]),
  identity.map((one): [Identity, Identity] => [
    one,
    one.mode === 'reservation' || one.mode === 'entity'
      ? one
      : { ...one, path: one.method, method: one.path },
  ]),
  identity.map((one): [Identity, Identity] => [one, structuredClone(one)]),
)

test('two identities have one key exactly when they are equal in every field', () => {
  const fields = (one: Identity) => JSON.stringify(Object.entries(one).sort())
  fc.assert(
    fc.property(pairs, ([a, b]) => {
      expect(keyOf(a) === keyOf(b)).toBe(fields(a) === fields(b))
    }),
    { numRuns: 5_000 },
  )
})

test('a key has five parts of harmless characters (six for an entity), ends in a hash, and is no internal key', () => {
  fc.assert(
    fc.property(identity, (one) => {
      const key = keyOf(one)
      expect(key).toMatch(/^dedup(:[A-Za-z0-9._%-]+){3}(:lock)?:[0-9a-f]{64}$/)
      expect(key.startsWith('dedup::')).toBe(false)
      // The sweeper must find the unfinished work of every tenant.
      expect(isWork(key)).toBe(one.mode !== 'entity')
      expect(isWork(contentMarkOf(key))).toBe(false)
    }),
  )
  expect(isWork(SECRET_RECORD_KEY)).toBe(false)
  expect(INCARNATION_KEY.startsWith('dedup::')).toBe(true)
})

test('no record key contains the key that a client sent', () => {
  expect(keyOf({ ...PLAIN, key: 'card-4111' })).not.toContain('4111')
})

test('encoded text is different for different text', () => {
  const texts = fc.string({ unit: 'binary', maxLength: 4 }).filter((text) => text.isWellFormed())
  fc.assert(
    fc.property(texts, texts, (a, b) => {
      expect(percentEncode(a) === percentEncode(b)).toBe(a === b)
      expect(decodeURIComponent(percentEncode(a) ?? '')).toBe(a)
    }),
  )
})

test('a name over the limit is refused with the number', () => {
  const result = recordKey({ ...PLAIN, tenant: 'x'.repeat(10_240) })
  expect(result).toMatchObject({ kind: 'invalid_identity', part: 'tenant', reason: 'too_long' })
  expect(result).toMatchObject({ detail: `tenant has 10240 bytes, at most ${SCOPE_PART_BYTES_MAX}` })
})
