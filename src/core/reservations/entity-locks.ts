/**
 * Lets only one of different requests work on an entity at a time.
 *
 *   claim each entity in the order of its key, waiting for other holders → all under one token → work → release
 *
 * Owns leases on further records, which never get an outcome. The request's own record is claimed before, so a
 * duplicate never waits here; every sidecar claims entities in one order, so no two wait for each other; one bound
 * covers the wait for all of them. The application gets the largest token of all: larger than that of every earlier
 * holder of the record and of each entity. That takes one more round, which raises the record to it.
 */

import type { Background } from '../background.ts'
import { claimWhenFree } from '../claims/claim-when-free.ts'
import type { FairQueue } from '../claims/fair-queue.ts'
import {
  type LeaseRenewer,
  type LeaseRenewerPorts,
  type RenewalPolicy,
  renewLease,
} from '../claims/lease-renewer.ts'
import { type Busy, isBusy } from '../claims/waiters.ts'
import { NOT_COUNTED, type Outcome } from '../outcome.ts'
import type { ClaimRequest, ClaimResult, Leases } from '../ports.ts'
import { fingerprintOfName } from '../request/identity.ts'
import { type Backoff, retryAfterMsOf } from '../retry.ts'

export type EntityLocks = {
  readonly recordKeys: readonly string[]
  /** For all of them together. */
  readonly waitMs: number
}

type EntityPolicy = RenewalPolicy & Pick<ClaimRequest, 'leaseMs' | 'retentionMs' | 'budgetMs' | 'terms'>

type EntityPorts = LeaseRenewerPorts & {
  readonly leases: Leases
  /** Lets waiters in one after the other; absent where each tries for itself. */
  readonly fairQueue?: FairQueue | undefined
}

type Locked =
  /** Disposing leaves the rest to expire: the work on it may not be over. */
  | (Disposable & {
      readonly kind: 'locked'
      /** Whether all of them still stand. Their group may be another one than that of the request's record. */
      readonly held: () => boolean
      /** The work is over. */
      readonly unlock: () => Promise<void>
      /** It is over then. Until that they are kept, also beyond the disposal: requests in flight limit how many. */
      readonly unlockAfter: (over: Promise<void>, background: Background) => void
    })
  | Extract<Outcome, { kind: 'entity_busy' | 'unavailable' }>

const WAIT_BACKOFF: Backoff = { initialMs: 15, maxMs: 150 }
const RETRY_SOON_MS = 1_000

/** For a request that finds others waiting in this process: it queues behind them and does not claim at once. */
const BEHIND: Busy = { kind: 'held', retryAfterMs: RETRY_SOON_MS }

/** @param holder renews the record of the request; it is raised to the token of the entities */
export async function lockEntities(
  entities: EntityLocks,
  holder: LeaseRenewer,
  policy: EntityPolicy,
  abandoned: AbortSignal | undefined,
  ports: EntityPorts,
): Promise<Locked> {
  const renewers: LeaseRenewer[] = []
  const untilMonoMs = ports.clock.monoMs() + entities.waitMs
  try {
    for (const key of inOneOrder(entities.recordKeys)) {
      const claimed = await claimOrWait(key, holder.lease().owner, policy, untilMonoMs, abandoned, ports)
      if (claimed.kind !== 'granted') {
        await unlock(renewers, ports)
        return refusalOf(claimed)
      }
      renewers.push(renewLease(claimed.lease, ports, policy))
    }
    if (!(await renewAllWithOneToken([holder, ...renewers], ports.leases))) {
      await unlock(renewers, ports)
      return { kind: 'unavailable', answered: 0, required: NOT_COUNTED, retryAfterMs: RETRY_SOON_MS }
    }
  } catch (fault) {
    abandon(renewers)
    throw fault
  }
  let isKept = false
  return {
    kind: 'locked',
    held: () => renewers.every((renewer) => renewer.held()),
    unlock: () => unlock(renewers, ports),
    unlockAfter: (over, background) => {
      isKept = true
      background.follow(() => over.then(() => unlock(renewers, ports)))
    },
    [Symbol.dispose]: () => {
      if (!isKept) abandon(renewers)
    },
  }
}

/** As every sidecar claims them. */
function inOneOrder(recordKeys: readonly string[]): readonly string[] {
  return [...new Set(recordKeys)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
}

/** @returns whether a majority is known to have taken each of them */
async function renewAllWithOneToken(all: readonly LeaseRenewer[], leases: Leases): Promise<boolean> {
  const before = all.map((renewer) => renewer.lease())
  const token = Math.max(...before.map((lease) => lease.token))
  const raised = await Promise.all(all.map((renewer) => renewer.renewWithHigherToken(token)))
  if (raised.every(Boolean)) return true
  // Where a claim was not raised, nodes may hold either token. Under the larger one the holder releases its own.
  await Promise.all(before.filter((lease) => lease.token !== token).map((lease) => leases.release(lease)))
  return false
}

async function unlock(renewers: readonly LeaseRenewer[], { leases, fairQueue }: EntityPorts): Promise<void> {
  await Promise.all(
    renewers.map(async (renewer) => {
      renewer.stop('released')
      await leases.release(renewer.lease())
      fairQueue?.freed(renewer.lease().key)
    }),
  )
}

function abandon(renewers: readonly LeaseRenewer[]): void {
  for (const renewer of renewers) renewer.stop('abandoned')
}

function refusalOf(claimed: Exclude<ClaimResult, { kind: 'granted' }>): Exclude<Locked, { kind: 'locked' }> {
  if (claimed.kind === 'unavailable') return { ...claimed, retryAfterMs: RETRY_SOON_MS }
  return { kind: 'entity_busy', retryAfterMs: isBusy(claimed) ? retryAfterMsOf(claimed) : RETRY_SOON_MS }
}

async function claimOrWait(
  key: string,
  owner: string,
  { leaseMs, retentionMs, budgetMs, terms }: EntityPolicy,
  untilMonoMs: number,
  abandoned: AbortSignal | undefined,
  ports: EntityPorts,
): Promise<ClaimResult> {
  const { leases, clock, fairQueue } = ports
  const fingerprint = fingerprintOfName(key)
  const request = { key, fingerprint, owner, leaseMs, retentionMs, budgetMs }
  const claim = () => leases.claim(terms === undefined ? request : { ...request, terms })
  const behind = untilMonoMs > clock.monoMs() && fairQueue?.isWaitedFor(key) === true
  const first = behind ? BEHIND : await claim()
  if (!isBusy(first)) return first
  return claimWhenFree(first, { key, claim, untilMonoMs, backoff: WAIT_BACKOFF, abandoned }, ports)
}
