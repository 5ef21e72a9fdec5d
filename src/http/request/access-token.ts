/** Whether a caller has shown a token that the configuration asks for. */

import { createHash, timingSafeEqual } from 'node:crypto'

/** By their hashes, so that neither length nor content shows in the time it takes; all of them, so that it does not tell which. */
export function isToken(shown: string | undefined, expected: readonly string[]): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  const given = hash(shown?.trim() ?? '')
  return expected.filter((one) => timingSafeEqual(given, hash(one))).length > 0
}
