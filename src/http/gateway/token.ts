/** The token that a gateway shows, where the configuration asks for one. */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { Problem } from '../problems.ts'

export const TOKEN_HEADER = 'fencepost-gateway-token'

export const TOKEN_REQUIRED: Problem = {
  code: 'token-required',
  detail: 'Send the token as Fencepost-Gateway-Token.',
}

/** Compared by their hashes, so that neither length nor content shows in the time it takes; all are compared. */
export function isToken(shown: string | undefined, expected: readonly string[]): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  const given = hash(shown?.trim() ?? '')
  return expected.filter((one) => timingSafeEqual(given, hash(one))).length > 0
}
