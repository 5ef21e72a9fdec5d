/** When the keys of an issuer are fetched, which of them are in force, and what is known while it does not answer. */
import { createServer } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  createKeySet,
  fetchKeys,
  KEYS_FETCH_EVERY_MS,
  KEYS_FRESH_MS,
  KEYS_STALE_MAX_MS,
  type KeySet,
} from '../../src/jwt/key-set.ts'
import { createTokenVerifier } from '../../src/jwt/token-verifier.ts'
import { eventually } from '../support/eventually.ts'
import { type HeldClock, heldClock } from '../support/held-clock.ts'
import { listening } from '../support/listening.ts'
import {
  type Issuer,
  type Key,
  keySetOf,
  makeKey,
  parsedKeys,
  sign,
  startIssuer,
  verifiedBy,
} from '../support/token-issuer.ts'

let issuer: Issuer
let first: Key
let second: Key
let clock: HeldClock
let changes: (string | undefined)[]

beforeAll(async () => {
  first = await makeKey('first')
  second = await makeKey('second')
  issuer = await startIssuer(undefined)
})
afterAll(() => issuer[Symbol.asyncDispose]())
beforeEach(async () => {
  clock = heldClock()
  changes = []
  issuer.publish(await keySetOf(first))
})

const open = (differs: Partial<Parameters<typeof createKeySet>[0]> = {}): KeySet =>
  createKeySet({
    url: issuer.url,
    clock,
    fetchKeys,
    onChange: (failure) => changes.push(failure),
    ...differs,
  })

/** Tokens live for a day longer than the test moves its clock. */
const lives = { exp: Math.floor(Date.now() / 1_000) + 3 * 86_400 }
const verdictOf = async (keySet: KeySet, key: Key) =>
  createTokenVerifier(() => keySet, clock)(await sign(key, lives), verifiedBy({}))

const VERIFIED = { kind: 'verified' }
const REFUSED = { kind: 'token_refused', reason: 'is signed with a key that is none of its issuer’s' }
const UNVERIFIABLE = { kind: 'token_unverifiable' }

test('keys are fetched once for many requests, and again in the background when they are no longer fresh', async () => {
  const keySet = open()
  const before = issuer.fetched()
  expect(await Promise.all([1, 2, 3].map(() => verdictOf(keySet, first)))).toEqual([
    VERIFIED,
    VERIFIED,
    VERIFIED,
  ])
  expect(issuer.fetched() - before).toBe(1)
  clock.advance(KEYS_FRESH_MS)
  expect(await verdictOf(keySet, first)).toEqual(VERIFIED)
  await eventually('they are fetched again', () => issuer.fetched() - before === 2)
})

test('a rotated key is fetched by the first token that names it', async () => {
  const keySet = open()
  await keySet.current()
  issuer.publish(await keySetOf(first, second))
  clock.advance(KEYS_FETCH_EVERY_MS)
  expect(await verdictOf(keySet, second)).toEqual(VERIFIED)
  expect(await verdictOf(keySet, first)).toEqual(VERIFIED)
})

test('a withdrawn key counts no longer than until the next fetch', async () => {
  const keySet = open()
  await keySet.current()
  issuer.publish(await keySetOf(second))
  clock.advance(KEYS_FRESH_MS)
  await verdictOf(keySet, second)
  expect(await verdictOf(keySet, first)).toEqual(REFUSED)
})

describe('a rotation, step by step', () => {
  const [OLD, NEW] = ['old', 'new'] as const
  type Published = readonly (typeof OLD | typeof NEW)[]
  const SIGNATURE = { kind: 'token_refused', reason: 'has a signature that is not its issuer’s' }

  /** The issuer published the first set when the keys were fetched, and publishes the second from then on. */
  test.each<
    [what: string, published: readonly [Published, Published], afterMs: number, by: string, verdict: object]
  >([
    ['the old key, nothing has changed', [[OLD], [OLD]], 0, OLD, VERIFIED],
    ['the new key beside the old one', [[OLD], [OLD, NEW]], KEYS_FETCH_EVERY_MS, NEW, VERIFIED],
    ['the old key beside the new one', [[OLD], [OLD, NEW]], KEYS_FETCH_EVERY_MS, OLD, VERIFIED],
    ['the new key instead of the old one', [[OLD], [NEW]], KEYS_FETCH_EVERY_MS, NEW, VERIFIED],
    ['the new key, sooner than an issuer can bear', [[OLD], [NEW]], KEYS_FETCH_EVERY_MS - 1, NEW, REFUSED],
    ['the old key, withdrawn, while the keys are fresh', [[OLD], [NEW]], KEYS_FRESH_MS - 1, OLD, VERIFIED],
    ['a key that was never published', [[OLD], [NEW]], KEYS_FETCH_EVERY_MS, 'stranger', REFUSED],
  ])('%s', async (_, [before, after], afterMs, by, verdict) => {
    const keys = { old: first, new: second, stranger: await makeKey('stranger') }
    issuer.publish(await keySetOf(...before.map((name) => keys[name])))
    const keySet = open()
    await keySet.current()
    issuer.publish(await keySetOf(...after.map((name) => keys[name])))
    clock.advance(afterMs)
    expect(await verdictOf(keySet, keys[by as keyof typeof keys])).toEqual(verdict)
  })

  // Bug: with a single key it was refused until the keys were five minutes old, every client's.
  test('the new key of an issuer whose tokens name none is fetched by the first token', async () => {
    const verdict = async (key: Key) =>
      createTokenVerifier(() => keySet, clock)(await sign(key, lives, {}), verifiedBy({}))
    const keySet = open()
    expect(await verdict(first)).toEqual(VERIFIED)
    issuer.publish(await keySetOf(second))
    clock.advance(KEYS_FETCH_EVERY_MS)
    expect(await verdict(second)).toEqual(VERIFIED)
    expect(await verdict(first)).toEqual(REFUSED)
  })

  test('another key under the name of the old one counts from the next fetch on', async () => {
    const renamed = { ...second, kid: first.kid }
    const keySet = open()
    await keySet.current()
    issuer.publish(await keySetOf(renamed))
    clock.advance(KEYS_FRESH_MS)
    expect(await verdictOf(keySet, renamed)).toEqual(SIGNATURE)
    await eventually('it is fetched', async () => (await verdictOf(keySet, renamed)).kind === 'verified')
    expect(await verdictOf(keySet, first)).toEqual(SIGNATURE)
  })
})

