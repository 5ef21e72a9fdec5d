/**
 * Offering an outcome to the quorum: first while its client waits, then without it.
 *
 * Owns how often and how long. The same outcome is offered every time, because one lease has one; what an answer means for
 * the request is `deduplicate.ts`. A client that was answered in between was told `unstored`, and until the lease ends
 * duplicates are refused: what is recorded late is still the truth.
 */

import type { Clock, Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { CompleteResult, Leases } from '../ports.ts'
import type { StoredOutcome } from '../record/stored-outcome.ts'
import { type Backoff, jitteredDelayMs, pause } from '../retry.ts'
import type { LeaseKeeper } from './lease-keeper.ts'

export type OfferPorts = {
  readonly leases: Pick<Leases, 'complete'>
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

const IN_TIME_BACKOFF: Backoff = { initialMs: 10, maxMs: 250 }

/** After the client has its answer there is no hurry, and the nodes have trouble enough. */
const LATE_BACKOFF: Backoff = { initialMs: 100, maxMs: 2_000 }

/** In leases: nodes that renew a lease but never take its outcome are not asked for ever. */
const LATE_LEASES_MAX = 20

/**
 * Offers the outcome until a majority has it, a majority refuses it for good (which may leave it undecided), or the time for it is
 * over.
 */
export async function offerOutcome(
  outcome: StoredOutcome,
  budgetMs: number,
  keeper: LeaseKeeper,
  { leases, clock, random, events }: OfferPorts,
): Promise<CompleteResult> {
  const untilMonoMs = clock.monoMs() + budgetMs
  for (let attempts = 1; ; attempts += 1) {
    const result = await leases.complete(keeper.lease(), outcome)
    const delayMs = jitteredDelayMs(IN_TIME_BACKOFF, attempts - 1, random)
    if (result.kind !== 'unavailable' || clock.monoMs() + delayMs >= untilMonoMs) {
      events.publish({ kind: 'completed', recordKey: keeper.lease().key, result: result.kind, attempts })
      return result
    }
    await pause(clock, delayMs)
  }
}

/** Goes on offering for as long as the lease can be kept, and once more when it is lost; then the keeper is stopped. */
export async function offerLater(
  outcome: StoredOutcome,
  keeper: LeaseKeeper,
  { leases, clock, random, events }: OfferPorts,
): Promise<void> {
  const { key: recordKey, leaseMs } = keeper.lease()
  const untilMonoMs = clock.monoMs() + LATE_LEASES_MAX * leaseMs
  for (let attempts = 1; ; attempts += 1) {
    await pause(clock, jitteredDelayMs(LATE_BACKOFF, attempts - 1, random))
    const { kind: result } = await leases.complete(keeper.lease(), outcome)
    if (result === 'unavailable' && !keeper.lost.aborted && clock.monoMs() < untilMonoMs) continue
    keeper.stop(result === 'recorded' ? 'completed' : result === 'unavailable' ? 'abandoned' : 'lost')
    events.publish({ kind: 'settled_late', recordKey, result, attempts })
    return
  }
}
