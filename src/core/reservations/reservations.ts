/**
 * Reservations: an intent, or several at once, claimed by code that does its work elsewhere and says how it ended.
 *
 *   reserve → SUCCESS ── extend* ── complete | release
 *           → CONFLICT (held) | DUPLICATE (completed) | mismatch | unavailable
 *
 * Owns what makes several records one reservation: they are claimed in one order (by the bytes of their keys), all or
 * nothing, under one owner and one token. This process keeps nothing of a reservation: its parts (the signed
 * reservation id carries them) suffice to extend, complete or release it through any sidecar of the cluster.
 *
 * Entities are locked besides: their records are claimed like the others, and released at the end instead of completed.
 *
 * Half of the owner follows from the session, half is random: a session that retries because its answer was lost is
 * recognised by the first half and gets the same reservation, same token, instead of a conflict with itself.
 */

import { isTaken } from '../claims/waiters.ts'
import type { Random } from '../clock.ts'
import type { ClaimResult, CompleteResult, Lease, Leases, ReadResult } from '../ports.ts'
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

/** Retry-After where no other holder is known: races end within a claim's budget. */
const CONTENDED_RETRY_AFTER_MS = 1_000

/** Bytes of an owner that name the session, of 16. */
export const SESSION_TAG_BYTES = 8

export type ReserveRequest = {
  readonly intents: readonly Intent[]
  readonly entities: readonly Intent[]
  /** Where an earlier attempt at one of the intents lapsed without an outcome. */
  readonly takeover: 'reexecute' | 'indeterminate'
  /** {@link SESSION_TAG_BYTES} as hex digits, which no outsider can compute from a session's id. */
  readonly sessionTag: string
  readonly leaseMs: number
  readonly retentionMs: number
  readonly budgetMs: number
}

/** How long a reservation is valid: the sooner clock ends it, and of several leases the one that ends first. */
export type Validity = Pick<Lease, 'validUntilMonoMs' | 'validUntilWallMs'>

export type ReserveResult =
  | { readonly kind: 'reserved'; readonly reservation: Reservation; readonly validity: Validity }
  /** `intent` is the one in the way. */
  | {
      readonly kind: 'conflict'
      readonly intent: Intent
      readonly entity: boolean
      readonly retryAfterMs: number
    }
  /** The fate of an earlier attempt is unknown, and the caller does not want another one. */
  | { readonly kind: 'undecided'; readonly intent: Intent; readonly retryAfterMs: number }
  | {
      readonly kind: 'duplicate'
      readonly intent: Intent
      readonly outcome: StoredOutcome
      readonly token: Token
      readonly attempt: number
    }
  | { readonly kind: 'mismatch'; readonly intent: Intent }
  | { readonly kind: 'damaged'; readonly intent: Intent }
  | Extract<ClaimResult, { kind: 'unavailable' }>
  /**
   * All were granted, but too few nodes then confirmed them under one token; they were released. `skewed`: the largest
   * of their tokens is too far ahead of the clocks of another one's nodes.
   */
  | { readonly kind: 'unsettled'; readonly skewed?: true }

export type ExtendResult =
  | { readonly kind: 'extended'; readonly reservation: Reservation; readonly validity: Validity }
  | { readonly kind: 'lost' }
  | { readonly kind: 'unavailable' }

export type EndResult =
  | { readonly kind: 'done' }
  /** Surely without effect. */
  | { readonly kind: 'fenced' }
  /** Refused for good, perhaps not without effect: a later claim may still adopt it, or a part of it is recorded. */
  | { readonly kind: 'undecided' }
  | { readonly kind: 'unavailable' }

/** One order for all, each key once: two reservations of the same intents never deadlock. */
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
  const intents = inOrder(request.intents)
  const wanted = [...intents, ...inOrder(request.entities)]
  const held: Lease[] = []
  for (const [index, intent] of wanted.entries()) {
    const { recordKey: key, fingerprint } = intent
    const claimed = await leases.claim({ key, fingerprint, owner, leaseMs, retentionMs, budgetMs })
    const entity = index >= intents.length
    if (claimed.kind !== 'granted') {
      await withdrawAll(held, leases)
      const resumed = isTaken(claimed) ? await resume(request, leases) : undefined
      return resumed ?? refusal(intent, entity, claimed)
    }
    held.push(claimed.lease)
    if (!entity && claimed.lease.attempt > 1 && request.takeover === 'indeterminate') {
      // Withdrawing a takeover restores the lapsed claim, so the question stays open until the orphan is settled.
      await withdrawAll(held, leases)
      return { kind: 'undecided', intent, retryAfterMs: leaseMs }
    }
  }
  return underOneToken(held, intents.length, request, leases)
}