test('tokens that name invented keys fetch no more often than an issuer can bear', async () => {
  const keySet = open()
  await keySet.current()
  const before = issuer.fetched()
  for (let n = 0; n < 5; n += 1) expect(await verdictOf(keySet, second)).toEqual(REFUSED)
  expect(issuer.fetched()).toBe(before)
  clock.advance(KEYS_FETCH_EVERY_MS)
  for (let n = 0; n < 5; n += 1) expect(await verdictOf(keySet, second)).toEqual(REFUSED)
  expect(issuer.fetched() - before).toBe(1)
})

test('while the issuer does not answer, known keys count for a day, and unknown ones are neither valid nor invalid', async () => {
  const keySet = open()
  await keySet.current()
  issuer.publish(undefined)
  clock.advance(KEYS_FETCH_EVERY_MS)
  expect(await verdictOf(keySet, second)).toMatchObject(UNVERIFIABLE)
  expect(changes).toEqual(['the address answered 503, and 200 is expected'])
  clock.advance(KEYS_STALE_MAX_MS - KEYS_FETCH_EVERY_MS - 1)
  expect(await verdictOf(keySet, first)).toEqual(VERIFIED)
  clock.advance(1)
  expect(await verdictOf(keySet, first)).toMatchObject(UNVERIFIABLE)
  issuer.publish(await keySetOf(first))
  clock.advance(KEYS_FETCH_EVERY_MS)
  expect(await verdictOf(keySet, first)).toEqual(VERIFIED)
  expect(changes).toEqual(['the address answered 503, and 200 is expected', undefined])
})

test('a start without the issuer: unverifiable until it answers, and verified from then on', async () => {
  issuer.publish(undefined)
  const keySet = open()
  expect(await verdictOf(keySet, first)).toMatchObject(UNVERIFIABLE)
  issuer.publish(await keySetOf(first))
  expect(await verdictOf(keySet, first)).toMatchObject(UNVERIFIABLE)
  clock.advance(KEYS_FETCH_EVERY_MS)
  expect(await verdictOf(keySet, first)).toEqual(VERIFIED)
})

test('the file serves until the address has answered, and is the whole set without an address', async () => {
  issuer.publish(undefined)
  const both = open({ initial: await parsedKeys(first) })
  expect(await verdictOf(both, first)).toEqual(VERIFIED)
  issuer.publish(await keySetOf(second))
  clock.advance(KEYS_FETCH_EVERY_MS)
  expect(await verdictOf(both, second)).toEqual(VERIFIED)
  expect(await verdictOf(both, first)).toEqual(REFUSED)

  const { url: _, ...fileAlone } = {
    url: '',
    initial: await parsedKeys(first),
    clock,
    fetchKeys,
    onChange: () => {},
  }
  const file = createKeySet(fileAlone)
  expect(await verdictOf(file, first)).toEqual(VERIFIED)
  expect(await verdictOf(file, second)).toEqual(REFUSED)
  file.replace(await parsedKeys(second))
  expect(await verdictOf(file, second)).toEqual(VERIFIED)
})

// Bug: the log said that the address could not be reached (TypeError).
test('an address that redirects is not followed, and the failure says what it answered', async () => {
  const server = createServer((_request, response) => {
    response.writeHead(301, { Location: issuer.url }).end()
  })
  const { port } = await listening(server)
  const before = issuer.fetched()
  const keySet = open({ url: `http://127.0.0.1:${port}/` })
  expect(await verdictOf(keySet, first)).toMatchObject(UNVERIFIABLE)
  expect(changes).toEqual(['the address answered 301, and 200 is expected'])
  expect(issuer.fetched()).toBe(before)
  server.closeAllConnections()
  server.close()
})

test.each([
  ['no JSON', '<html>', 'its answer is not JSON'],
  ['no keys', '{}', 'its answer has no list "keys" (RFC 7517)'],
  ['an empty set', '{"keys":[]}', 'its answer has 0 keys, and 1 to 100 are accepted'],
  [
    'a shared secret',
    '{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}',
    'its answer has a private or symmetric key, and only public ones are accepted',
  ],
  [
    'more than is read',
    `"${'x'.repeat(600_000)}"`,
    'the answer is larger than 524288 bytes, which is the limit',
  ],
])('an address that answers %s leaves the keys as they were', async (_what, body, reason) => {
  const keySet = open()
  await keySet.current()
  issuer.publish(body)
  clock.advance(KEYS_FRESH_MS)
  await verdictOf(keySet, second)
  expect(changes).toEqual([reason])
  expect(await verdictOf(keySet, first)).toEqual(VERIFIED)
})
