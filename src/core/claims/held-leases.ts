/**
 * The leases that this process holds, by their key, each until it ends.
 *
 *   granted → held (renewed) → ended (completed, released, lost, or found lapsed)
 *
 * Owns the waiters for the end of one. A lease ends here by our own clocks, which is never later than on the nodes.
 * What is answered while one is held is `shared-leases.ts`.
 */

import type { Clock } from '../clock.ts'
import { now } from '../clock-drift.ts'
import type { Lease } from '../ports.ts'
import { ShortLivedMap } from '../short-lived.ts'
import { remainingMs } from './lease.ts'

/** Fewer leases than this are not worth a walk over them. */
const FORGET_FROM = 1_000

type Held = {
  lease: Lease
  /** Once somebody waits for its end. */
  ended?: PromiseWithResolvers<void>
}

export class HeldLeases {
  readonly #clock: Clock
  readonly #held = new ShortLivedMap<string, Held>()
  #forgetFrom = FORGET_FROM

  constructor(clock: Clock) {
    this.#clock = clock
  }

  granted(lease: Lease): void {
    if (this.#held.size >= this.#forgetFrom) this.#forgetLapsed()
    this.#held.set(lease.key, { lease })
  }

  /** A live lease on the key, and its remaining time. */
  find(key: string): { readonly lease: Lease; readonly leftMs: number } | undefined {
    const holder = this.#held.get(key)
    if (holder === undefined) return undefined
    const { lease } = holder
    const leftMs = remainingMs(lease, now(this.#clock))
    if (leftMs <= 0) {
      this.end(lease)
      return undefined
    }
    return { lease, leftMs }
  }

  renewed(lease: Lease): void {
    const holder = this.#held.get(lease.key)
    if (holder?.lease.owner === lease.owner) holder.lease = lease
  }

  /** One claim has one owner; its token may be raised meanwhile. */
  end({ key, owner }: Pick<Lease, 'key' | 'owner'>): void {
    const holder = this.#held.get(key)
    if (holder?.lease.owner !== owner) return
    this.#held.delete(key)
    holder.ended?.resolve()
  }

  /** Resolves when the lease on the key has ended; undefined where there is none. */
  whenEnded(key: string): Promise<void> | undefined {
    const holder = this.#held.get(key)
    if (holder === undefined) return undefined
    holder.ended ??= Promise.withResolvers()
    return holder.ended.promise
  }

  /**
   * A lease that is left to lapse (no answer came, a mark of a content) is rarely looked up again. Sweeping once their
   * number has doubled since the last sweep keeps the cost of a claim constant.
   */
  #forgetLapsed(): void {
    const at = now(this.#clock)
    for (const { lease } of this.#held.values()) if (remainingMs(lease, at) <= 0) this.end(lease)
    this.#forgetFrom = Math.max(FORGET_FROM, 2 * this.#held.size)
  }
}
