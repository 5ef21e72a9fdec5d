/**
 * Whose request it is, as a text that reveals no name: without it one client could read what was stored for another.
 *
 * Forms that cannot collide: `anonymous`; 64 hex digits (SHA-256 of the one Authorization line); `authorization:`
 * (several lines), `header:`, `jwt:` or `verified:`, and 64 hex digits. Where the configured header or claim is absent,
 * Authorization decides; where that is absent too, the header that names the client does, if its sender is trusted;
 * else the request is anonymous.
 *
 * Owns what an invalid token means on a route that verifies: the request is refused. Under a principal of its own it would be
 * executed a second time wherever the application is more lenient than we are; under the principal that it claims, it could read
 * another client's answer. Verifying is the port `VerifyToken`. Without a bearer token nothing is claimed, and the
 * application decides, as on any other route.
 */

import { writeCanonical } from '../formats/canonical-json.ts'
import { sha256Hex, wireBytes } from '../formats/framing.ts'
import { type Member, parseJson } from '../formats/json.ts'
import { type HeaderList, linesOf, linesReadAs } from '../header-list.ts'
import type { PrincipalSource, ProtectedRoute, VerifiedJwt } from '../routes/route.ts'
import { lastingCookies } from './lasting-cookies.ts'

export const ANONYMOUS = 'anonymous'

/** One for the proxy, the reservation API and the gateways, or one request would be two. */
export type PrincipalRules = {
  /** Names the client of a request that would be anonymous; lower case. */
  readonly clientHeader: string
  /** Its sender is trusted: tenant, version, client and unverified claims are taken from the headers of the request. */
  readonly trusted: boolean
  /** Required where a route verifies tokens. */
  readonly verifyToken?: VerifyToken
  /** Sees the head of each request that is identified: `passing-credentials.ts`. */
  readonly onIdentified?: (route: ProtectedRoute, headers: HeaderList) => void
}

export type TokenFault =
  /** `reason` completes "The bearer token …". */
  | { readonly kind: 'token_refused'; readonly reason: string }
  /** Neither valid nor invalid as far as is known: the keys of its issuer are missing. A sentence. */
  | { readonly kind: 'token_unverifiable'; readonly detail: string }

/** Verifies signature, issuer, audience and times of a token that has the form of a signed JWT. Never rejects. */
export type VerifyToken = (
  token: string,
  rules: VerifiedJwt,
) => Promise<{ readonly kind: 'verified' } | TokenFault>

/** `stated`: the header or the claim that the route names; else Authorization, the client header, or nothing. */
type NamedPrincipal = { readonly kind: 'principal'; readonly principal: string; readonly stated: boolean }

export type Principal = NamedPrincipal | TokenFault

/** @param lines all Authorization lines, as they crossed the wire */
export function principalOf(lines: readonly string[]): string {
  const [line] = lines
  if (line === undefined) return ANONYMOUS
  const bytes = lines.length === 1 ? wireBytes(line) : undefined
  return bytes === undefined ? `authorization:${hashOf(lines)}` : sha256Hex(bytes)
}

export async function principalOfRequest(
  source: PrincipalSource,
  headers: HeaderList,
  rules: PrincipalRules,
): Promise<Principal> {
  if (source.kind !== 'verified_jwt') return principalFrom(source, headers, rules)
  const lines = linesOf(headers, 'authorization')
  if (!lines.some((line) => BEARER.test(line)))
    return principalFrom({ kind: 'authorization' }, headers, rules)
  if (lines.length > 1)
    return refused(
      `is one of ${lines.length} Authorization lines, and which of them the application reads is not known`,
    )
  const token = SIGNED_JWT.exec(lines[0] ?? '')?.[1]
  if (token === undefined) return refused('is no signed JWT, which this route demands')
  const verdict = (await rules.verifyToken?.(token, source)) ?? NO_VERIFIER
  if (verdict.kind !== 'verified') return verdict
  const payload = payloadOf(token)
  const named: string[] = []
  for (const name of source.claims) {
    const claim = claimIn(payload, name)
    if (claim === undefined) return refused(`has no claim ${name}, which this route identifies clients by`)
    named.push(name, claim)
  }
  return stated(`verified:${hashOf([source.issuer, ...named])}`)
}

/** Also behind a comma: lines that were joined on the way. */
const BEARER = /(^|,)[\t ]*bearer(?![\w!#$%&'*+.^`|~-])/i
const SIGNED_JWT = /^bearer +([\w-]+\.[\w-]+\.[\w-]+)$/i

const NO_VERIFIER: TokenFault = {
  kind: 'token_unverifiable',
  detail: 'This listener verifies no tokens, and the route demands it.',
}

function refused(reason: string): TokenFault {
  return { kind: 'token_refused', reason }
}

export function principalFrom(
  source: Exclude<PrincipalSource, VerifiedJwt>,
  headers: HeaderList,
  rules: PrincipalRules,
): NamedPrincipal {
  const authorization = linesOf(headers, 'authorization')
  const otherwise = (): NamedPrincipal => ({
    kind: 'principal',
    principal:
      authorization.length === 0 && rules.trusted
        ? (namedBy(rules.clientHeader, headers) ?? ANONYMOUS)
        : principalOf(authorization),
    stated: false,
  })
  switch (source.kind) {
    case 'authorization':
      return otherwise()
    case 'header': {
      const named = namedBy(source.name, headers)
      return named === undefined ? otherwise() : stated(named)
    }
    case 'jwt': {
      const [line = ''] = authorization.length === 1 && rules.trusted ? authorization : []
      const claim = claimIn(payloadOf(jwtIn(line)), source.claim)
      return claim === undefined ? otherwise() : stated(`jwt:${hashOf([source.claim, claim])}`)
    }
  }
}

function stated(principal: string): NamedPrincipal {
  return { kind: 'principal', principal, stated: true }
}

function namedBy(header: string, headers: HeaderList): string | undefined {
  const all = linesReadAs(headers, header)
  const lines = header === 'cookie' ? all.flatMap((line) => lastingCookies(line) ?? []) : all
  return lines.length === 0 ? undefined : `header:${hashOf([header, ...lines])}`
}

/** The bearer token of an Authorization line, if it has the form of a JWT; it may be unsigned. */
export function jwtIn(line: string): string | undefined {
  return /^bearer +([\w-]+\.[\w-]+\.[\w-]*)$/i.exec(line)?.[1]
}

/** The claims of a JWT, unverified; none where there is no token, or its payload is no JSON object. */
export function payloadOf(token: string | undefined): readonly Member[] {
  const payload = token?.split('.')[1]
  if (payload === undefined) return []
  const parsed = parseJson(Buffer.from(payload, 'base64url'))
  return parsed.kind === 'refused' || parsed.value.kind !== 'object' ? [] : parsed.value.members
}

/** Canonical JSON of one claim; undefined where there is no such claim, or one that is not exact. */
function claimIn(payload: readonly Member[], name: string): string | undefined {
  const values = payload.filter((member) => member.name === name).map((member) => member.value)
  const [value] = values
  if (value === undefined || values.length > 1 || value.kind === 'null') return undefined
  const written = writeCanonical(value)
  return written.kind === 'canonical' ? written.text : undefined
}

/** JSON keeps all lists of texts distinct, whatever is in them. */
function hashOf(texts: readonly (string | readonly string[])[]): string {
  return sha256Hex(Buffer.from(JSON.stringify(texts), 'utf8'))
}
