/**
 * Settles an orphan: a claim that expired without an outcome, so that it is unknown whether its work was done.
 *
 * Owns the ways to settle it on the record itself, all by claiming it first, so that a decision never overtakes a
 * request that is being executed again at the same moment; and that what is decided is kept for as long as the record of
 * the claim would have been. A record does not name its route, and each route has a retention of its own.
 */

import type { ClaimResult, Leases, ReadResult } from '../ports.ts'
import type { Fingerprint } from '../record/record.ts'
import type { StoredOutcome } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'

export type Orphan = {
  readonly recordKey: string
  readonly fingerprint: Fingerprint
  /** The attempt as it was when the question was asked. */
  readonly attempt: number
  /** Of the claim that expired. A newer one may have the same attempt, where a decision came between them. */
  readonly token: Token
}

export type OrphanSettled =
  | { readonly kind: 'settled' }
  /** Another claimant holds it, or it has an outcome: there is nothing left to decide. */
  | {
      readonly kind: 'not_an_orphan'
      readonly because:
        | Exclude<ClaimResult['kind'], 'granted' | 'contended' | 'unavailable'>
        | 'fenced'
        | 'a later attempt'
    }
  | { readonly kind: 'unavailable' }

/**
 * How long a decision's own claim lasts, at most as long as nodes wait for any; and its record after it, where no node says how
 * long it keeps that.
 */
export type DecisionTerms = { readonly leaseMs: number; readonly retentionMs: number }

/** As long as the record would have been kept. At its very end, too, for as long as a late holder may send its own outcome. */
export function lastingAs(
  keptForMs: number | undefined,
  { leaseMs, retentionMs: otherwiseMs }: DecisionTerms,
): DecisionTerms {
  return { leaseMs, retentionMs: keptForMs === undefined ? otherwiseMs : Math.max(leaseMs, keptForMs) }
}

const BUDGET_MS = 2_000

/**
 * It was not executed: the next request is a first attempt again, of any content. Where a node misses a part of the
 * decision, the next request may still be told that it is the second attempt: the safe side.
 */
export async function forgetOrphan(
  orphan: Orphan,
  terms: DecisionTerms,
  leases: Leases,
): Promise<OrphanSettled> {
  const now = await leases.read(orphan.recordKey)
  if (now.kind === 'unavailable') return { kind: 'unavailable' }
  const isNewer = now.kind === 'claimed' && now.token > orphan.token
  return decide(orphan, now, terms, leases, async (lease) => {
    // A client retried meanwhile, and that attempt expired too: its question is not answered yet, so release its claim.
    // A claim that expires between the read and this claim is one attempt more.
    if (isNewer || lease.attempt > orphan.attempt + 1) {
      await leases.release(lease)
      return 'later'
    }
    // Renewed as a first attempt, so that its release does not restore the expired claim.
    const renewed = await leases.renew({ ...lease, attempt: 1 })
    if (renewed.kind !== 'renewed') return renewed.kind === 'lost' ? 'fenced' : 'unavailable'
    const released = await leases.release(renewed.lease)
    return released.kind === 'released' ? 'done' : 'unavailable'
  })
}

/** It was executed, and this is its outcome: duplicates are answered with it. */
export async function concludeOrphan(
  orphan: Orphan,
  outcome: StoredOutcome,
  terms: DecisionTerms,
  leases: Leases,
): Promise<OrphanSettled> {
  const now = await leases.read(orphan.recordKey)
  return decide(orphan, now, terms, leases, async (lease) => {
    const completed = await leases.complete(lease, outcome)
    if (completed.kind === 'recorded') return 'done'
    return completed.kind === 'fenced' ? 'fenced' : 'unavailable'
  })
}

/** A node remembers an outcome that no majority is known to have: it becomes the record's, as by any other claim. */
export async function adoptOutcome(orphan: Orphan, terms: DecisionTerms, leases: Leases): Promise<boolean> {
  const now = await leases.read(orphan.recordKey)
  const settled = await decide(orphan, now, terms, leases, async (lease) => {
    // The node that remembers it did not answer: release the takeover, which restores the expired claim.
    await leases.release(lease)
    return 'unavailable'
  })
  return settled.kind === 'not_an_orphan'
}

type Claimed = Extract<ClaimResult, { kind: 'granted' }>['lease']

async function decide(
  { recordKey: key, fingerprint }: Orphan,
  now: ReadResult,
  terms: DecisionTerms,
  leases: Leases,
  act: (lease: Claimed) => Promise<'done' | 'fenced' | 'later' | 'unavailable'>,
): Promise<OrphanSettled> {
  const lasting = lastingAs('keptForMs' in now ? now.keptForMs : undefined, terms)
  const claimed = await leases.claim({ key, fingerprint, ...lasting, budgetMs: BUDGET_MS })
  // Contended: no holder is known, and the question is as open as before.
  if (claimed.kind === 'unavailable' || claimed.kind === 'contended') return { kind: 'unavailable' }
  if (claimed.kind !== 'granted') return { kind: 'not_an_orphan', because: claimed.kind }
  const acted = await act(claimed.lease)
  if (acted === 'done') return { kind: 'settled' }
  if (acted === 'later') return { kind: 'not_an_orphan', because: 'a later attempt' }
  return acted === 'fenced' ? { kind: 'not_an_orphan', because: 'fenced' } : { kind: 'unavailable' }
}

/** What became of an attempt, as the application replies when it is asked (FENCEPOST_SETTLE_PATH). */
export type Verdict = 'completed' | 'released' | 'unknown'

/** It was executed, and this is the answer, as duplicates are to get it. */
type Reconciled = { readonly verdict: 'completed'; readonly outcome: StoredOutcome }

export type SettleReply = Verdict | Reconciled

/** Of an attempt of which only this is known. */
const EXECUTED_STATUS = 200

export function verdictOf(reply: SettleReply): Verdict {
  return typeof reply === 'string' ? reply : reply.verdict
}

/** The outcome of a reply that says `completed`: where it says no more, a tombstone, because its answer is not known. */
export function executedOutcome(reply: SettleReply, wallMs: number): StoredOutcome {
  return typeof reply === 'string'
    ? { kind: 'tombstone', status: EXECUTED_STATUS, completedAtWallMs: wallMs }
    : reply.outcome
}
