/**
 * What the application replies when it is asked about an attempt (FENCEPOST_SETTLE_PATH), and the outcome that follows.
 *
 * Owns what is recorded where the application says only that the attempt was executed: a tombstone, because its answer
 * is not known.
 */

import type { StoredOutcome } from '../record/stored-outcome.ts'

/** What became of the attempt. */
export type Verdict = 'completed' | 'released' | 'unknown'

/** It was executed, and this is the answer, as duplicates are to get it. */
export type Reconciled = { readonly verdict: 'completed'; readonly outcome: StoredOutcome }

export type SettleReply = Verdict | Reconciled

/** Of an attempt of which only this is known. */
const EXECUTED_STATUS = 200

export function verdictOf(reply: SettleReply): Verdict {
  return typeof reply === 'string' ? reply : reply.verdict
}

/** The outcome of a reply that says `completed`. */
export function executedOutcome(reply: SettleReply, wallMs: number): StoredOutcome {
  return typeof reply === 'string'
    ? { kind: 'tombstone', status: EXECUTED_STATUS, completedAtWallMs: wallMs }
    : reply.outcome
}