/** The reservation that this session holds already, if exactly what it requests; renewed, which also proves it. */
async function resume(request: ReserveRequest, leases: Leases): Promise<ReserveResult | undefined> {
  const { sessionTag, leaseMs, retentionMs } = request
  const intents = inOrder(request.intents)
  const entities = inOrder(request.entities)
  const standing = await read([...intents, ...entities], leases)
  const [first] = standing
  if (first?.kind !== 'claimed' || !first.owner.startsWith(sessionTag) || first.remainingMs === 0)
    return undefined
  const { owner, token } = first
  const same = standing.every((one) => one.kind === 'claimed' && one.owner === owner && one.token === token)
  // An earlier try of the same session is under way, or holds something else: that ends soon.
  if (!same) {
    const [intent] = intents
    return { kind: 'conflict', intent: intent!, entity: false, retryAfterMs: CONTENDED_RETRY_AFTER_MS }
  }
  const attempts = attemptsOf(standing.slice(0, intents.length))
  const reservation = { intents, entities, owner, token, ...attempts, leaseMs, retentionMs }
  const extended = await extend(reservation, leaseMs, leases)
  if (extended.kind !== 'extended') return undefined
  return { kind: 'reserved', reservation: extended.reservation, validity: extended.validity }
}

function attemptsOf(intents: readonly (ReadResult | Lease)[]): Pick<Reservation, 'attempt' | 'attempts'> {
  const attempts = intents.map((one) => ('attempt' in one ? one.attempt : 1))
  const attempt = Math.max(1, ...attempts)
  return attempts.every((own) => own === attempt) ? { attempt } : { attempt, attempts }
}

/**
 * Raises every claim to the largest of their tokens. A renewal by the same owner may carry a larger token, which the
 * nodes then hold as the fence: it fences everything granted before.
 */
async function underOneToken(
  held: readonly Lease[],
  intentCount: number,
  request: ReserveRequest,
  leases: Leases,
): Promise<ReserveResult> {
  const token = Math.max(...held.map((lease) => lease.token))
  const raised = held.map((lease) => ({ ...lease, token }))
  const current = await Promise.all(
    held.map(async (lease, index) =>
      lease.token === token ? ({ kind: 'renewed', lease } as const) : leases.raise(raised[index]!),
    ),
  )
  const failed = current.findIndex(({ kind }) => kind !== 'renewed')
  const inTheWay = held[failed]
  if (inTheWay !== undefined) {
    // Where a claim could not be raised, nodes may hold either token.
    await withdrawAll([...held, ...raised], leases)
    if (current.every(({ kind }) => kind !== 'lost')) {
      const skewed = current.some((one) => one.kind === 'unavailable' && one.skewed === true)
      return { kind: 'unsettled', ...(skewed ? { skewed } : {}) }
    }
    const entity = failed >= intentCount
    return { kind: 'conflict', intent: intentOf(inTheWay), entity, retryAfterMs: CONTENDED_RETRY_AFTER_MS }
  }
  const valid = current.flatMap((one) => (one.kind === 'renewed' ? [one.lease] : []))
  const { leaseMs, retentionMs } = request
  const intents = held.slice(0, intentCount)
  return {
    kind: 'reserved',
    reservation: {
      intents: intents.map(intentOf),
      entities: held.slice(intentCount).map(intentOf),
      owner: held[0]!.owner,
      token,
      ...attemptsOf(intents),
      leaseMs,
      retentionMs,
    },
    validity: soonest(valid),
  }
}

function intentOf({ key: recordKey, fingerprint }: Lease): Intent {
  return { recordKey, fingerprint }
}

function soonest(all: readonly Validity[]): Validity {
  return {
    validUntilMonoMs: Math.min(...all.map((one) => one.validUntilMonoMs)),
    validUntilWallMs: Math.min(...all.map((one) => one.validUntilWallMs)),
  }
}

function refusal(
  intent: Intent,
  entity: boolean,
  claimed: Exclude<ClaimResult, { kind: 'granted' }>,
): ReserveResult {
  switch (claimed.kind) {
    case 'held':
    case 'contended':
      return { kind: 'conflict', intent, entity, retryAfterMs: claimed.retryAfterMs }
    case 'duplicate':
      return { ...claimed, intent }
    case 'mismatch':
    case 'damaged':
      return { kind: claimed.kind, intent }
    case 'unavailable':
      return claimed
  }
}

/** What is given up before it is answered: a later call of the same session may have resumed it, and keeps it then. */
async function withdrawAll(held: readonly Lease[], leases: Leases): Promise<void> {
  await Promise.all(held.map((lease) => leases.withdraw(lease)))
}

/** @param leaseMs from now on; also what later renewals use */
export async function extend(
  reservation: Reservation,
  leaseMs: number,
  leases: Leases,
): Promise<ExtendResult> {
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
    const refused = refusalOf(results)
    if (refused?.kind === 'fenced' && part === lost) return await whereLost(intents, lost, leases)
    if (refused !== undefined) return refused
  }
  // Only now may the next holder work on the entities. An unreachable one is free when its lease ends.
  await Promise.all(all.slice(reservation.intents.length).map((lease) => leases.release(lease)))
  return { kind: 'done' }
}

/** `fenced`, without effect, is true of all of them, or not claimed. */
function refusalOf(results: readonly CompleteResult[]): Exclude<EndResult, { kind: 'done' }> | undefined {
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
export function withdraw(reservation: Reservation, leases: Leases): Promise<void> {
  return withdrawAll(leasesOf(reservation), leases)
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
