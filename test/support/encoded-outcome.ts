/** Outcomes as a node has them, of tests in which none ends. */

import { encodeOutcome as encode, NO_END, type StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import type { Token } from '../../src/core/record/token.ts'

export function encodeOutcome(outcome: StoredOutcome, token?: Token): Buffer {
  return encode(outcome, token, NO_END)
}

export function outcomeSaying(text: string): Buffer {
  const body = Buffer.from(text)
  return encodeOutcome({ kind: 'response', status: 201, headers: [], body, completedAtWallMs: 1 })
}
