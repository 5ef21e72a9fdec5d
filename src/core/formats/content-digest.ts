/**
 * Verifies a body against its Content-Digest.
 *
 * The digest is over the bytes of the message, before any content coding is undone. Every digest of an algorithm that we
 * know must match; others are ignored, as the RFC wants it. A field that cannot be read is refused rather than ignored:
 * a client that sends a digest asks for the body to be checked.
 *
 * Source: RFC 9530, sections 2 and 5.
 */

import { hash } from 'node:crypto'
import { parseDictionary } from './structured-field.ts'

/** The active algorithms of RFC 9530, under their names in the field and in node:crypto. */
const ALGORITHMS: ReadonlyMap<string, string> = new Map([
  ['sha-256', 'sha256'],
  ['sha-512', 'sha512'],
])

export type DigestFault =
  | { readonly kind: 'digest_malformed'; readonly detail: string }
  | { readonly kind: 'digest_mismatch'; readonly algorithm: string }

/** @param lines all Content-Digest lines of the request */
export function verifyDigest(lines: readonly string[], body: Uint8Array): DigestFault | undefined {
  if (lines.length === 0) return undefined
  const announced = parseDictionary(lines.join(', '))
  if (announced === undefined) return malformed('Content-Digest is no structured-field dictionary')
  const expected: { algorithm: string; name: string; digest: Buffer }[] = []
  for (const [algorithm, value] of announced) {
    const name = ALGORITHMS.get(algorithm)
    if (name === undefined) continue
    if (value.type !== 'bytes') return malformed(`${algorithm} of Content-Digest is no byte sequence`)
    expected.push({ algorithm, name, digest: value.value })
  }
  const wrong = expected.find(({ name, digest }) => !hash(name, body, 'buffer').equals(digest))
  return wrong === undefined ? undefined : { kind: 'digest_mismatch', algorithm: wrong.algorithm }
}

function malformed(detail: string): DigestFault {
  return { kind: 'digest_malformed', detail }
}
