/**
 * Reconciles a grant of the quorum with what this process executed by itself while the quorum was lost (`local`).
 *
 * Until that is written back, the quorum does not know of it: its grant does not prove that nothing was executed. Owns
 * only what a grant then amounts to; where the quorum has an answer, that answer stands. It writes nothing.
 */

import type { ClaimResult, Leases } from '../ports.ts'
import { ATTEMPT_MAX } from '../record/record.ts'

export async function reconcileLocalRecord(
  claimed: ClaimResult,
  leases: Pick<Leases, 'release'>,
  own: Pick<Leases, 'read'>,
): Promise<ClaimResult> {
  if (claimed.kind !== 'granted') return claimed
  const { lease } = claimed
  const known = await own.read(lease.key)
  if (known.kind === 'absent' || known.kind === 'released') return claimed
  // The unknown may be an outcome: begin nothing beside it.
  if (known.kind === 'unavailable' || known.kind === 'damaged') {
    await leases.release(lease)
    return known
  }
  const same = known.fingerprint === lease.fingerprint
  // It got no answer: that was an attempt, too.
  if (same && known.kind === 'claimed' && known.remainingMs === 0) {
    const next = Math.min(ATTEMPT_MAX, known.attempt + 1)
    return { kind: 'granted', lease: { ...lease, attempt: Math.max(lease.attempt, next) } }
  }
  await leases.release(lease)
  if (!same) return { kind: 'mismatch' }
  return known.kind === 'claimed'
    ? { kind: 'held', retryAfterMs: known.remainingMs }
    : { kind: 'duplicate', outcome: known.outcome, token: known.token, attempt: known.attempt }
}
