/**
 * Notices bearer tokens that expire before the records of their route: a client that renews its token between two tries is
 * another client there, and its request is executed again.
 *
 * Owns when a route is warned about: once, where `Authorization` decides and a token says that it ends before the retention.
 * What a token says is read and not verified: it decides about a warning only.
 */

import type { Clock } from '../clock.ts'
import { linesOf } from '../formats/header-lines.ts'
import type { HeaderList } from '../header-list.ts'
import type { PrincipalSource, ProtectedRoute } from '../routes/route.ts'
import { jwtIn, payloadOf } from './principal.ts'

export type ShortLived = {
  readonly route: string
  readonly expiresInMs: number
  readonly retentionMs: number
}

/** Requests of a route that are looked at. Tokens of one issuer live equally long, so the first ones tell. */
const LOOKS = 1_000

/** @returns what looks at each identified request */
export function noticeShortLivedTokens(
  clock: Pick<Clock, 'wallMs'>,
  warn: (of: ShortLived) => void,
): (route: ProtectedRoute, headers: HeaderList) => void {
  const looksLeft = new Map<string, number>()
  return (route, headers) => {
    if (!isByAuthorization(route.principal)) return
    const left = looksLeft.get(route.name) ?? LOOKS
    if (left === 0) return
    const expiresMs = expiryOf(linesOf(headers, 'authorization'))
    if (expiresMs === undefined) return
    const expiresInMs = expiresMs - clock.wallMs()
    const short = expiresInMs < route.retentionMs
    looksLeft.set(route.name, short ? 0 : left - 1)
    if (short) warn({ route: route.name, expiresInMs, retentionMs: route.retentionMs })
  }
}

export function isByAuthorization(source: PrincipalSource): boolean {
  return source.kind === 'authorization' || (source.kind === 'header' && source.name === 'authorization')
}

/** `exp` of a bearer JWT (RFC 7519, section 4.1.4). */
function expiryOf(lines: readonly string[]): number | undefined {
  const exp = payloadOf(jwtIn(lines[0] ?? '')).find(({ name }) => name === 'exp')?.value
  return exp?.kind === 'number' ? Number(exp.text) * 1_000 : undefined
}
