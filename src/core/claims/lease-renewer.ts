/**
 * Renews one lease while its holder works, and warns in time when it no longer can.
 *
 *   keeping → keeping (renewed; or a renewal failed and time is left) | lost | stopped
 *
 * Owns the schedule: a renewal at about every third of the validity (or earlier, where the configuration says so),
 * jittered, so that two in a row may fail. After a renewal that failed it tries again sooner, and backs off exponentially with jitter,
 * never later than the usual share of what is left: most failures are over in a moment, and a quorum that stays away is not hammered.
 * The signal `lost` fires from a timer armed when the lease was granted,
 * *before* the deadline, whatever the nodes do: a holder must stop writing while it still holds. It never claims again:
 * the fencing token proves continuity, and a new claim would be another token.
 *
 * Where `totalHoldMs` is finite, renewing ends then: an application that never answers keeps a bounded lease. The lease
 * itself is not released, because the work may still be under way; it expires, like that of a dead holder.
 */

import { type Clock, type Instant, now, type Random, type Timer } from '../clock.ts'
import type { Events, LeaseEnd } from '../events.ts'
import type { Lease, Leases } from '../ports.ts'
import type { Token } from '../record/token.ts'
import { remainingMs } from './lease.ts'

/** How a lease is renewed, and for how long. */
export type RenewalPolicy = {
  /** Share of the validity after which it is renewed; at most a third, or two failed renewals could lose it. */
  readonly renewFraction: number
  /** Renewals end then. */
  readonly totalHoldMs: number
}

/** For a lease that its holder ends itself: the leadership. */
export const KEPT_WHILE_ALIVE: RenewalPolicy = { renewFraction: 1 / 3, totalHoldMs: Number.POSITIVE_INFINITY }

/** Share of the lease: how long before the deadline the holder is warned. Also never less than a few timer ticks. */
const WARNING_FRACTION = 0.05
const WARNING_MIN_MS = 5

/**
 * Shares of the lease: the ceiling of the first wait after a failed renewal (half a second of thirty), which doubles each time. A
 * wait is at least half of its ceiling: a renewal asks all nodes, and needs their whole deadline where one hangs.
 */
const RETRY_FRACTION = 1 / 60
const RETRY_MIN_SHARE = 0.5

export type LeaseRenewer = {
  /** Aborts before the lease ends without having been renewed, or as soon as another holder is known. */
  readonly lost: AbortSignal
  /** The lease as last renewed. */
  lease(): Lease
  /**
   * Whether it is kept and not about to end on either clock: also after a suspension, before `lost` could fire. Work
   * that has not begun by then must not begin.
   */
  held(): boolean
  /**
   * Renews it now under a larger token, which fences everything granted before that token. False unless a majority is
   * known to have taken it.
   */
  renewWithHigherToken(token: Token): Promise<boolean>
  /** Stops renewing. It releases nothing: the holder's result decides that. */
  stop(ended: LeaseEnd): void
}

