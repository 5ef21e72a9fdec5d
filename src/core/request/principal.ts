/**
 * Whose request it is, as a text that names nobody: without it one client could read what was stored for another.
 *
 * Forms that cannot meet: `anonymous`; 64 hex digits (SHA-256 of the one Authorization line); `authorization:` (several
 * lines), `header:` or `jwt:`, and 64 hex digits. Where the configured header or claim is not there, Authorization
 * decides; where that is not there either, the request is anonymous. A token's signature is not verified here.
 */

import { writeCanonical } from '../formats/canonical-json.ts'
import { sha256Hex, wireBytes } from '../formats/framing.ts'
import { linesOf } from '../formats/header-lines.ts'
import { parseJson } from '../formats/json.ts'
import type { HeaderList } from '../ports.ts'
import type { PrincipalSource } from '../routes/route.ts'

export const ANONYMOUS = 'anonymous'

/** @param lines all Authorization lines, as they crossed the wire */
export function principalOf(lines: readonly string[]): string {
  const [line] = lines
  if (line === undefined) return ANONYMOUS
  const bytes = lines.length === 1 ? wireBytes(line) : undefined
  return bytes === undefined ? `authorization:${hashOf(lines)}` : sha256Hex(bytes)
}

export function principalFrom(source: PrincipalSource, headers: HeaderList): string {
  const authorization = linesOf(headers, 'authorization')
  switch (source.kind) {
    case 'authorization':
      return principalOf(authorization)
    case 'header': {
      const lines = linesOf(headers, source.name)
      if (lines.length === 0) return principalOf(authorization)
      return `header:${hashOf([source.name, ...lines])}`
    }
    case 'jwt': {
      const claim = authorization.length === 1 ? claimOf(authorization[0]!, source.claim) : undefined
      if (claim === undefined) return principalOf(authorization)
      return `jwt:${hashOf([source.claim, claim])}`
    }
  }
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

/** JSON keeps all lists of texts apart, whatever is in them. */
function hashOf(texts: readonly string[]): string {
  return sha256Hex(Buffer.from(JSON.stringify(texts), 'utf8'))
}
