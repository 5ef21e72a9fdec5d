import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type KeyCarrier, keyOf } from '../../../src/core/request/key-parts.ts'
import type { KeyPart, KeySource } from '../../../src/core/routes/route.ts'

const EMPTY: KeyCarrier = { headers: [], query: undefined, pathParameters: {}, body: new Uint8Array() }
const SOURCE: KeySource = {
  headers: ['idempotency-key'],
  parts: [],
  strict: false,
  minLength: 1,
  format: 'any',
}
const withBody = (json: string): KeyCarrier => ({ ...EMPTY, body: Buffer.from(json) })
const fromParts = (parts: readonly KeyPart[], carrier: KeyCarrier) => keyOf({ ...SOURCE, parts }, carrier)
const result = (parts: readonly KeyPart[], carrier: KeyCarrier) => {
  const parsed = fromParts(parts, carrier)
  return parsed.kind === 'key' ? parsed.key : parsed.kind === 'missing' ? 'missing' : parsed.reason
}

test.each<[body: string, pointer: string, key: string]>([
  ['{"id":"a"}', '/id', '%22a%22'],
  ['{"id":1}', '/id', '1'],
  ['{"id":"1"}', '/id', '%221%22'],
  ['{"id":1.0}', '/id', '1'],
  ['{"id":0}', '/id', '0'],
  ['{"id":false}', '/id', 'false'],
  ['{"id":"false"}', '/id', '%22false%22'],
  ['{"id":9007199254740992}', '/id', '9007199254740992'],
  ['{"id":9007199254740993}', '/id', '9007199254740993e0'],
  ['{"id":9007199254740993.0}', '/id', '9007199254740993e0'],
  ['{"id":-0}', '/id', '-0e0'],
  ['{"id":"é:/"}', '/id', '%22%C3%A9%3A%2F%22'],
  ['{"a":[{"id":7}]}', '/a/0/id', '7'],
  ['{"__proto__":{"id":7}}', '/__proto__/id', '7'],
  ['"whole"', '', '%22whole%22'],
  ['{"id":null}', '/id', 'missing'],
  ['{}', '/id', 'missing'],
  ['{}', '/constructor/name', 'missing'],
  ['', '/id', 'missing'],
  ['{"id":""}', '/id', 'not_one_scalar'],
  ['{"id":1e400}', '/id', '1e400'],
  ['{"id":1e9007199254740993}', '/id', 'not_one_scalar'],
  ['{"id":{}}', '/id', 'not_one_scalar'],
  ['{"id":[1]}', '/id', 'not_one_scalar'],
  ['{"id":1,"id":1}', '/id', 'not_one_scalar'],
  ['{"id":"\\ud800"}', '/id', 'not_one_scalar'],
  ['[1,2]', '/*', 'not_one_scalar'],
  ['{"id"', '/id', 'unreadable_body'],
  ['id=1', '/id', 'unreadable_body'],
])('body %s at %j: %s', (body, pointer, key) => {
  expect(result([{ in: 'body', pointer }], withBody(body))).toBe(key)
})

test.each<[query: string | undefined, key: string]>([
  ['id=a', 'a'],
  ['%69d=%61', 'a'],
  ['x=1&id=a%2Fb', 'a%252Fb'],
  ['id=0', '0'],
  [undefined, 'missing'],
  ['x=1', 'missing'],
  ['id=', 'empty'],
  ['id', 'empty'],
  ['id=a&id=a', 'not_one_scalar'],
])('query %j: %s', (query, key) => {
  expect(result([{ in: 'query', name: 'id' }], { ...EMPTY, query })).toBe(key)
})

test.each<[name: string, query: string]>([
  ['a+b', 'a%2Bb=1&a+b=2'],
  ['a b', 'a+b=1'],
  ['a b', 'a%20b=1'],
  ['é', '%C3%A9=1'],
  ['50%', '50%25=1'],
])('a query parameter is found under the name that an application reads: %j in %j', (name, query) => {
  expect(result([{ in: 'query', name }], { ...EMPTY, query })).toBe('1')
})

