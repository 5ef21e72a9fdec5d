/**
 * THE algorithm: one logical request is carried out once, or it is said why that is not known.
 *
 *   claim ─┬─ granted ──── work under the lease ─── settle ─── created | released | unstored | indeterminate | never_sent
 *          ├─ duplicate ── replayed | gone
 *          ├─ held | contended ─ in_progress, or wait and claim again
 *          ├─ mismatch | duplicate_content | entity_busy
 *          └─ unavailable ─ fail closed, or what the route chose
 *
 * Owns every branch of the protocol between a request and its outcome; helpers compute, they do not decide. It knows no
 * HTTP server, no Redis, no clock but the one it is given. The application's work is never aborted from here, not by a
 * client that went away and not by a lost lease: it may already have had its effect, and its outcome is worth recording.
 */

import type { Background } from './background.ts'
import { lockIdOf } from './claims/lease.ts'
import { type Keeping, keepLease, type LeaseKeeper } from './claims/lease-keeper.ts'
import { offerLater, offerOutcome } from './claims/offer.ts'
import { besidesOwnRecord } from './claims/own-record.ts'
import { type Turns, untilNextTry } from './claims/turns.ts'
import { isTaken, type Taken, type Waiters } from './claims/waiters.ts'
import type { Events, LeaseEnd } from './events.ts'
import { LEASE_ENDED, type Outcome, type Protection, replay, UNAVAILABLE_RETRY_AFTER_MS } from './outcome.ts'
import type {
  ApplicationResponse,
  ClaimResult,
  Clock,
  ForwardContext,
  ForwardResult,
  Lease,
  Leases,
  Random,
} from './ports.ts'
import type { Fingerprint } from './record/record.ts'
import type { StoredOutcome } from './record/stored-outcome.ts'
import { type ContentRecord, markContent } from './request/duplicate-content.ts'
import { type EntityLocks, lockEntities } from './reservations/entity-locks.ts'
import { type Backoff, whenAborted } from './retry.ts'
import { dispositionOf, type StoringPolicy, storedOutcomeOf } from './routes/settlement.ts'

export type DedupPolicy = StoringPolicy &
  // After the total hold the lease is left to lapse.
  Keeping & {
    readonly leaseMs: number
    readonly retentionMs: number
    /** For all claim rounds together. */
    readonly budgetMs: number
    /** How long the outcome is offered to the quorum before the client gets its answer marked `unstored`. */
    readonly settleBudgetMs: number
    /** How long a concurrent duplicate waits for the first; 0: it is refused at once. */
    readonly waitMs: number
    readonly takeover: 'reexecute' | 'indeterminate'
    readonly onQuorumLoss: 'fail-closed' | 'fail-open' | 'local'
  }

export type ProtectedRequest = {
  /** The record's key on the nodes (`identity.ts`). */
  readonly recordKey: string
  readonly fingerprint: Fingerprint
  /** Given where the same content under another key is not to be carried out. */
  readonly contentRecord?: ContentRecord
  /** Given where requests of one entity are carried out one after the other. */
  readonly entities?: EntityLocks
  readonly policy: DedupPolicy
  /** Aborts when nobody waits for the answer any more. Ends waiting for another's outcome, never work that has begun. */
  readonly abandoned?: AbortSignal
  /** Hands the request to the application. Called at most once, and never twice for one claim. */
  readonly forward: (context: ForwardContext | undefined) => Promise<ForwardResult>
}

