/** Whether a caller has a token that the configuration requires. */

import { createHash, timingSafeEqual } from 'node:crypto'

/** Compares hashes, and all of them: the time reveals neither length nor content, nor which token matched. */
export function isToken(sent: string | undefined, expected: readonly string[]): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  const given = hash(sent?.trim() ?? '')
  return expected.filter((one) => timingSafeEqual(given, hash(one))).length > 0
}
