/**
 * Keeps one tenant from using up what all share: how many of its requests are under way, and how many new records it
 * makes each second.
 *
 * Owns two counts for each tenant of this process, in bounded memory: of requests under way only for tenants that have
 * some, and of new records only for tenants that made some within the last second, at most {@link TENANTS_MAX}; those
 * beyond share one count, so that inventing tenants gains nothing. Only its claim shows whether a record is new: the
 * slot is taken before, and released where the record existed.
 *
 * The rate is the generic cell rate algorithm (ITU-T I.371): one number per tenant, the time by which what it has used
 * would have been allowed, with a burst of one second.
 */

import type { Clock } from '../clock.ts'

export type QuotaReached = {
  readonly kind: 'reached'
  readonly quota: 'in-flight' | 'new-records'
  readonly limit: number
  readonly retryAfterMs: number
}

export type Slot = {
  readonly kind: 'slot'
  /** The record existed already: it does not count as new. */
  notNew(): void
  [Symbol.dispose](): void
}

export type TenantQuotas = {
  /** Takes a slot among the requests of a tenant that are under way. Disposing releases it. */
  enter(tenant: string): Slot | QuotaReached
  /** Tenants that are remembered, for a test of the bound. */
  readonly remembered: number
}

export type TenantLimits = { readonly inFlightMax: number; readonly newRecordsPerSecondMax: number }

/** Some 200 bytes each: 2 MiB. Beyond it new tenants share one count. */
export const TENANTS_MAX = 10_000

const BURST_MS = 1_000
/** Looking for tenants to forget walks over all of them: not at every request of a client that invents names. */
const FORGET_EVERY_MS = 100
/** No tenant has an empty name (`identity.ts`). */
const ALL_OTHERS = ''
const RETRY_SOON_MS = 1_000

export function createTenantQuotas(limits: TenantLimits, clock: Clock): TenantQuotas {
  const underWay = new Map<string, number>()
  /** Until when, on the monotonic clock, the tenant's use is above zero. */
  const usedUntilMonoMs = new Map<string, number>()
  const costMs = BURST_MS / limits.newRecordsPerSecondMax
  let forgotMonoMs = Number.NEGATIVE_INFINITY

  function countedAs(tenant: string, nowMonoMs: number): string {
    if (usedUntilMonoMs.has(tenant) || usedUntilMonoMs.size < TENANTS_MAX) return tenant
    if (nowMonoMs - forgotMonoMs >= FORGET_EVERY_MS) {
      forgotMonoMs = nowMonoMs
      for (const [known, untilMonoMs] of usedUntilMonoMs)
        if (untilMonoMs <= nowMonoMs) usedUntilMonoMs.delete(known)
    }
    return usedUntilMonoMs.size < TENANTS_MAX ? tenant : ALL_OTHERS
  }

  return {
    enter: (tenant) => {
      const here = underWay.get(tenant) ?? 0
      if (here >= limits.inFlightMax)
        return { kind: 'reached', quota: 'in-flight', limit: limits.inFlightMax, retryAfterMs: RETRY_SOON_MS }
      const nowMonoMs = clock.monoMs()
      const counted = countedAs(tenant, nowMonoMs)
      const usedMonoMs = Math.max(nowMonoMs, usedUntilMonoMs.get(counted) ?? 0) + costMs
      // Half a cost of tolerance: sums of fractions do not hit the border exactly.
      const overMs = usedMonoMs - nowMonoMs - BURST_MS - costMs / 2
      const { newRecordsPerSecondMax: limit } = limits
      if (overMs > 0) return { kind: 'reached', quota: 'new-records', limit, retryAfterMs: overMs }
      usedUntilMonoMs.set(counted, usedMonoMs)
      underWay.set(tenant, here + 1)
      let inside = true
      let isNew = true
      return {
        kind: 'slot',
        notNew: () => {
          if (!isNew) return
          isNew = false
          const used = usedUntilMonoMs.get(counted)
          if (used !== undefined) usedUntilMonoMs.set(counted, used - costMs)
        },
        [Symbol.dispose]: () => {
          if (!inside) return
          inside = false
          const left = (underWay.get(tenant) ?? 1) - 1
          if (left === 0) underWay.delete(tenant)
          else underWay.set(tenant, left)
        },
      }
    },
    get remembered() {
      return underWay.size + usedUntilMonoMs.size
    },
  }
}
