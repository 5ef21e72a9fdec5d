/**
 * Keeps one lease alive while its holder works, and says in time when it no longer can.
 *
 *   keeping → keeping (renewed; or a renewal failed and time is left) | lost | stopped
 *
 * Owns the schedule: a renewal at about every third of the validity (or earlier, where the configuration says so),
 * jittered, so that two in a row may fail. The signal
 * `lost` fires from a timer that was armed when the lease was granted, *before* the deadline, whatever the nodes do or
 * don't: a holder must stop writing while it still holds. It never claims again: continuity is what the fencing token
 * proves, and a new claim would be another token.
 *
 * Where `totalHoldMs` is finite, renewing ends then: what an application that never answers can keep is bounded. The lease
 * itself is not released, because the work may still be under way; it lapses, as that of a holder that died.
 */

import { now } from '../clocks.ts'
import type { Events, LeaseEnd } from '../events.ts'
import type { Clock, Lease, Leases, Random, Timer } from '../ports.ts'
import type { Token } from '../record/token.ts'
import { remainingMs } from './lease.ts'

/** How a lease is kept, and for how long. */
export type Keeping = {
  /** Share of the validity after which it is renewed; at most a third, or two failed renewals could lose it. */
  readonly renewFraction: number
  /** Renewals end then. */
  readonly totalHoldMs: number
}

/** For what ends by itself: offices. */
export const KEPT_WHILE_ALIVE: Keeping = { renewFraction: 1 / 3, totalHoldMs: Number.POSITIVE_INFINITY }

/** Of the lease: how long before the deadline the holder is warned. Also never less than a few timer ticks. */
const WARNING_FRACTION = 0.05
const WARNING_MIN_MS = 5

export type LeaseKeeper = {
  /** Aborts before the lease ends without having been renewed, or as soon as another holder is known. */
  readonly lost: AbortSignal
  /** The lease as last renewed. */
  lease(): Lease
  /**
   * Whether it is kept and not about to end on either clock: also where this process stood still, and `lost` has had no turn
   * to fire yet. What has not begun by then must not.
   */
  held(): boolean
  /**
   * Renews it now under a larger token, so that everything granted before that token is fenced. False where a majority is
   * not known to have taken it.
   */
  raise(token: Token): Promise<boolean>
  /** Stops renewing. Nothing is released: what the holder achieved decides that. */
  stop(ended: LeaseEnd): void
}

export type LeaseKeeperPorts = {
  readonly leases: Pick<Leases, 'renew'>
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

export function keepLease(
  granted: Lease,
  { leases, clock, random, events }: LeaseKeeperPorts,
  { renewFraction, totalHoldMs }: Keeping,
): LeaseKeeper {
  const controller = new AbortController()
  const startedMonoMs = clock.monoMs()
  let lease = granted
  let state: 'keeping' | 'lost' | 'stopped' = 'keeping'
  let renewal: Timer
  let deadline: Timer
  let longest: Timer | undefined

  /** Until the holder is to be warned, on whichever clock is sooner. */
  function keepableMs(): number {
    return remainingMs(lease, now(clock)) - Math.max(WARNING_MIN_MS, lease.leaseMs * WARNING_FRACTION)
  }

  function armDeadline(): void {
    deadline = clock.timer(Math.max(0, keepableMs()), () => lose('expired'))
  }

  function armRenewal(): void {
    const validityMs = remainingMs(lease, now(clock))
    // Up to a tenth earlier, so that leases that were taken together are not renewed together.
    const delayMs = validityMs * renewFraction * (1 - 0.1 * random.fraction())
    renewal = clock.timer(Math.max(0, delayMs), () => void renewOnce())
  }

  let underWay: Promise<boolean> = Promise.resolve(true)

  /** One after the other: a renewal under the old token must not meet the new one on its way. */
  function renewOnce(): Promise<boolean> {
    underWay = underWay.then(renewNow)
    return underWay
  }

  async function renewNow(): Promise<boolean> {
    if (state !== 'keeping') return false
    renewal.cancel()
    const result = await leases.renew(lease)
    if (state !== 'keeping') return false
    switch (result.kind) {
      case 'renewed':
        lease = result.lease
        deadline.cancel()
        armDeadline()
        armRenewal()
        return true
      case 'lost':
        lose('lost')
        return false
      case 'unavailable':
        // Nobody is known to have taken it: try again while it lasts. The deadline timer ends this, unless the wall clock
        // was set forward since it was armed.
        if (keepableMs() > 0) armRenewal()
        else lose('expired')
        return false
    }
  }

  function lose(ended: 'expired' | 'lost'): void {
    if (state !== 'keeping') return
    state = 'lost'
    finish(ended)
    controller.abort(
      new Error(
        `the lease of token ${lease.token} ${ended === 'lost' ? 'was taken by another holder' : 'is about to end and is not renewed any more'}`,
      ),
    )
  }

  function finish(ended: LeaseEnd): void {
    renewal.cancel()
    deadline.cancel()
    longest?.cancel()
    const heldMs = clock.monoMs() - startedMonoMs
    events.publish({
      kind: 'lease_ended',
      recordKey: lease.key,
      token: lease.token,
      ended,
      heldMs,
      remainingMs: remainingMs(lease, now(clock)),
    })
  }

  events.publish({ kind: 'lease_began', recordKey: lease.key, token: lease.token })
  armDeadline()
  armRenewal()
  if (totalHoldMs < Number.POSITIVE_INFINITY) longest = clock.timer(totalHoldMs, () => lose('expired'))
  return {
    lost: controller.signal,
    lease: () => lease,
    held: () => state === 'keeping' && keepableMs() > 0,
    raise: async (token) => {
      await underWay
      if (token === lease.token) return state === 'keeping'
      lease = { ...lease, token }
      return renewOnce()
    },
    stop: (ended) => {
      if (state !== 'keeping') return
      state = 'stopped'
      finish(ended)
    },
  }
}
