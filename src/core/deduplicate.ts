/**
 * THE algorithm: one logical request is executed once, or its outcome says why that is not known.
 *
 *   claim ─┬─ granted ── work under the lease ── settle ── created | released | unstored | indeterminate | never_sent
 *          ├─ duplicate ── replayed | gone
 *          ├─ held | contended ─ in_progress, or wait and claim again
 *          ├─ mismatch | duplicate_content | entity_busy
 *          └─ unavailable ─ fail closed; where the quorum is lost, what the route chose
 *
 * Owns the way of one protected request from top to bottom: which leases it uses, who may execute it, and how its lease
 * ends. How long to wait for another holder (`claims/claim-when-free.ts`) and what an answer settles (`settle.ts`)
 * stand by themselves. It knows no HTTP server, no Redis, no clock but the one it is given. It never aborts the
 * application's work, not for a client that went away and not for a lost lease: the work may already have had its
 * effect, and its outcome is worth recording.
 */

import { claimWhenFree } from './claims/claim-when-free.ts'
import { lockIdOf } from './claims/lease.ts'
import { type LeaseRenewer, renewLease } from './claims/lease-renewer.ts'
import { recordInBackground } from './claims/recording.ts'
import { type Busy, isBusy } from './claims/waiters.ts'
import { reconcileLocalRecord } from './claims/write-back.ts'
import {
  claimDiagnostics,
  LEASE_ENDED,
  type Outcome,
  type Protection,
  replay,
  unavailable,
  unprotected,
} from './outcome.ts'
import type { ClaimRequest, ClaimResult, Lease, Leases } from './ports.ts'
import type { DedupPorts, ProtectedRequest } from './protected-request.ts'
import { isQuorumLost } from './quorum/tally.ts'
import { markContent } from './request/duplicate-content.ts'
import { type EntityLocks, lockEntities } from './reservations/entity-locks.ts'
import { type Backoff, retryAfterMsOf } from './retry.ts'
import { type LeaseFate, type Settled, settle } from './settle.ts'

/** What one request is executed with. Its leases are chosen once; nothing below can reach the others. */
type ExecutionContext = Omit<DedupPorts, 'localLeases' | 'whenEnded' | 'waiters'> & {
  readonly protection: Protection
}

const WAIT_BACKOFF: Backoff = { initialMs: 25, maxMs: 250 }

/** For a request that finds others waiting in this process: it queues behind them and does not claim at once. */
const BEHIND: Busy = { kind: 'contended', retryAfterMs: 1_000 }

export async function deduplicate(request: ProtectedRequest, ports: DedupPorts): Promise<Outcome> {
  const claimed = await claimOrWait(request, ports)
  if (claimed.kind === 'too_many_waiters') return claimed
  if (claimed.kind !== 'unavailable' || !isQuorumLost(claimed))
    return underClaim(request, claimed, guardOf(ports, ports.leases, 'quorum'))
  switch (request.policy.onQuorumLoss) {
    case 'fail-closed':
      return unavailable(claimed)
    case 'local': {
      const { localLeases } = ports
      const local = await localLeases.claim(claimRequestOf(request))
      return underClaim(request, local, guardOf(ports, localLeases, 'local'))
    }
    case 'fail-open':
      return unprotected(await request.forward(undefined), claimDiagnostics(claimed))
  }
}

/** Named one by one: the ports of a listener are many more, and a copy of all of them for each request costs microseconds. */
function guardOf(
  { fairQueue, background, clock, random, events }: DedupPorts,
  leases: Leases,
  protection: Protection,
): ExecutionContext {
  return { leases, fairQueue, background, clock, random, events, protection }
}

type TooManyWaiters = Extract<Outcome, { kind: 'too_many_waiters' }>

async function claimOrWait(
  request: ProtectedRequest,
  ports: DedupPorts,
): Promise<ClaimResult | TooManyWaiters> {
  const { recordKey: key, policy } = request
  const behind = policy.waitMs > 0 && ports.fairQueue?.isWaitedFor(key) === true
  const first = behind ? BEHIND : await claimOnce(request, ports)
  return isBusy(first) && policy.waitMs > 0 ? waitAndClaim(first, request, ports) : first
}

function claimOnce(request: ProtectedRequest, { leases, localLeases }: DedupPorts): Promise<ClaimResult> {
  const claiming = leases.claim(claimRequestOf(request))
  if (request.policy.onQuorumLoss !== 'local') return claiming
  return claiming.then((claimed) => reconcileLocalRecord(claimed, leases, localLeases))
}

async function waitAndClaim(
  first: Busy,
  request: ProtectedRequest,
  ports: DedupPorts,
): Promise<ClaimResult | TooManyWaiters> {
  const { recordKey: key, fingerprint, policy, abandoned } = request
  const { whenEnded, waiters, clock } = ports
  const claim = () => claimOnce(request, ports)
  using slot = waiters.enter(key)
  if (slot === undefined)
    return { kind: 'too_many_waiters', limit: waiters.limit, retryAfterMs: retryAfterMsOf(first) }
  const untilMonoMs = clock.monoMs() + policy.waitMs
  const join = () => waiters.groups.join(`${key} ${fingerprint}`, clock.monoMs())
  const wanted = { key, claim, untilMonoMs, backoff: WAIT_BACKOFF, abandoned, whenEnded, join }
  // Awaited here: `using` releases the slot when the wait is over.
  return await claimWhenFree(first, wanted, ports)
}