test.each<[parameters: Record<string, string>, key: string]>([
  [{ id: 'a' }, 'a'],
  [{ id: 'a:b' }, 'a%3Ab'],
  [{ id: '' }, 'empty'],
  [{}, 'missing'],
])('path parameters %j: %s', (pathParameters, key) => {
  expect(result([{ in: 'path', parameter: 'id' }], { ...EMPTY, pathParameters })).toBe(key)
})

test('a parameter that only all objects have is missing', () => {
  expect(result([{ in: 'path', parameter: 'constructor' }], EMPTY)).toBe('missing')
})

test('a header part is read as a key is', () => {
  const part: KeyPart = { in: 'header', name: 'x-order' }
  const carrier = (...lines: string[]): KeyCarrier => ({
    ...EMPTY,
    headers: lines.map((line) => ['X-Order', line] as const),
  })
  expect(result([part], carrier('"a b"'))).toBe('a%20b')
  expect(result([part], carrier('a', 'b'))).toBe('several_lines')
  expect(result([part], carrier())).toBe('missing')
})

test('one missing part means that there is no key', () => {
  const parts: KeyPart[] = [
    { in: 'body', pointer: '/a' },
    { in: 'body', pointer: '/b' },
  ]
  expect(result(parts, withBody('{"a":1}'))).toBe('missing')
  expect(result(parts, withBody('{"a":1,"b":0}'))).toBe('1:0')
})

test('two lists of parts have one key exactly when they are equal', () => {
  const parts: KeyPart[] = [
    { in: 'path', parameter: 'a' },
    { in: 'path', parameter: 'b' },
  ]
  const value = fc.stringMatching(/^[a:%3A"é]{1,3}$/)
  const values = fc.record({ a: value, b: value })
  fc.assert(
    fc.property(values, values, (first, second) => {
      const key = (pathParameters: Record<string, string>) => result(parts, { ...EMPTY, pathParameters })
      expect(key(first) === key(second)).toBe(first.a === second.a && first.b === second.b)
    }),
    { numRuns: 2_000 },
  )
})

test('the first header that the request carries is the key, and an invalid one is not passed over', () => {
  const source = { ...SOURCE, headers: ['idempotency-key', 'x-request-key'] }
  const carrier = (...headers: [string, string][]): KeyCarrier => ({ ...EMPTY, headers })
  expect(keyOf(source, carrier(['X-Request-Key', 'b']))).toEqual({ kind: 'key', key: 'b' })
  expect(keyOf(source, carrier(['X-Request-Key', 'b'], ['Idempotency-Key', 'a']))).toEqual({
    kind: 'key',
    key: 'a',
  })
  expect(keyOf(source, carrier(['X-Request-Key', 'b'], ['Idempotency-Key', '']))).toMatchObject({
    reason: 'empty',
  })
  expect(keyOf(source, EMPTY)).toEqual({ kind: 'missing' })
})

/**
 * Bug: a joined key had the 255 bytes of a header's, and every slash in a part takes three of them. Event Grid names a resource of Azure by its
 * path: such an event got 400, which is final there.
 */
test('a resource of Azure and the id of an event are a key', () => {
  const resource =
    '/subscriptions/5b4b650e-28b9-4790-b3ab-ddbd88d727c4/resourceGroups/production-west-europe-event-processing/providers/Microsoft.Storage/storageAccounts/productionorderdocuments01/blobServices/default'
  const id = '831e1650-001e-001b-66ab-eeb76e069631'
  const parts: KeyPart[] = [
    { in: 'body', pointer: '/0/topic' },
    { in: 'body', pointer: '/0/id' },
  ]
  const key = [resource, id].map((text) => encodeURIComponent(`"${text}"`)).join(':')
  expect(key.length).toBeGreaterThan(255)
  expect(result(parts, withBody(JSON.stringify([{ topic: resource, id }])))).toBe(key)
})

test('a joined key has a limit of its own', () => {
  const keyOfLength = (length: number) =>
    result([{ in: 'header', name: 'id' }], { ...EMPTY, headers: [['id', 'x'.repeat(length)]] })
  expect(keyOfLength(4_096)).toBe('x'.repeat(4_096))
  expect(keyOfLength(4_097)).toBe('too_long')
  const joined = withBody(JSON.stringify({ id: 'x'.repeat(4_091) }))
  expect(result([{ in: 'body', pointer: '/id' }], joined)).toBe('too_long')
})
