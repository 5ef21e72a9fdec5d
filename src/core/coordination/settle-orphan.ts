/**
 * Deciding about an orphan: a claim that lapsed without an outcome, so that nobody knows whether its work was done.
 *
 * Owns the two ways to answer the question on the record itself, both by claiming it first, so that a decision never
 * overtakes a request that is being carried out again at the same moment.
 */

import type { ClaimResult, Leases } from '../ports.ts'
import type { Fingerprint } from '../record/record.ts'
import type { StoredOutcome } from '../record/stored-outcome.ts'

export type Orphan = { readonly recordKey: string; readonly fingerprint: Fingerprint }

export type OrphanSettled =
  | { readonly kind: 'settled' }
  /** Somebody holds it, or it has an outcome: there is nothing to decide any more. */
  | { readonly kind: 'not_an_orphan'; readonly because: Exclude<ClaimResult['kind'], 'granted'> | 'fenced' }
  | { readonly kind: 'unavailable' }

const DECISION = { leaseMs: 10_000, budgetMs: 2_000 } as const

/**
 * It was not carried out: the next request is a first attempt again, of any content. Where a node misses a part of the
 * decision the next request may still be told that it is the second attempt: the cautious side to err on.
 */
export async function forgetOrphan(
  orphan: Orphan,
  retentionMs: number,
  leases: Leases,
): Promise<OrphanSettled> {
  return decide(orphan, retentionMs, leases, async (lease) => {
    // Renewed as a first attempt, so that its release does not give the lapsed claim back.
    const renewed = await leases.renew({ ...lease, attempt: 1 })
    if (renewed.kind !== 'renewed') return renewed.kind === 'lost' ? 'fenced' : 'unavailable'
    const released = await leases.release(renewed.lease)
    return released.kind === 'released' ? 'done' : 'unavailable'
  })
}

/** It was carried out, and this is its outcome: duplicates are answered with it. */
export async function concludeOrphan(
  orphan: Orphan,
  outcome: StoredOutcome,
  retentionMs: number,
  leases: Leases,
): Promise<OrphanSettled> {
  return decide(orphan, retentionMs, leases, async (lease) => {
    const completed = await leases.complete(lease, outcome)
    if (completed.kind === 'recorded') return 'done'
    return completed.kind === 'fenced' ? 'fenced' : 'unavailable'
  })
}

type Claimed = Extract<ClaimResult, { kind: 'granted' }>['lease']

async function decide(
  { recordKey: key, fingerprint }: Orphan,
  retentionMs: number,
  leases: Leases,
  act: (lease: Claimed) => Promise<'done' | 'fenced' | 'unavailable'>,
): Promise<OrphanSettled> {
  const claimed = await leases.claim({ key, fingerprint, retentionMs, ...DECISION })
  if (claimed.kind === 'unavailable') return { kind: 'unavailable' }
  if (claimed.kind !== 'granted') return { kind: 'not_an_orphan', because: claimed.kind }
  const acted = await act(claimed.lease)
  if (acted === 'done') return { kind: 'settled' }
  return acted === 'fenced' ? { kind: 'not_an_orphan', because: 'fenced' } : { kind: 'unavailable' }
}