export type DedupPorts = {
  readonly leases: Leases
  /** Where this process itself holds the claim: resolves when it has ended, so that waiters need not ask in vain. */
  readonly whenEnded: (key: string) => Promise<void> | undefined
  /** The quorum of this process alone, for routes that chose `local`. */
  readonly localLeases: Leases
  readonly waiters: Waiters
  /** Where those who wait are let in one after the other; absent where each tries for itself. */
  readonly turns?: Turns
  /** Where outcomes go on being offered that the quorum did not take in time. */
  readonly background: Background
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

const WAIT_BACKOFF: Backoff = { initialMs: 25, maxMs: 250 }

/** For who finds a line and no place in it. */
const BEHIND_RETRY_AFTER_MS = 1_000

export async function deduplicate(request: ProtectedRequest, ports: DedupPorts): Promise<Outcome> {
  const claimed = await claimOrWait(request, ports)
  if (claimed.kind === 'unavailable') return withoutQuorum(request, claimed, ports)
  return claimed.kind === 'too_many_waiters'
    ? claimed
    : afterClaim(request, claimed, 'quorum', ports.leases, ports)
}

type Waited = ClaimResult | Extract<Outcome, { kind: 'too_many_waiters' }>

async function claimOrWait(request: ProtectedRequest, ports: DedupPorts): Promise<Waited> {
  const { policy, recordKey: key, fingerprint } = request
  const { leaseMs, retentionMs, budgetMs } = policy
  const claim = async () => {
    const claimed = await ports.leases.claim({ key, fingerprint, leaseMs, retentionMs, budgetMs })
    return policy.onQuorumLoss === 'local'
      ? besidesOwnRecord(claimed, ports.leases, ports.localLeases)
      : claimed
  }
  const behind = policy.waitMs > 0 && ports.turns?.waiting(key) === true
  const first: ClaimResult = behind ? { kind: 'held', retryAfterMs: BEHIND_RETRY_AFTER_MS } : await claim()
  if (!isTaken(first) || policy.waitMs === 0) return first

  const place = ports.waiters.enter(key)
  if (place === undefined) {
    return { kind: 'too_many_waiters', limit: ports.waiters.limit, retryAfterMs: first.retryAfterMs }
  }
  using _ = place
  using turn = ports.turns?.enter(key)
  const untilMonoMs = ports.clock.monoMs() + policy.waitMs
  const left = whenAborted(request.abandoned)
  for (let retry = 0, last: Taken = first; ; retry += 1) {
    const ended = ports.whenEnded(key)
    const leftMs = untilMonoMs - ports.clock.monoMs()
    if (leftMs <= 0) return last
    const ending = ended && { ended, withinMs: last.retryAfterMs }
    await untilNextTry({ turn, retry, backoff: WAIT_BACKOFF, ending, left, leftMs }, ports)
    // Claiming now could mean to carry it out for nobody, and a place is for those who wait.
    if (request.abandoned?.aborted === true) return last
    const next = await claim()
    // An outcome is for all who wait; what was given back without one is for one of them after the other.
    if (next.kind === 'duplicate' || next.kind === 'damaged') turn?.open()
    if (!isTaken(next)) return next
    last = next
  }
}

async function afterClaim(
  request: ProtectedRequest,
  claimed: ClaimResult,
  protection: Protection,
  leases: Leases,
  ports: DedupPorts,
): Promise<Outcome> {
  switch (claimed.kind) {
    case 'granted':
      if (claimed.lease.attempt > 1 && request.policy.takeover === 'indeterminate') {
        // Releasing a takeover gives the lapsed claim back, so the question stays open until somebody decides it.
        await leases.release(claimed.lease)
        return { kind: 'undecided', retryAfterMs: request.policy.leaseMs }
      }
      return withContentMarked(request, claimed.lease, protection, leases, ports)
    case 'duplicate':
      return replay(claimed.outcome, claimed.token)
    case 'mismatch':
      return { kind: 'mismatch' }
    case 'held':
    case 'contended':
      return { kind: 'in_progress', retryAfterMs: claimed.retryAfterMs }
    case 'damaged':
      return { kind: 'damaged' }
    case 'unavailable':
      return { ...claimed, retryAfterMs: UNAVAILABLE_RETRY_AFTER_MS }
  }
}

/** The key is ours; before the work begins its content is marked as ours too, where the route wants that. */
async function withContentMarked(
  request: ProtectedRequest,
  lease: Lease,
  protection: Protection,
  leases: Leases,
  ports: DedupPorts,
): Promise<Outcome> {
  const { contentRecord, policy } = request
  if (contentRecord === undefined) return workUnderLease(request, lease, protection, leases, ports)
  const mark = await markContent(contentRecord, lease, policy, { ...ports, leases })
  if (mark.kind === 'marked') return workUnderLease(request, lease, protection, mark.leases, ports)
  await leases.release(lease)
  return mark.kind === 'unavailable' ? { ...mark, retryAfterMs: UNAVAILABLE_RETRY_AFTER_MS } : mark
}

async function withoutQuorum(
  request: ProtectedRequest,
  claimed: Extract<ClaimResult, { kind: 'unavailable' }>,
  ports: DedupPorts,
): Promise<Outcome> {
  switch (request.policy.onQuorumLoss) {
    case 'fail-closed':
      return { ...claimed, retryAfterMs: UNAVAILABLE_RETRY_AFTER_MS }
    case 'local': {
      const { recordKey: key, fingerprint, policy } = request
      const local = await ports.localLeases.claim({ ...policy, key, fingerprint })
      return afterClaim(request, local, 'local', ports.localLeases, ports)
    }
    case 'fail-open': {
      const result = await request.forward(undefined)
      if (result.kind === 'answered') return { kind: 'unprotected', response: result.response }
      if (result.kind === 'never_sent') return result
      const execution = { token: 0, attempt: 1, lockId: '' }
      return {
        kind: 'indeterminate',
        cause: result.cause,
        retryAfterMs: UNAVAILABLE_RETRY_AFTER_MS,
        execution,
      }
    }
  }
}

async function workUnderLease(
  request: ProtectedRequest,
  lease: Lease,
  protection: Protection,
  leases: Leases,
  ports: DedupPorts,
): Promise<Outcome> {
  const keeper = keepLease(lease, { ...ports, leases }, request.policy)
  const { entities, policy, abandoned } = request
  const locked = entities && (await lockEntities(entities, keeper, policy, abandoned, { ...ports, leases }))
  if (locked !== undefined && locked.kind !== 'locked') {
    await giveBack(keeper, leases)
    return locked
  }
  try {
    const both = locked ? { ...keeper, held: () => keeper.held() && locked.held() } : keeper
    const outcome = await forwardAndSettle(request, both, protection, leases, ports)
    // Without an answer the application may still be at work on them: their leases are left to end, like the record's.
    if (outcome.kind !== 'indeterminate') await locked?.unlock()
    return outcome
  } finally {
    locked?.abandon()
  }
}

async function forwardAndSettle(
  request: ProtectedRequest,
  keeper: LeaseKeeper,
  protection: Protection,
  leases: Leases,
  ports: DedupPorts,
): Promise<Outcome> {
  const { token, attempt } = keeper.lease()
  const execution = { token, attempt, lockId: lockIdOf(keeper.lease()) }
  let finish = () => keeper.stop('abandoned')
  try {
    // It may have ended since it was granted: while a content was marked, or this process stood still.
    if (!keeper.held()) {
      await giveBack(keeper, leases)
      return LEASE_ENDED
    }
    const result = await request.forward({ ...execution, held: keeper.held })
    switch (result.kind) {
      case 'never_sent':
        await giveBack(keeper, leases)
        return { kind: 'never_sent', detail: result.detail }
      case 'no_answer':
        // It may have been carried out. The claim stays until its lease ends; then the next attempt is a takeover.
        return { kind: 'indeterminate', cause: result.cause, retryAfterMs: request.policy.leaseMs, execution }
      case 'answered': {
        const settled = await settle(request, result.response, keeper, leases, ports)
        finish = () => keeper.stop(settled.ended)
        if ('outcome' in settled) return settled.outcome
        const { kind, later } = settled
        const offered =
          later !== undefined && ports.background.start(() => offerLater(later, keeper, { ...ports, leases }))
        // Then the lease ends when the offering does.
        if (offered) finish = () => {}
        return { kind, response: result.response, protection, execution }
      }
    }
  } finally {
    finish()
  }
}

/** The keeper stops first: a renewal that meets its own release would look like a lost lease. */
async function giveBack(keeper: LeaseKeeper, leases: Leases): Promise<void> {
  keeper.stop('released')
  await leases.release(keeper.lease())
}

type Settled =
  | {
      readonly ended: LeaseEnd
      readonly kind: 'created' | 'released' | 'unstored'
      /** The outcome that the quorum did not take in time. */
      readonly later?: StoredOutcome
    }
  | { readonly ended: LeaseEnd; readonly outcome: Outcome }

async function settle(
  request: ProtectedRequest,
  response: ApplicationResponse,
  keeper: LeaseKeeper,
  leases: Leases,
  ports: DedupPorts,
): Promise<Settled> {
  const { policy } = request
  switch (dispositionOf(response, policy)) {
    case 'hold':
      return { ended: 'abandoned', kind: 'unstored' }
    case 'release':
      await giveBack(keeper, leases)
      return { ended: 'released', kind: 'released' }
    case 'store':
      return record(storedOutcomeOf(response, policy, ports.clock.wallMs()), policy, keeper, leases, ports)
  }
}

/** The answer is shown only where a majority holds it, or marked as one that is not held. */
async function record(
  outcome: StoredOutcome,
  policy: DedupPolicy,
  keeper: LeaseKeeper,
  leases: Leases,
  ports: DedupPorts,
): Promise<Settled> {
  const result = await offerOutcome(outcome, policy.settleBudgetMs, keeper, { ...ports, leases })
  switch (result.kind) {
    case 'recorded':
      return { ended: 'completed', kind: 'created' }
    case 'fenced': {
      // A later holder's outcome is the truth; ours must not be shown beside it.
      const { winner } = result
      const shown: Outcome =
        winner === undefined
          ? { kind: 'in_progress', retryAfterMs: policy.leaseMs }
          : replay(winner.outcome, winner.token)
      return { ended: 'lost', outcome: shown }
    }
    case 'undecided':
      // A later claim may make ours the truth, or its own. Until then neither "stored" nor "it changed nothing" is true.
      return { ended: 'lost', outcome: { kind: 'in_progress', retryAfterMs: policy.leaseMs } }
    case 'unavailable':
      return { ended: 'abandoned', kind: 'unstored', later: outcome }
  }
}
