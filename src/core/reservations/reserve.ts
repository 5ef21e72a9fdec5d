/**
 * Claims a reservation: an intent, or several at once.
 *
 * Owns what makes several records one reservation: they are claimed in one order (by the bytes of their keys), all or
 * nothing, under one owner and one token. What is done with it afterwards is `reservations.ts`.
 *
 * Half of the owner follows from the session, half is random: a session that retries because its answer was lost is
 * recognised by the first half and gets the same reservation, same token, instead of a conflict with itself.
 */

import { isBusy } from '../claims/waiters.ts'
import type { Random } from '../clock.ts'
import type { ClaimRequest, ClaimResult, Lease, Leases, ReadResult } from '../ports.ts'
import type { StoredOutcome } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'
import { retryAfterMsOf } from '../retry.ts'
import {
  abortClaims,
  type Intent,
  type Reservation,
  read,
  renewAll,
  SESSION_TAG_BYTES,
  soonest,
  type Validity,
} from './reservations.ts'

/** Retry-After where no other holder is known: races end within a claim's budget. */
const CONTENDED_RETRY_AFTER_MS = 1_000

export type ReserveRequest = {
  readonly intents: readonly Intent[]
  readonly entities: readonly Intent[]
  /** Where an earlier attempt at one of the intents expired without an outcome. */
  readonly takeover: 'reexecute' | 'indeterminate'
  /** {@link SESSION_TAG_BYTES} as hex digits, which no outsider can compute from a session's id. */
  readonly sessionTag: string
} & Pick<ClaimRequest, 'leaseMs' | 'retentionMs' | 'budgetMs' | 'terms'>

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
  const terms = request.terms === undefined ? {} : { terms: request.terms }
  const owner = sessionTag + random.hex(16 - SESSION_TAG_BYTES)
  const [intents, entities] = [inOrder(request.intents), inOrder(request.entities)]
  const wanted = [...intents, ...entities]
  const held: Lease[] = []
  for (const [index, intent] of wanted.entries()) {
    const { recordKey: key, fingerprint } = intent
    const claimed = await leases.claim({ key, fingerprint, owner, leaseMs, retentionMs, budgetMs, ...terms })
    const entity = index >= intents.length
    if (claimed.kind !== 'granted') {
      await abortClaims(held, leases)
      const resumed = isBusy(claimed) ? await resume({ ...request, intents, entities }, leases) : undefined
      return resumed ?? refusal(intent, entity, claimed)
    }
    held.push(claimed.lease)
    if (!entity && isUnwanted(claimed.lease, request)) {
      // Withdrawing a takeover restores the expired claim, so the question stays open until the orphan is settled.
      await abortClaims(held, leases)
      return { kind: 'undecided', intent, retryAfterMs: leaseMs }
    }
  }
  return underOneToken(held, intents.length, request, leases)
}

/** An earlier attempt expired without an outcome, and the caller does not want another one. */
function isUnwanted(one: ReadResult | Lease, { takeover }: ReserveRequest): boolean {
  return takeover === 'indeterminate' && 'attempt' in one && one.attempt > 1
}

/**
 * The reservation that this session holds already, if exactly what it requests; renewed, which also proves it.
 *
 * @param request its intents and entities in order
 */
async function resume(request: ReserveRequest, leases: Leases): Promise<ReserveResult | undefined> {
  const { intents, entities, sessionTag, leaseMs, retentionMs } = request
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
  // The first call claimed it, and is about to withdraw it: kept, it would be the attempt that the caller does not want.
  const undecided = intents.find((_, at) => isUnwanted(standing[at]!, request))
  if (undecided !== undefined) return { kind: 'undecided', intent: undecided, retryAfterMs: leaseMs }
  const attempts = attemptsOf(standing.slice(0, intents.length))
  const reservation = { intents, entities, owner, token, ...attempts, leaseMs, retentionMs }
  const extended = await renewAll(reservation, leaseMs, leases)
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
      lease.token === token
        ? ({ kind: 'renewed', lease } as const)
        : leases.renewWithHigherToken(raised[index]!),
    ),
  )
  const failed = current.findIndex(({ kind }) => kind !== 'renewed')
  const inTheWay = held[failed]
  if (inTheWay !== undefined) {
    // Where a claim could not be raised, nodes may hold either token.
    await abortClaims([...held, ...raised], leases)
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

function refusal(
  intent: Intent,
  entity: boolean,
  claimed: Exclude<ClaimResult, { kind: 'granted' }>,
): ReserveResult {
  switch (claimed.kind) {
    case 'held':
    case 'contended':
      return { kind: 'conflict', intent, entity, retryAfterMs: retryAfterMsOf(claimed) }
    case 'duplicate':
      return { ...claimed, intent }
    case 'mismatch':
    case 'damaged':
      return { kind: claimed.kind, intent }
    case 'unavailable':
      return claimed
  }
}
