import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { frame } from '../../../src/core/formats/framing.ts'
import { explain, SHOWN_BODY_BYTES_MAX } from '../../../src/core/request/explain.ts'
import { compileRules } from '../../../src/core/request/fingerprint.ts'
import { fingerprintOf, HEAD, headOf, JSON_HEAD } from '../../support/requests.ts'

test('an explanation lists the components in hash order, and their bytes make the hash', async () => {
  const compiled = compileRules({ headers: ['x-a', 'x-b'], ignore: [], body: { kind: 'all' } })
  if (compiled.kind === 'invalid') expect.fail(compiled.detail)
  const head = { ...headOf('application/json', ['X-B', 'é'], ['x-b', '2']), query: 'b=1&a=%7e' }
  const shown = explain(await fingerprintOf(head, '{"b":1.0,"a":"é"}', compiled.rules))

  expect(shown.components.map(({ name, value }) => [name, value])).toEqual([
    ['scheme', compiled.rules.scheme],
    ['tenant', 'acme'],
    ['env', 'prod'],
    ['api_version', 'v1'],
    ['principal', 'anonymous'],
    ['method', 'POST'],
    ['path', '/payments'],
    ['query', ['sorted', 'a=~&b=1']],
    ['headers', [['x-a'], ['x-b', 'é', '2']]],
    ['media_type', ['parsed', 'application/json']],
    ['codings', []],
    ['body_form', 'json'],
    ['body_sha256', createHash('sha256').update('{"a":"é","b":1}').digest('hex')],
  ])
  expect(shown.body).toMatchObject({
    form: 'json',
    canonicalBytes: 16,
    canonical: { text: '{"a":"é","b":1}' },
  })
  const bytes = frame(shown.components.map(({ hex }) => Buffer.from(hex, 'hex')))
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(shown.hash)
  expect(JSON.parse(JSON.stringify(shown))).toEqual(shown)
})

test('an explanation says why a body was compared byte for byte', async () => {
  const { body } = explain(await fingerprintOf(JSON_HEAD, '{"a":1,"a":1}'))
  expect(body).toMatchObject({ form: 'bytes', doubt: { reason: 'duplicate_member' } })
  expect(explain(await fingerprintOf(JSON_HEAD, '{}')).body).not.toHaveProperty('doubt')
})

test('an explanation shows binary bytes in base64 only, and of a long body only its length', async () => {
  const { body } = explain(await fingerprintOf(HEAD, Buffer.from('ff', 'hex')))
  expect(body.canonical).toEqual({ base64: '/w==' })
  const long = explain(await fingerprintOf(HEAD, new Uint8Array(SHOWN_BODY_BYTES_MAX + 1)))
  expect(long.body).toEqual({ form: 'bytes', codings: [], canonicalBytes: SHOWN_BODY_BYTES_MAX + 1 })
})
