/** A route is warned about once, where a credential of it does not last as long as its records. */
import { expect, test } from 'vitest'
import { noticePassingCredentials, type Passing } from '../../../src/core/request/passing-credentials.ts'
import { route } from '../../support/proxy.ts'
import { verifiedBy } from '../../support/token-issuer.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const HOUR_MS = 3_600_000

function noticed(
  of: ReturnType<typeof route>,
  ...expiresInHours: readonly (number | undefined)[]
): readonly Passing[] {
  const clock = new VirtualClock()
  const warned: Passing[] = []
  const look = noticePassingCredentials(clock, (one) => warned.push(one))
  for (const hours of expiresInHours) {
    const payload = hours === undefined ? {} : { exp: (clock.wallMs() + hours * HOUR_MS) / 1_000 }
    const token = `e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.c2ln`
    look(of, [['Authorization', `Bearer ${token}`]])
  }
  return warned
}

const day = route({ name: 'pay', retentionMs: 24 * HOUR_MS })

test.each<[what: string, of: typeof day, hours: readonly (number | undefined)[], warnings: number]>([
  ['tokens that expire before the records', day, [1, 1, 2], 1],
  ['a token that ends with the records', day, [24], 0],
  ['a token that outlives the records', day, [25, 25], 0],
  ['a token that never ends', day, [undefined], 0],
  ['a route that verifies', { ...day, principal: verifiedBy({}) }, [1], 0],
  ['a route that reads another header', { ...day, principal: { kind: 'header', name: 'x-api-key' } }, [1], 0],
])('%s: %#', (_what, of, hours, warnings) => {
  expect(noticed(of, ...hours).length).toBe(warnings)
})

test('the warning says when the token expires, and how long records are kept', () => {
  expect(noticed(day, 1)).toEqual([
    { route: 'pay', kind: 'expires', expiresInMs: HOUR_MS, retentionMs: 24 * HOUR_MS },
  ])
})

test.each(['Basic YTpi', 'Bearer opaque', 'Bearer a.%.c', 'Bearer e30.W10.c', ''])(
  '%j says nothing',
  (line) => {
    const warned: Passing[] = []
    noticePassingCredentials(new VirtualClock(), (one) => warned.push(one))(day, [['authorization', line]])
    expect(warned).toEqual([])
  },
)

const saidOf = (...lines: readonly string[]): readonly Passing[] => {
  const warned: Passing[] = []
  const look = noticePassingCredentials(new VirtualClock(), (one) => warned.push(one))
  for (const line of lines) look(day, [['authorization', line]])
  return warned
}

// Bug: clients that sign each request were never recognised, and nothing said so.
test.each([
  [
    'AWS4-HMAC-SHA256 Credential=AKIA/20261126/eu-west-1/execute-api/aws4_request, Signature=00',
    'AWS4-HMAC-SHA256',
  ],
  ['Digest username="a", nonce="b", nc=00000001, response="c"', 'Digest'],
  ['OAuth oauth_consumer_key="a", oauth_nonce="b", oauth_signature="c"', 'OAuth'],
  ['Signature keyId="a",signature="b"', 'Signature'],
  ['HMAC a:b', 'HMAC'],
  ['acme-hmac-sha256 a:b', 'acme-hmac-sha256'],
  ['hawk id="a", mac="b"', 'hawk'],
  // Storage of Azure, S3 before its fourth signature, WeChat Pay.
  ['SharedKey account:c2lnbmVk', 'SharedKey'],
  ['SharedKeyLite account:c2lnbmVk', 'SharedKeyLite'],
  ['AWS AKIA:c2lnbmVk', 'AWS'],
  ['WECHATPAY2-SHA256-RSA2048 mchid="1",nonce_str="a",signature="b"', 'WECHATPAY2-SHA256-RSA2048'],
  ['Negotiate YII=', 'Negotiate'],
])('%s is another client with every request: a warning, once', (line, scheme) => {
  expect(saidOf(line, line)).toEqual([{ route: 'pay', kind: 'signed', scheme }])
})

test.each(['OAuth ya29.opaque', 'Token abc', 'Basic aG1hYw==', 'ApiKey hmac', 'Digest'])(
  '%s says nothing',
  (line) => expect(saidOf(line)).toEqual([]),
)

// Bug: a line of 16 KiB took 0.3 s. Of this one a pattern that tries each part of it against the rest takes longer than a test may.
test('a long line without a space is no scheme', () => expect(saidOf('hmac'.repeat(15_000))).toEqual([]))
