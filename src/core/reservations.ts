/**
 * Reservations: an intent, or several at once, claimed by code that does its work elsewhere and says how it ended.
 *
 *   reserve → SUCCESS ── extend* ── complete | release
 *           → CONFLICT (held) | DUPLICATE (completed) | mismatch | unavailable
 *
 * Owns what makes several records one reservation: they are claimed in one order (by the bytes of their keys), all or
 * nothing, under one owner and one token. Nothing about a reservation is kept in this process: whoever has its parts (the
 * signed reservation id carries them) can extend, complete or release it through any sidecar of the cluster.
 *
 * Half of the owner follows from the session, half is random: a session that asks again for what it holds (its answer was
 * lost) is recognised by the first half and gets the same reservation, same token, instead of a conflict with itself.
 */

import type { ClaimResult, Lease, Leases, Random, ReadResult } from './ports.ts'
import type { Fingerprint, Owner } from './record.ts'
import type { StoredOutcome } from './stored-outcome.ts'
import type { Token } from './token.ts'

/** One intent: its record, and the fingerprint that a second use must match. */
export type Intent = { readonly recordKey: string; readonly fingerprint: Fingerprint }

/** Everything that later calls need: what a reservation id carries. */
export type Reservation = {
  readonly intents: readonly Intent[]
  readonly owner: Owner
  readonly token: Token
  readonly attempt: number
  readonly leaseMs: number
  readonly retentionMs: number
}

/** Bytes of an owner that name the session, of 16. */
export const SESSION_TAG_BYTES = 8

export type ReserveRequest = {
  readonly intents: readonly Intent[]
  /** {@link SESSION_TAG_BYTES} as hex digits, which nobody outside can compute from a session's id. */
  readonly sessionTag: string
  readonly leaseMs: number
  readonly retentionMs: number
  readonly budgetMs: number
}

export type ReserveResult =
  | { readonly kind: 'reserved'; readonly reservation: Reservation; readonly validUntilWallMs: number }
  /** `intent` is the one in the way. */
  | { readonly kind: 'conflict'; readonly intent: Intent; readonly retryAfterMs: number }
  | {
      readonly kind: 'duplicate'
      readonly intent: Intent
      readonly outcome: StoredOutcome
      readonly token: Token
      readonly attempt: number
    }
  | { readonly kind: 'mismatch'; readonly intent: Intent }
  | { readonly kind: 'damaged'; readonly intent: Intent }
  | { readonly kind: 'unavailable'; readonly answered: number; readonly required: number }

export type ExtendResult =
  | { readonly kind: 'extended'; readonly reservation: Reservation; readonly validUntilWallMs: number }
  | { readonly kind: 'lost' }
  | { readonly kind: 'unavailable' }

export type EndResult =
  | { readonly kind: 'done' }
  | { readonly kind: 'fenced' }
  | { readonly kind: 'unavailable' }

/** In one order for everybody, each once: two reservations of the same intents then never wait for each other in a circle. */
export function inOrder(intents: readonly Intent[]): readonly Intent[] {
  const byKey = new Map(intents.map((intent) => [intent.recordKey, intent]))
  return [...byKey.values()].sort((a, b) =>
    Buffer.compare(Buffer.from(a.recordKey), Buffer.from(b.recordKey)),
  )
}

export async function reserve(
  request: ReserveRequest,
  leases: Leases,
  random: Random,
): Promise<ReserveResult> {
  const { sessionTag, leaseMs, retentionMs, budgetMs } = request
  const owner = sessionTag + random.hex(16 - SESSION_TAG_BYTES)
  const held: Lease[] = []
  for (const intent of inOrder(request.intents)) {
    const { recordKey: key, fingerprint } = intent
    const claimed = await leases.claim({ key, fingerprint, owner, leaseMs, retentionMs, budgetMs })
    if (claimed.kind !== 'granted') {
      await releaseAll(held, leases)
      const resumed = claimed.kind === 'held' ? await resume(request, leases) : undefined
      return resumed ?? refusal(intent, claimed)
    }
    held.push(claimed.lease)
  }
  return underOneToken(held, request, owner, leases)
}

/** The reservation that this session holds already, where it holds exactly what it asks for; renewed, which also proves it. */
async function resume(request: ReserveRequest, leases: Leases): Promise<ReserveResult | undefined> {
  const { sessionTag, leaseMs, retentionMs } = request
  const intents = inOrder(request.intents)
  const standing = await read(intents, leases)
  const [first] = standing
  if (first?.kind !== 'claimed' || !first.owner.startsWith(sessionTag) || first.remainingMs === 0)
    return undefined
  const { owner, token } = first
  const same = standing.every((one) => one.kind === 'claimed' && one.owner === owner && one.token === token)
  if (!same) return undefined
  const attempt = Math.max(...standing.map((one) => (one.kind === 'claimed' ? one.attempt : 1)))
  const extended = await extend({ intents, owner, token, attempt, leaseMs, retentionMs }, leaseMs, leases)
  if (extended.kind !== 'extended') return undefined
  return { kind: 'reserved', reservation: extended.reservation, validUntilWallMs: extended.validUntilWallMs }
}

