import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { fingerprint, verifyDigest } from '../../../src/core/request/fingerprint.ts'
import { HEAD } from '../../support/requests.ts'

const BODY = Buffer.from('{"hello": "world"}')
const of = (algorithm: string, text: string | Uint8Array = BODY) =>
  `:${createHash(algorithm).update(text).digest('base64')}:`

const FINE = undefined
const MALFORMED = 'digest_malformed'
const MISMATCH = 'digest_mismatch'

test.each<[name: string, lines: string[], outcome: string | undefined]>([
  ['no digest', [], FINE],
  ['an empty field', [''], FINE],
  // The example of RFC 9530, appendix B.1.
  ['sha-256 of the RFC', ['sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:'], FINE],
  ['sha-512', [`sha-512=${of('sha512')}`], FINE],
  ['both', [`sha-256=${of('sha256')}, sha-512=${of('sha512')}`], FINE],
  ['on two lines', [`sha-256=${of('sha256')}`, `sha-512=${of('sha512')}`], FINE],
  ['parameters', [`sha-256=${of('sha256')};a=1;b`], FINE],
  ['an unknown algorithm', ['md5=:AAAA:, unixsum=1, x=(1 2);y'], FINE],
  ['the last of one algorithm counts', [`sha-256=${of('sha256', 'x')}, sha-256=${of('sha256')}`], FINE],
  ['another body', [`sha-256=${of('sha256', 'x')}`], MISMATCH],
  ['one of two is wrong', [`sha-256=${of('sha256')}, sha-512=${of('sha512', 'x')}`], MISMATCH],
  ['one is wrong beside an unknown one', [`md5=:AAAA:, sha-256=${of('sha256', 'x')}`], MISMATCH],
  ['too short', ['sha-256=:AAAA:'], MISMATCH],
  ['empty', ['sha-256=::'], MISMATCH],
  ['not bytes', ['sha-256="abc"'], MALFORMED],
  ['no value', ['sha-256'], MALFORMED],
  ['hex instead of base64', [`sha-256=${createHash('sha256').update(BODY).digest('hex')}`], MALFORMED],
  ['the form of the older RFC 3230', [`sha-256=${of('sha256').slice(1, -1)}`], MALFORMED],
  ['no dictionary', ['?'], MALFORMED],
  ['a trailing comma', [`sha-256=${of('sha256')},`], MALFORMED],
])('%s: %s', (_name, lines, outcome) => {
  expect(verifyDigest(lines, BODY)?.kind).toBe(outcome)
})

test('a mismatch names the algorithm and leaves no fingerprint', async () => {
  const head = { ...HEAD, headers: [['content-digest', 'sha-256=:AAAA:']] as const }
  expect(await fingerprint(head, BODY)).toEqual({ kind: 'digest_mismatch', algorithm: 'sha-256' })
})