async function underClaim(
  request: ProtectedRequest,
  claimed: ClaimResult,
  context: ExecutionContext,
): Promise<Outcome> {
  switch (claimed.kind) {
    case 'granted':
      if (claimed.lease.attempt > 1 && request.policy.takeover === 'indeterminate') {
        // Releasing a takeover restores the expired claim, so the question stays open until the orphan is settled.
        await context.leases.release(claimed.lease)
        const { attempt } = claimed.lease
        return { kind: 'undecided', retryAfterMs: request.policy.leaseMs, found: { attempt } }
      }
      return withContentMarked(request, claimed.lease, context)
    case 'duplicate':
      return replay(claimed.outcome, claimed.token, claimDiagnostics(claimed).found)
    case 'mismatch':
      return { kind: 'mismatch', ...claimDiagnostics(claimed) }
    case 'held':
    case 'contended':
      return { kind: 'in_progress', retryAfterMs: retryAfterMsOf(claimed), ...claimDiagnostics(claimed) }
    case 'damaged':
      return { kind: 'damaged', ...claimDiagnostics(claimed) }
    case 'unavailable':
      return unavailable(claimed)
  }
}

/** The key is ours; before the work begins, its content is marked as ours too, where the route wants that. */
async function withContentMarked(
  request: ProtectedRequest,
  lease: Lease,
  context: ExecutionContext,
): Promise<Outcome> {
  const { contentRecord, policy } = request
  if (contentRecord === undefined) return workUnderLease(request, lease, context)
  const mark = await markContent(contentRecord, lease, policy, context)
  if (mark.kind === 'marked') return workUnderLease(request, lease, { ...context, leases: mark.leases })
  await context.leases.release(lease)
  return mark.kind === 'unavailable' ? unavailable(mark) : mark
}

async function workUnderLease(
  request: ProtectedRequest,
  lease: Lease,
  context: ExecutionContext,
): Promise<Outcome> {
  const { entities, policy } = request
  const renewer = renewLease(lease, context, policy)
  try {
    if (entities !== undefined) return await workOnEntities(request, entities, renewer, context)
    const { outcome, lease: fate } = await forwardAndSettle(request, renewer, () => renewer.held(), context)
    await endLease(fate, renewer, context)
    return outcome
  } catch (fault) {
    // The application may or may not have begun, so the lease is left to expire, like that of a dead process.
    renewer.stop('abandoned')
    throw fault
  }
}

async function workOnEntities(
  request: ProtectedRequest,
  entities: EntityLocks,
  renewer: LeaseRenewer,
  context: ExecutionContext,
): Promise<Outcome> {
  const { policy, abandoned } = request
  const locked = await lockEntities(entities, renewer, policy, abandoned, context)
  if (locked.kind !== 'locked') {
    await endLease('released', renewer, context)
    return locked
  }
  using _ = locked
  const held = () => renewer.held() && locked.held()
  const { outcome, lease: fate } = await forwardAndSettle(request, renewer, held, context)
  await endLease(fate, renewer, context)
  // The application may still work on them: let their leases expire, like the record's.
  if (fate === 'abandoned') return outcome
  // Of an answer that is passed on as a stream the end is still to come, and the work with it.
  const over = 'response' in outcome ? outcome.response?.oversized?.over : undefined
  if (over === undefined) await locked.unlock()
  else locked.unlockAfter(over, context.background)
  return outcome
}

async function forwardAndSettle(
  request: ProtectedRequest,
  renewer: LeaseRenewer,
  held: () => boolean,
  context: ExecutionContext,
): Promise<Settled> {
  // It may have ended since it was granted: while a content was marked, or the process was suspended.
  if (!held()) return { outcome: LEASE_ENDED, lease: 'released' }
  const { token, attempt } = renewer.lease()
  const execution = { token, attempt, lockId: lockIdOf(renewer.lease()) }
  const result = await request.forward({ ...execution, held })
  switch (result.kind) {
    case 'never_sent':
      return { outcome: { kind: 'never_sent', detail: result.detail }, lease: 'released' }
    case 'no_answer': {
      // It may have been executed. The claim stays until its lease ends; then the next attempt is a takeover.
      const { leaseMs: retryAfterMs } = request.policy
      const { cause, detail } = result
      const outcome: Outcome = { kind: 'indeterminate', cause, detail, retryAfterMs, execution }
      return { outcome, lease: 'abandoned' }
    }
    case 'answered': {
      const executed = { protection: context.protection, execution }
      return settle(result.response, executed, request.policy, renewer, context)
    }
  }
}

async function endLease(fate: LeaseFate, renewer: LeaseRenewer, context: ExecutionContext): Promise<void> {
  if (typeof fate === 'object') {
    const offered = context.background.start(async () => {
      const end = 'passing' in fate ? await fate.passing : fate.stillToRecord
      await (typeof end === 'string'
        ? endLease(end, renewer, context)
        : recordInBackground(end, renewer, context))
    })
    // Otherwise it ends with the background recording.
    if (!offered) renewer.stop('abandoned')
    return
  }
  // The renewer stops first: a renewal that meets its own release would look like a lost lease.
  renewer.stop(fate)
  if (fate === 'released') await context.leases.release(renewer.lease())
}

function claimRequestOf({ recordKey: key, fingerprint, policy }: ProtectedRequest): ClaimRequest {
  const { leaseMs, retentionMs, budgetMs, terms } = policy
  return { key, fingerprint, leaseMs, retentionMs, budgetMs, ...(terms === undefined ? {} : { terms }) }
}
