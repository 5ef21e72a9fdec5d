/** A route is warned about once, where a bearer token of it expires before its records. */
import { expect, test } from 'vitest'
import { noticeShortLivedTokens, type ShortLived } from '../../../src/core/request/short-lived-tokens.ts'
import { route } from '../../support/proxy.ts'
import { verifiedBy } from '../../support/token-issuer.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const HOUR_MS = 3_600_000

function noticed(
  of: ReturnType<typeof route>,
  ...expiresInHours: readonly (number | undefined)[]
): readonly ShortLived[] {
  const clock = new VirtualClock()
  const warned: ShortLived[] = []
  const look = noticeShortLivedTokens(clock, (one) => warned.push(one))
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
  expect(noticed(day, 1)).toEqual([{ route: 'pay', expiresInMs: HOUR_MS, retentionMs: 24 * HOUR_MS }])
})

test.each(['Basic YTpi', 'Bearer opaque', 'Bearer a.%.c', 'Bearer e30.W10.c', ''])(
  '%j says nothing',
  (line) => {
    const warned: ShortLived[] = []
    noticeShortLivedTokens(new VirtualClock(), (one) => warned.push(one))(day, [['authorization', line]])
    expect(warned).toEqual([])
  },
)
