/**
 * Records an outcome on the quorum, with retries: first while its client waits, then in the background.
 *
 * Owns how often and how long. Each attempt sends the same outcome, because one lease has one; `settle.ts` decides what
 * the result means for the request. Until it is recorded the client is answered `unstored`, and duplicates are refused
 * while the lease lasts: an outcome that is recorded late is still the truth.
 */

import { type Clock, now, type Random } from '../clock.ts'
import type { Events, RecordingEnd } from '../events.ts'
import type { CompleteResult, Leases } from '../ports.ts'
import type { StoredOutcome } from '../record/stored-outcome.ts'
import { type Backoff, jitteredDelayMs, pause } from '../retry.ts'
import { remainingMs } from './lease.ts'
import type { LeaseRenewer } from './lease-renewer.ts'

export type RecordingPorts = {
  readonly leases: Pick<Leases, 'complete'>
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

const IN_TIME_BACKOFF: Backoff = { initialMs: 10, maxMs: 250 }

/** The client has its answer: no hurry, and the nodes have trouble enough. */
const LATE_BACKOFF: Backoff = { initialMs: 100, maxMs: 2_000 }

/** In leases: bounds the offers to nodes that renew a lease but never take its outcome. */
const LATE_LEASES_MAX = 20

/** Offers the outcome until a majority has it or refuses it for good (perhaps undecided), or time runs out. */
export async function recordWithRetry(
  outcome: StoredOutcome,
  budgetMs: number,
  renewer: LeaseRenewer,
  { leases, clock, random, events }: RecordingPorts,
): Promise<CompleteResult> {
  const untilMonoMs = clock.monoMs() + budgetMs
  for (let attempts = 1; ; attempts += 1) {
    const result = await leases.complete(renewer.lease(), outcome)
    const delayMs = jitteredDelayMs(IN_TIME_BACKOFF, attempts - 1, random)
    if (result.kind !== 'unavailable' || clock.monoMs() + delayMs >= untilMonoMs) {
      events.publish({ kind: 'completed', ...endOf(result, attempts, renewer, clock) })
      return result
    }
    await pause(clock, delayMs)
  }
}

/** Goes on offering while the lease can be renewed, and once more when it is lost; then stops the renewer. */
export async function recordInBackground(
  outcome: StoredOutcome,
  renewer: LeaseRenewer,
  { leases, clock, random, events }: RecordingPorts,
): Promise<void> {
  const { leaseMs } = renewer.lease()
  const untilMonoMs = clock.monoMs() + LATE_LEASES_MAX * leaseMs
  for (let attempts = 1; ; attempts += 1) {
    await pause(clock, jitteredDelayMs(LATE_BACKOFF, attempts - 1, random))
    const offered = await leases.complete(renewer.lease(), outcome)
    const { kind: result } = offered
    if (result === 'unavailable' && !renewer.lost.aborted && clock.monoMs() < untilMonoMs) continue
    renewer.stop(result === 'recorded' ? 'completed' : result === 'unavailable' ? 'abandoned' : 'lost')
    events.publish({ kind: 'settled_late', ...endOf(offered, attempts, renewer, clock) })
    return
  }
}

function endOf(result: CompleteResult, attempts: number, renewer: LeaseRenewer, clock: Clock): RecordingEnd {
  const lease = renewer.lease()
  return {
    recordKey: lease.key,
    token: lease.token,
    attempt: lease.attempt,
    result: result.kind,
    attempts,
    ...(result.kind === 'recorded' || result.answered === undefined ? {} : { answered: result.answered }),
    remainingMs: remainingMs(lease, now(clock)),
  }
}
