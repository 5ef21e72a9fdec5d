/** Whether a caller has a token that the configuration requires, and which. */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

export function isToken(sent: string | undefined, expected: readonly string[]): boolean {
  return matching(sent?.trim(), expected, (token) => token).length > 0
}

/** Compares hashes, and all of them: the time reveals neither length nor content, nor which token matched. */
export function matching<T>(
  sent: string | undefined,
  expected: readonly T[],
  tokenOf: (one: T) => string,
): T[] {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  const given = hash(sent ?? '')
  return expected.filter((one) => timingSafeEqual(given, hash(tokenOf(one))))
}

/** RFC 6750, section 2.1; the name of the scheme in any case (RFC 9110, section 11.1). */
export function bearerOf({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  return /^bearer +(\S+) *$/i.exec(authorization)?.[1]
}
