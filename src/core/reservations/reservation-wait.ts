/**
 * A reservation over time: waiting for its turn, and being renewed while its holder's connection stands.
 *
 * A waiter holds nothing: every try is all or nothing, so waiters for each other's records never deadlock. Renewal is
 * `lease-renewer.ts`, over all leases of the reservation as if they were one.
 */

import { remainingMs } from '../claims/lease.ts'
import {
  KEPT_WHILE_ALIVE,
  type LeaseRenewer,
  type LeaseRenewerPorts,
  renewLease,
} from '../claims/lease-renewer.ts'
import type { Waiters } from '../claims/waiters.ts'
import { type Clock, now, type Random } from '../clock.ts'
import type { Lease, Leases, RenewResult } from '../ports.ts'
import { type Backoff, jitteredDelayMs, pause } from '../retry.ts'
import { abortReservation, extend, type Reservation, type Validity } from './reservations.ts'
import { type ReserveRequest, type ReserveResult, reserve } from './reserve.ts'

const WAIT_BACKOFF: Backoff = { initialMs: 25, maxMs: 250 }

type WaitPorts = {
  readonly leases: Leases
  readonly waiters: Waiters
  readonly clock: Clock
  readonly random: Random
}

export type Waited =
  | ReserveResult
  | { readonly kind: 'too_many_waiters'; readonly limit: number; readonly retryAfterMs: number }

/** @param gone aborts when the caller no longer wants the answer */
export async function reserveOrWait(
  request: ReserveRequest,
  waitMs: number,
  gone: AbortSignal,
  { leases, waiters, clock, random }: WaitPorts,
): Promise<Waited> {
  const untilMonoMs = clock.monoMs() + waitMs
  const tryOnce = () => reserveAlive(request, { leases, clock, random })
  const first = await tryOnce()
  if (first.kind !== 'conflict' || waitMs === 0) return first
  using slot = waiters.enter(first.intent.recordKey)
  if (slot === undefined)
    return { kind: 'too_many_waiters', limit: waiters.limit, retryAfterMs: first.retryAfterMs }
  for (let retry = 0, last: ReserveResult = first; ; retry += 1) {
    const delayMs = jitteredDelayMs(WAIT_BACKOFF, retry, random)
    if (gone.aborted || clock.monoMs() + delayMs >= untilMonoMs) return last
    await pause(clock, delayMs)
    if (gone.aborted) return last
    last = await tryOnce()
    if (last.kind !== 'conflict') return last
  }
}

/** Many values with a short lease may take longer to get than they last: a dead reservation is never handed out. */
async function reserveAlive(
  request: ReserveRequest,
  { leases, clock, random }: Pick<WaitPorts, 'leases' | 'clock' | 'random'>,
): Promise<ReserveResult> {
  const result = await reserve(request, leases, random)
  if (result.kind !== 'reserved' || remainingMs(result.validity, now(clock)) > 0) return result
  await abortReservation(result.reservation, leases)
  const { intents, leaseMs } = result.reservation
  return { kind: 'conflict', intent: intents[0]!, entity: false, retryAfterMs: leaseMs }
}

type ReservationRenewerPorts = LeaseRenewerPorts & { readonly leases: Leases }

type Kept = {
  readonly reservation: Reservation
  readonly validity: Validity
  /** The length of each renewal; read each time, because its holder may extend it. */
  readonly leaseMs: () => number
}

type Renewals = {
  readonly renewed: (validity: Validity) => void
  /** Its holder completed it, through whichever sidecar. */
  readonly done: () => void
}

/** @param report what became of each renewal, but for one that failed */
export function renewReservation(
  { reservation, validity, leaseMs: leaseMsNow }: Kept,
  report: Renewals,
  renewFraction: number,
  ports: ReservationRenewerPorts,
): LeaseRenewer {
  const { intents, owner, token, attempt, leaseMs, retentionMs } = reservation
  const { recordKey: key, fingerprint } = intents[0]!
  const asOne = { key, fingerprint, owner, token, attempt, leaseMs, retentionMs, ...validity }
  const asOneLease = {
    renew: async (lease: Lease): Promise<RenewResult> => {
      const extended = await extend(reservation, leaseMsNow, ports.leases)
      if (extended.kind === 'done') {
        report.done()
        return { kind: 'lost' }
      }
      if (extended.kind !== 'extended') return extended
      report.renewed(extended.validity)
      const { leaseMs } = extended.reservation
      return { kind: 'renewed', lease: { ...lease, leaseMs, ...extended.validity } }
    },
  }
  return renewLease(asOne, { ...ports, leases: asOneLease }, { ...KEPT_WHILE_ALIVE, renewFraction })
}
