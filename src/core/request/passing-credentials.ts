/**
 * Notices credentials that do not last as long as the records of their route: bearer tokens that expire sooner, and signatures, which
 * are others with every request. A client that tries again is another client there, and its request is executed again.
 *
 * Owns when a route is warned about: once, where `Authorization` decides. What a credential says is read and not verified: it decides
 * about a warning only.
 */

import type { Clock } from '../clock.ts'
import { type HeaderList, linesOf } from '../header-list.ts'
import type { PrincipalSource, ProtectedRoute } from '../routes/route.ts'
import { jwtIn, payloadOf } from './principal.ts'

export type Passing = { readonly route: string } & (
  | { readonly kind: 'expires'; readonly expiresInMs: number; readonly retentionMs: number }
  /** @property scheme as the client wrote it */
  | { readonly kind: 'signed'; readonly scheme: string }
)

/** Requests of a route that are looked at. The credentials of one application are of one kind, so the first ones tell. */
const LOOKS = 1_000

/** @returns what looks at each identified request */
export function noticePassingCredentials(
  clock: Pick<Clock, 'wallMs'>,
  warn: (of: Passing) => void,
): (route: ProtectedRoute, headers: HeaderList) => void {
  const looksLeft = new Map<string, number>()
  return (route, headers) => {
    if (!isByAuthorization(route.principal)) return
    const left = looksLeft.get(route.name) ?? LOOKS
    if (left === 0) return
    const [line = ''] = linesOf(headers, 'authorization')
    if (line === '') return
    const passing = signedBy(line, route) ?? endsBefore(line, route, clock)
    looksLeft.set(route.name, passing === undefined ? left - 1 : 0)
    if (passing !== undefined) warn(passing)
  }
}

/** Schemes with a signature, a counter or a ticket of one request. */
const SIGNED =
  /^(aws|aws4-.+|digest|hawk|negotiate|ntlm|sharedkey|sharedkeylite|signature|wechatpay2-.+)$|hmac/i

/** The scheme is cut off first: a client chooses how long a line without a space is. */
function signedBy(line: string, { name }: ProtectedRoute): Passing | undefined {
  const scheme = line.slice(0, Math.max(0, line.indexOf(' ')))
  // OAuth 2 has the name of a scheme in common with OAuth 1, which signs.
  const signed = SIGNED.test(scheme) || (/^oauth$/i.test(scheme) && line.includes('oauth_signature'))
  return signed ? { route: name, kind: 'signed', scheme } : undefined
}

function endsBefore(
  line: string,
  { name, retentionMs }: ProtectedRoute,
  clock: Pick<Clock, 'wallMs'>,
): Passing | undefined {
  const expiresMs = expiryOf(line)
  if (expiresMs === undefined) return undefined
  const expiresInMs = expiresMs - clock.wallMs()
  return expiresInMs < retentionMs ? { route: name, kind: 'expires', expiresInMs, retentionMs } : undefined
}

function isByAuthorization(source: PrincipalSource): boolean {
  return source.kind === 'authorization' || (source.kind === 'header' && source.name === 'authorization')
}

/** `exp` of a bearer JWT (RFC 7519, section 4.1.4). */
function expiryOf(line: string): number | undefined {
  const exp = payloadOf(jwtIn(line)).find(({ name }) => name === 'exp')?.value
  return exp?.kind === 'number' ? Number(exp.text) * 1_000 : undefined
}