/**
 * Raises every claim to the largest of their tokens. A renewal by the same owner may carry a larger token, and the nodes
 * then hold it as the fence: whatever was granted before it is fenced by it.
 */
async function underOneToken(
  held: readonly Lease[],
  request: ReserveRequest,
  owner: Owner,
  leases: Leases,
): Promise<ReserveResult> {
  const token = Math.max(...held.map((lease) => lease.token))
  const attempt = Math.max(...held.map((lease) => lease.attempt))
  let validUntilWallMs = Number.POSITIVE_INFINITY
  for (const lease of held) {
    const raised = { ...lease, token }
    const current = lease.token === token ? ({ kind: 'renewed', lease } as const) : await leases.renew(raised)
    if (current.kind !== 'renewed') {
      await releaseAll([...held, ...held.map((one) => ({ ...one, token }))], leases)
      const intent = { recordKey: lease.key, fingerprint: lease.fingerprint }
      return { kind: 'conflict', intent, retryAfterMs: request.leaseMs }
    }
    validUntilWallMs = Math.min(validUntilWallMs, current.lease.validUntilWallMs)
  }
  const { leaseMs, retentionMs } = request
  const intents = held.map(({ key, fingerprint }) => ({ recordKey: key, fingerprint }))
  return {
    kind: 'reserved',
    reservation: { intents, owner, token, attempt, leaseMs, retentionMs },
    validUntilWallMs,
  }
}

function refusal(intent: Intent, claimed: Exclude<ClaimResult, { kind: 'granted' }>): ReserveResult {
  switch (claimed.kind) {
    case 'held':
      return { kind: 'conflict', intent, retryAfterMs: claimed.retryAfterMs }
    case 'duplicate':
      return { ...claimed, intent }
    case 'mismatch':
    case 'damaged':
      return { kind: claimed.kind, intent }
    case 'unavailable':
      return claimed
  }
}

async function releaseAll(held: readonly Lease[], leases: Leases): Promise<void> {
  await Promise.all(held.map((lease) => leases.release(lease)))
}

/** @param leaseMs from now on; also what later renewals use */
export async function extend(
  reservation: Reservation,
  leaseMs: number,
  leases: Leases,
): Promise<ExtendResult> {
  const renewed = await Promise.all(leasesOf({ ...reservation, leaseMs }).map((lease) => leases.renew(lease)))
  if (renewed.some(({ kind }) => kind === 'lost')) return { kind: 'lost' }
  let validUntilWallMs = Number.POSITIVE_INFINITY
  for (const one of renewed) {
    if (one.kind !== 'renewed') return { kind: 'unavailable' }
    validUntilWallMs = Math.min(validUntilWallMs, one.lease.validUntilWallMs)
  }
  return { kind: 'extended', reservation: { ...reservation, leaseMs }, validUntilWallMs }
}

/**
 * Records the same outcome for every intent. With several, each record is complete by itself: a caller that got no answer
 * asks again with the same outcome, and what was recorded already stays.
 */
export async function complete(
  reservation: Reservation,
  outcome: StoredOutcome,
  leases: Leases,
): Promise<EndResult> {
  const results = await Promise.all(leasesOf(reservation).map((lease) => leases.complete(lease, outcome)))
  if (results.some(({ kind }) => kind === 'fenced')) return { kind: 'fenced' }
  return results.every(({ kind }) => kind === 'recorded') ? { kind: 'done' } : { kind: 'unavailable' }
}

export async function release(reservation: Reservation, leases: Leases): Promise<EndResult> {
  const results = await Promise.all(leasesOf(reservation).map((lease) => leases.release(lease)))
  if (results.some(({ kind }) => kind === 'not_owner')) return { kind: 'fenced' }
  return results.every(({ kind }) => kind === 'released') ? { kind: 'done' } : { kind: 'unavailable' }
}

/** What stands for each intent now, in order. */
export function read(intents: readonly Intent[], leases: Leases): Promise<readonly ReadResult[]> {
  return Promise.all(inOrder(intents).map(({ recordKey }) => leases.read(recordKey)))
}

/** As the record protocol wants them. Validity is the nodes' to judge here: the caller's clock began with the first answer. */
function leasesOf({ intents, owner, token, attempt, leaseMs, retentionMs }: Reservation): readonly Lease[] {
  return intents.map(({ recordKey: key, fingerprint }) => ({
    key,
    token,
    owner,
    fingerprint,
    attempt,
    leaseMs,
    retentionMs,
    validUntilMonoMs: 0,
    validUntilWallMs: 0,
  }))
}