export type LeaseRenewerPorts = {
  readonly leases: Pick<Leases, 'renew'>
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

export function renewLease(
  granted: Lease,
  ports: LeaseRenewerPorts,
  renewalPolicy: RenewalPolicy,
): LeaseRenewer {
  return new Renewal(granted, ports, renewalPolicy)
}

/** For renewals that follow none. */
const NONE_UNDER_WAY = Promise.resolve(true)

class Renewal implements LeaseRenewer {
  /** As last renewed. */
  #lease: Lease
  readonly #ports: LeaseRenewerPorts
  readonly #renewFraction: number
  readonly #startedMonoMs: number
  readonly #losing = new AbortController()
  #state: 'keeping' | 'lost' | 'stopped' = 'keeping'
  #renewal: Timer | undefined
  #deadline: Timer | undefined
  #longest: Timer | undefined
  #underWay: Promise<boolean> = NONE_UNDER_WAY
  /** Renewals that failed in a row. */
  #failed = 0

  constructor(granted: Lease, ports: LeaseRenewerPorts, { renewFraction, totalHoldMs }: RenewalPolicy) {
    const { clock, events } = ports
    const at = now(clock)
    this.#lease = granted
    this.#ports = ports
    this.#renewFraction = renewFraction
    this.#startedMonoMs = at.monoMs
    events.publish({ kind: 'lease_began', recordKey: granted.key, token: granted.token })
    this.#armDeadline(at)
    this.#armRenewal(at)
    if (totalHoldMs < Number.POSITIVE_INFINITY)
      this.#longest = clock.timer(totalHoldMs, () => this.#lose('expired'))
  }

  get lost(): AbortSignal {
    return this.#losing.signal
  }

  lease(): Lease {
    return this.#lease
  }

  held(): boolean {
    return this.#state === 'keeping' && this.#keepableMs() > 0
  }

  async renewWithHigherToken(token: Token): Promise<boolean> {
    await this.#underWay
    if (token === this.#lease.token) return this.#state === 'keeping'
    this.#lease = { ...this.#lease, token }
    return this.#renewOnce()
  }

  stop(ended: LeaseEnd): void {
    if (this.#state !== 'keeping') return
    this.#state = 'stopped'
    this.#finish(ended)
  }

  #remainingMs(at: Instant): number {
    return remainingMs(this.#lease, at)
  }

  /** Time until the holder's warning, on whichever clock is sooner. */
  #keepableMs(at = now(this.#ports.clock)): number {
    return this.#remainingMs(at) - Math.max(WARNING_MIN_MS, this.#lease.leaseMs * WARNING_FRACTION)
  }

  #armDeadline(at: Instant): void {
    this.#deadline?.cancel()
    this.#deadline = this.#ports.clock.timer(Math.max(0, this.#keepableMs(at)), () => this.#lose('expired'))
  }

  #armRenewal(at: Instant): void {
    const { clock, random } = this.#ports
    // Up to a tenth earlier, so that leases taken together are not renewed together.
    const usualMs = this.#remainingMs(at) * this.#renewFraction * (1 - 0.1 * random.fraction())
    const delayMs = this.#failed === 0 ? usualMs : Math.min(usualMs, this.#retryDelayMs())
    this.#renewal = clock.timer(Math.max(0, delayMs), () => void this.#renewOnce())
  }

  #retryDelayMs(): number {
    const ceilingMs = this.#lease.leaseMs * RETRY_FRACTION * 2 ** (this.#failed - 1)
    return ceilingMs * (RETRY_MIN_SHARE + (1 - RETRY_MIN_SHARE) * this.#ports.random.fraction())
  }

  /** In sequence: a renewal under the old token must not meet the new one on its way. */
  #renewOnce(): Promise<boolean> {
    this.#underWay = this.#underWay.then(() => this.#renewNow())
    return this.#underWay
  }

  async #renewNow(): Promise<boolean> {
    if (this.#state !== 'keeping') return false
    this.#renewal?.cancel()
    const result = await this.#ports.leases.renew(this.#lease)
    if (this.#state !== 'keeping') return false
    switch (result.kind) {
      case 'renewed': {
        const at = now(this.#ports.clock)
        this.#lease = result.lease
        this.#failed = 0
        this.#armDeadline(at)
        this.#armRenewal(at)
        return true
      }
      case 'lost':
        this.#lose('lost')
        return false
      case 'unavailable': {
        // No other claimant is known to have taken it: retry while it lasts. The deadline timer ends this, unless the
        // wall clock was set forward since it was armed.
        this.#failed += 1
        const at = now(this.#ports.clock)
        if (this.#keepableMs(at) > 0) this.#armRenewal(at)
        else this.#lose('expired')
        return false
      }
    }
  }

  #lose(ended: 'expired' | 'lost'): void {
    if (this.#state !== 'keeping') return
    this.#state = 'lost'
    this.#finish(ended)
    const how =
      ended === 'lost' ? 'was taken by another holder' : 'is about to end and is not renewed any more'
    this.#losing.abort(new Error(`the lease of token ${this.#lease.token} ${how}`))
  }

  #finish(ended: LeaseEnd): void {
    this.#renewal?.cancel()
    this.#deadline?.cancel()
    this.#longest?.cancel()
    const { clock, events } = this.#ports
    const at = now(clock)
    events.publish({
      kind: 'lease_ended',
      recordKey: this.#lease.key,
      token: this.#lease.token,
      attempt: this.#lease.attempt,
      fingerprint: this.#lease.fingerprint,
      ended,
      heldMs: at.monoMs - this.#startedMonoMs,
      remainingMs: this.#remainingMs(at),
    })
  }
}
