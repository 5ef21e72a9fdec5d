/**
 * Reservations: an intent, or several at once, claimed by code that does its work elsewhere and says how it ended.
 *
 *   reserve → SUCCESS ── extend* ── complete | release
 *           → CONFLICT (held) | DUPLICATE (completed) | mismatch | unavailable
 *
 * Owns what is done with a reservation once it is granted; `reserve.ts` claims it. This process keeps nothing of it: its
 * parts (the signed reservation id carries them) suffice to extend, complete or release it through any sidecar of the
 * cluster.
 *
 * Entities are locked besides: their records are claimed like the others, and released at the end instead of completed.
 */

import type { CompleteResult, Lease, Leases, ReadResult } from '../ports.ts'
import type { Fingerprint, Owner } from '../record/record.ts'
import type { StoredOutcome } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'
import type { ClaimTrace } from '../tracing.ts'

/** One intent: its record, and the fingerprint that a second use must match. */
export type Intent = { readonly recordKey: string; readonly fingerprint: Fingerprint }

/** Everything that later calls need: the contents of a reservation id. */
export type Reservation = {
  readonly intents: readonly Intent[]
  /** What no other request may work on meanwhile; these records never get an outcome. */
  readonly entities: readonly Intent[]
  readonly owner: Owner
  readonly token: Token
  /** The largest of its intents'. */
  readonly attempt: number
  /** That of each intent, where they differ: an earlier attempt at one may not have included the others. */
  readonly attempts?: readonly number[]
  readonly leaseMs: number
  readonly retentionMs: number
  /** Where tracing recorded its claim: another sidecar's calls link to that. */
  readonly trace?: ClaimTrace
}

/** Bytes of an owner that name the session, of 16. */
export const SESSION_TAG_BYTES = 8

/** How long a reservation is valid: the sooner clock ends it, and of several leases the one that ends first. */
export type Validity = Pick<Lease, 'validUntilMonoMs' | 'validUntilWallMs'>

export type ExtendResult =
  | { readonly kind: 'extended'; readonly reservation: Reservation; readonly validity: Validity }
  | { readonly kind: 'lost' }
  /** Its holder completed it: there is nothing left to hold. */
  | { readonly kind: 'done' }
  | { readonly kind: 'unavailable' }

export type EndResult =
  | { readonly kind: 'done' }
  /** Its own holder completed it with `outcome` before, which stands. Nobody came in between. */
  | { readonly kind: 'done_otherwise'; readonly outcome: StoredOutcome }
  /** Surely without effect. */
  | { readonly kind: 'fenced' }
  /** Refused for good, perhaps not without effect: a later claim may still adopt it, or a part of it is recorded. */
  | { readonly kind: 'undecided' }
  | { readonly kind: 'unavailable' }

/** Of several leases: the one that ends first. */
export function soonest(all: readonly Validity[]): Validity {
  return {
    validUntilMonoMs: Math.min(...all.map((one) => one.validUntilMonoMs)),
    validUntilWallMs: Math.min(...all.map((one) => one.validUntilWallMs)),
  }
}

/** What is given up before it is answered: a later call of the same session may have resumed it, and keeps it then. */
export async function abortClaims(held: readonly Lease[], leases: Leases): Promise<void> {
  await Promise.all(held.map((lease) => leases.abortClaim(lease)))
}

/**
 * Looks before it renews: a node without the record takes a renewal, which repairs it, so renewing does not notice that all of them have
 * forgotten it since, and others may have come and gone. Nor does it notice an outcome of its own, which a node keeps beside the lease
 * until a majority has it.
 *
 * @param leaseMs from then on, and what later renewals use; asked for when it is sent, because another extension may come in between
 */
export async function extend(
  reservation: Reservation,
  leaseMs: () => number,
  leases: Leases,
): Promise<ExtendResult> {
  const standing = await read(reservation.intents, leases)
  if (standing.every((one) => one.kind === 'completed' && one.token === reservation.token))
    return { kind: 'done' }
  if (standing.some(({ kind }) => kind === 'absent')) return { kind: 'lost' }
  return renewAll(reservation, leaseMs(), leases)
}

/** Of a reservation that was just seen to stand. */
export async function renewAll(
  reservation: Reservation,
  leaseMs: number,
  leases: Leases,
): Promise<Exclude<ExtendResult, { kind: 'done' }>> {
  const renewed = await Promise.all(leasesOf({ ...reservation, leaseMs }).map((lease) => leases.renew(lease)))
  if (renewed.some(({ kind }) => kind === 'lost')) return { kind: 'lost' }
  const valid = renewed.flatMap((one) => (one.kind === 'renewed' ? [one.lease] : []))
  if (valid.length < renewed.length) return { kind: 'unavailable' }
  return { kind: 'extended', reservation: { ...reservation, leaseMs }, validity: soonest(valid) }
}

