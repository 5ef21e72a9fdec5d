/**
 * Whose request it is, as a text that reveals no name: without it one client could read what was stored for another.
 *
 * Forms that cannot collide: `anonymous`; 64 hex digits (SHA-256 of the one Authorization line); `authorization:`
 * (several lines), `header:` or `jwt:`, and 64 hex digits. Where the configured header or claim is absent,
 * Authorization decides; where that is absent too, the header that names the client does, if its sender is trusted;
 * else the request is anonymous. A token's signature is not verified here.
 */

import { writeCanonical } from '../formats/canonical-json.ts'
import { sha256Hex, wireBytes } from '../formats/framing.ts'
import { linesOf } from '../formats/header-lines.ts'
import { parseJson } from '../formats/json.ts'
import type { HeaderList } from '../header-list.ts'
import type { PrincipalSource } from '../routes/route.ts'

export const ANONYMOUS = 'anonymous'

/** One for the proxy, the reservation API and the gateways, or one request would be two. */
export type PrincipalRules = {
  /** Names the client of a request that would be anonymous; lower case. */
  readonly clientHeader: string
  /** Its sender is trusted: tenant, version and client are taken from the headers of the request. */
  readonly trusted: boolean
}

/** @param lines all Authorization lines, as they crossed the wire */
export function principalOf(lines: readonly string[]): string {
  const [line] = lines
  if (line === undefined) return ANONYMOUS
  const bytes = lines.length === 1 ? wireBytes(line) : undefined
  return bytes === undefined ? `authorization:${hashOf(lines)}` : sha256Hex(bytes)
}

export function principalFrom(source: PrincipalSource, headers: HeaderList, rules: PrincipalRules): string {
  const authorization = linesOf(headers, 'authorization')
  const otherwise = (): string =>
    authorization.length === 0 && rules.trusted
      ? (namedBy(rules.clientHeader, headers) ?? ANONYMOUS)
      : principalOf(authorization)
  switch (source.kind) {
    case 'authorization':
      return otherwise()
    case 'header':
      return namedBy(source.name, headers) ?? otherwise()
    case 'jwt': {
      const claim = authorization.length === 1 ? claimOf(authorization[0]!, source.claim) : undefined
      return claim === undefined ? otherwise() : `jwt:${hashOf([source.claim, claim])}`
    }
  }
}

function namedBy(header: string, headers: HeaderList): string | undefined {
  const lines = linesOf(headers, header)
  return lines.length === 0 ? undefined : `header:${hashOf([header, ...lines])}`
}

/** Canonical JSON of one claim; undefined where there is no token, no such claim, or a claim that is not exact. */
function claimOf(authorization: string, name: string): string | undefined {
  const payload = /^bearer +[\w-]+\.([\w-]+)\.[\w-]*$/i.exec(authorization)?.[1]
  if (payload === undefined) return undefined
  const parsed = parseJson(Buffer.from(payload, 'base64url'))
  if (parsed.kind === 'refused' || parsed.value.kind !== 'object') return undefined
  const values = parsed.value.members.filter((member) => member.name === name).map((member) => member.value)
  const [value] = values
  if (value === undefined || values.length > 1 || value.kind === 'null') return undefined
  const written = writeCanonical(value)
  return written.kind === 'canonical' ? written.text : undefined
}

/** JSON keeps all lists of texts distinct, whatever is in them. */
function hashOf(texts: readonly string[]): string {
  return sha256Hex(Buffer.from(JSON.stringify(texts), 'utf8'))
}
