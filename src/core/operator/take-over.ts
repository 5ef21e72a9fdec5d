/**
 * How a decision gets past a live lease or a recorded outcome, as one more claimant: with a token of its own, on a
 * majority of the nodes, by the commands that every holder sends.
 *
 * Owns the uniqueness of that token. A decision first claims a lock of its own for the record, and raises it above
 * every token that a node shows: a majority grants a token once, so no two operators, and no operator and a holder,
 * ever propose under the same one. The lock also is what makes one of two operators wait for the other.
 *
 *   live       renew the claim under the larger token, as a further attempt, and release that attempt: what stays is
 *              the expired claim of the holder, above its token, so that whatever it still sends is refused
 *   completed  to forget it, have every node forget what stands below the larger token, which stays promised: no
 *              sidecar that claims the key from then on gets a smaller one, even if this one ends in between. Where
 *              nodes show outcomes of several tokens, the present one is written everywhere first: else an earlier one
 *              comes back from a node that misses the forgetting
 *              to replace it, write the other outcome under the larger token: the one write by which a chosen value
 *              changes, because the operator said so. Each node has the one or the other at every moment, so nobody
 *              is granted the key
 */

import type { DecisionTerms } from '../coordination/settle-orphan.ts'
import { sha256Hex } from '../formats/framing.ts'
import type { ClaimResult, Lease, Leases } from '../ports.ts'
import { ATTEMPT_MAX } from '../record/record.ts'
import type { StoredOutcome } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'
import type { RecordView } from './record-view.ts'

/**
 * Longer than all rounds of a decision; a sidecar that dies in one keeps other operators out for as long. Never longer
 * than the terms allow: a node that forgot waits for no longer lease before it votes again.
 */
const LOCK_LEASE_MS_MAX = 15_000
const BUDGET_MS = 2_000

type Lock = { readonly kind: 'locked'; readonly lease: Lease } | { readonly kind: 'busy' | 'unavailable' }

type TakenOver = 'done' | 'moved_on' | 'unavailable'

/** Keys with an empty tenant part belong to no request. */
function lockKeyOf(recordKey: string): string {
  return `dedup::decision:${recordKey}`
}

/** The right to decide on this record, alone, under a token that is larger than any on it. */
export async function lockDecision(
  view: RecordView,
  terms: Pick<DecisionTerms, 'leaseMs'>,
  leases: Leases,
): Promise<Lock> {
  const key = lockKeyOf(view.recordKey)
  const leaseMs = Math.min(LOCK_LEASE_MS_MAX, terms.leaseMs)
  const claimed = await leases.claim({
    key,
    fingerprint: sha256Hex(Buffer.from(key)),
    leaseMs,
    retentionMs: LOCK_LEASE_MS_MAX,
    budgetMs: BUDGET_MS,
  })
  if (claimed.kind === 'held' || claimed.kind === 'contended') return { kind: 'busy' }
  if (claimed.kind !== 'granted') return { kind: 'unavailable' }
  const above = aboveAllOn(view)
  if (claimed.lease.token >= above) return { kind: 'locked', lease: claimed.lease }
  const raised = await leases.renewWithHigherToken({ ...claimed.lease, token: above })
  if (raised.kind === 'renewed') return { kind: 'locked', lease: raised.lease }
  await leases.release(claimed.lease)
  return { kind: raised.kind === 'lost' ? 'busy' : 'unavailable' }
}

/** The same right under a larger token again, after something was written under it; undefined where it is lost. */
export async function renewLockWithHigherToken(
  lock: Lease,
  view: RecordView,
  leases: Leases,
): Promise<Lease | undefined> {
  const raised = await leases.renewWithHigherToken({
    ...lock,
    token: Math.max(lock.token + 1, aboveAllOn(view)),
  })
  return raised.kind === 'renewed' ? raised.lease : undefined
}

function aboveAllOn({ largestToken = 0 }: RecordView): Token {
  return largestToken + 1
}

/** Ends a live claim: its holder is fenced, and its attempt is remembered as one of unknown fate. */
export async function endLiveClaim(
  { recordKey: key, owner, attempt, fingerprint }: RecordView,
  lock: Lease,
  terms: DecisionTerms,
  leases: Leases,
): Promise<TakenOver> {
  if (owner === undefined || attempt === undefined || fingerprint === undefined) return 'moved_on'
  const further = Math.min(ATTEMPT_MAX, attempt + 1)
  const lease = { ...lock, ...terms, key, owner, fingerprint, attempt: further }
  const renewed = await leases.renew(lease)
  // A node that renewed it shows a claim that ends by itself; releasing it now leaves nobody waiting for that.
  const released = await leases.release(renewed.kind === 'renewed' ? renewed.lease : lease)
  if (renewed.kind === 'lost') return 'moved_on'
  return renewed.kind === 'renewed' && released.kind !== 'unavailable' ? 'done' : 'unavailable'
}

/** Makes every node forget a recorded outcome, and claims the key, which proves it. */
export async function claimAfterForgetting(
  { recordKey: key, fingerprint = '' }: RecordView,
  lock: Lease,
  terms: DecisionTerms,
  leases: Leases,
): Promise<ClaimResult> {
  const forgotten = await leases.purge({ ...lock, ...terms, key })
  if (forgotten.kind !== 'released') return { kind: 'unavailable', answered: 0, required: 0 }
  return leases.claim({ key, fingerprint, ...terms, budgetMs: BUDGET_MS })
}

/** Whether some node keeps an outcome of an earlier token: what was replaced, or never was on a majority. */
export function showsSeveralOutcomes({ state, nodes }: RecordView): boolean {
  if (state !== 'completed') return false
  return new Set(nodes.flatMap(({ acceptedToken }) => acceptedToken ?? [])).size > 1
}

/**
 * Whether all nodes are known to have forgotten it: each shows a larger token than the decision's, and no outcome but a
 * later one that a majority has. A node that missed a part of the decision would bring the outcome back, or take it from a
 * holder that comes late; and a duplicate that adopted it from such a node did so under a larger token.
 */
export function isForgottenEverywhere({ outcome }: RecordView, after: RecordView, { token }: Lease): boolean {
  const isBack = after.outcome !== undefined && after.outcome.completedAtWallMs === outcome?.completedAtWallMs
  const isLater = (accepted: Token) => after.state === 'completed' && !isBack && accepted > token
  return after.nodes.every(
    (row) => (row.token ?? 0) > token && (row.acceptedToken === undefined || isLater(row.acceptedToken)),
  )
}

/** Gives the key back under a token above the decision's: an application that compares tokens has seen smaller ones only. */
export async function releaseAbove(lock: Lease, claimed: Lease, leases: Leases): Promise<TakenOver> {
  const raised =
    claimed.token > lock.token
      ? ({ kind: 'renewed', lease: claimed } as const)
      : await leases.renewWithHigherToken({ ...claimed, token: lock.token + 1 })
  const released = await leases.release(raised.kind === 'renewed' ? raised.lease : claimed)
  return raised.kind === 'renewed' && released.kind === 'released' ? 'done' : 'unavailable'
}

/** The key is never free in between: a request that comes meanwhile is answered, and not executed. */
export async function replaceOutcome(
  { recordKey: key, attempt = 1, fingerprint = '' }: RecordView,
  outcome: StoredOutcome,
  lock: Lease,
  terms: DecisionTerms,
  leases: Leases,
): Promise<Exclude<TakenOver, 'moved_on'>> {
  const written = await leases.complete({ ...lock, ...terms, key, attempt, fingerprint }, outcome)
  return written.kind === 'recorded' ? 'done' : 'unavailable'
}