/**
 * Records the same outcome for every intent, or for none where another holder came after at one of them: a caller that
 * is fenced undoes its work for all of them. With several, each record is complete by itself: a caller without an
 * answer retries with the same outcome, and what was recorded already stays.
 */
export async function complete(
  reservation: Reservation,
  outcome: StoredOutcome,
  leases: Leases,
): Promise<EndResult> {
  const all = leasesOf(reservation)
  const intents = all.slice(0, reservation.intents.length)
  const lost = intents.length === 1 ? [] : await lostOf(intents, leases)
  // A lost one has our outcome already or never will: try it before writing the others.
  for (const part of [lost, intents.filter((lease) => !lost.includes(lease))]) {
    const results = await Promise.all(part.map((lease) => leases.complete(lease, outcome)))
    const refused = doneOtherwise(results, reservation) ?? refusalOf(results)
    if (refused?.kind === 'fenced' && part === lost) return await whereLost(intents, lost, leases)
    if (refused !== undefined) return refused
  }
  // Only now may the next holder work on the entities. An unreachable one is free when its lease ends.
  await Promise.all(all.slice(reservation.intents.length).map((lease) => leases.release(lease)))
  return { kind: 'done' }
}

/** Where all of them have an outcome of this very token: its holder asks again, and with another one. */
function doneOtherwise(
  results: readonly CompleteResult[],
  { token }: Reservation,
): Extract<EndResult, { kind: 'done_otherwise' }> | undefined {
  const own = results.flatMap((one) =>
    one.kind === 'fenced' && one.winner?.token === token ? [one.winner.outcome] : [],
  )
  const [outcome] = own
  return outcome === undefined || own.length < results.length
    ? undefined
    : { kind: 'done_otherwise', outcome }
}

/** `fenced`, without effect, is true of all of them, or not claimed. */
function refusalOf(
  results: readonly CompleteResult[],
): Exclude<EndResult, { kind: 'done' | 'done_otherwise' }> | undefined {
  const kinds = new Set(results.map(({ kind }) => kind))
  if (kinds.has('undecided') || (kinds.has('fenced') && kinds.size > 1)) return { kind: 'undecided' }
  if (kinds.has('fenced')) return { kind: 'fenced' }
  return kinds.has('unavailable') ? { kind: 'unavailable' } : undefined
}

/** The lost ones have none of it. An earlier call may have recorded it for others, before these were lost. */
async function whereLost(
  intents: readonly Lease[],
  lost: readonly Lease[],
  leases: Leases,
): Promise<EndResult> {
  const others = intents.filter((lease) => !lost.includes(lease))
  const standing = await Promise.all(others.map(({ key }) => leases.read(key)))
  const untouched = standing.every((one) => one.kind === 'claimed' && one.minorityOutcome === undefined)
  return { kind: untouched ? 'fenced' : 'undecided' }
}

/** Renews the others for another lease, so that no other claimant takes one of them while they are written. */
async function lostOf(intents: readonly Lease[], leases: Leases): Promise<readonly Lease[]> {
  const renewed = await Promise.all(intents.map((lease) => leases.renew(lease)))
  return intents.filter((_, index) => renewed[index]!.kind === 'lost')
}

export async function release(reservation: Reservation, leases: Leases): Promise<EndResult> {
  const results = await Promise.all(leasesOf(reservation).map((lease) => leases.release(lease)))
  if (results.some(({ kind }) => kind === 'not_owner')) return { kind: 'fenced' }
  return results.every(({ kind }) => kind === 'released') ? { kind: 'done' } : { kind: 'unavailable' }
}

/** Gives up a reservation that was never answered. */
export function abortReservation(reservation: Reservation, leases: Leases): Promise<void> {
  return abortClaims(leasesOf(reservation), leases)
}

/** The record of each of them now, in the order given. */
export function read(intents: readonly Intent[], leases: Leases): Promise<readonly ReadResult[]> {
  return Promise.all(intents.map(({ recordKey }) => leases.read(recordKey)))
}

/** As the record protocol wants them. The nodes judge validity here: the caller's clock began with the first answer. */
function leasesOf(reservation: Reservation): readonly Lease[] {
  const { intents, entities, owner, token, attempt, attempts, leaseMs, retentionMs } = reservation
  return [...intents, ...entities].map(({ recordKey: key, fingerprint }, index) => ({
    key,
    token,
    owner,
    fingerprint,
    // The attempts of an entity do not count: a release leaves nothing of them.
    attempt: index < intents.length ? (attempts?.[index] ?? attempt) : 1,
    leaseMs,
    retentionMs,
    validUntilMonoMs: 0,
    validUntilWallMs: 0,
  }))
}
