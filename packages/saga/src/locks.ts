/**
 * Locks on several resources at once, kept alive while the work runs.
 *
 * Owns the order (without duplicates, sorted by bytes, so that two callers never wait for each other crosswise), the
 * renewal, and a release that never hides the result of the work. Refuses to lock anything itself: that is the
 * `LockManager`'s, which takes all or nothing. The fencing token (`fences.ts`) provides the safety, not the lock.
 */

import { LeaseEndedError } from './errors.ts'
import type { SagaKit } from './kit.ts'
import { requireName, requirePositive } from './option-checks.ts'

/** All or nothing. @throws LockNotAcquiredError if another holder has one of the resources. */
export interface LockManager {
  acquire(resources: readonly string[], options: { readonly leaseMs: number }): Promise<HeldLock>
}

export interface HeldLock {
  /** One token for all resources; higher than that of every earlier holder of any of them. */
  readonly fencingToken: number
  /** Aborts when the lease is over or known to be lost, before another holder can get it. */
  readonly signal: AbortSignal
  /** @throws LeaseEndedError if another holder may have it by now. */
  renew(leaseMs: number): Promise<void>
  /** Has no effect after the lease is lost. */
  release(): Promise<void>
}

export type LockOptions = {
  readonly leaseMs: number
  /** Renew every third of the lease while the work runs. Default true. */
  readonly autoRenew?: boolean
}

export type UnderLocks = { readonly fencingToken: number; readonly signal: AbortSignal }

export async function withLocks<T>(
  kit: SagaKit,
  lockManager: LockManager,
  resources: readonly string[],
  { leaseMs, autoRenew = true }: LockOptions,
  work: (held: UnderLocks) => Promise<T>,
): Promise<T> {
  const sorted = inLockOrder(resources)
  if (sorted.length === 0) throw new RangeError('withLocks needs at least one resource')
  for (const resource of sorted) requireName('a resource', resource)
  requirePositive({ leaseMs })
  const lock = await lockManager.acquire(sorted, { leaseMs })
  const stopRenewal = autoRenew ? renewing(kit, lock, sorted, leaseMs) : () => {}
  try {
    return await work({ fencingToken: lock.fencingToken, signal: lock.signal })
  } catch (error) {
    // The work failed because of its signal: the cause is the lost lease.
    if (lock.signal.aborted && error === lock.signal.reason)
      throw new LeaseEndedError(sorted.join(', '), { cause: error })
    throw error
  } finally {
    stopRenewal()
    // The result of the work counts: a lock that cannot be released ends with its lease.
    await lock.release().catch((error: unknown) => {
      kit.emit({ kind: 'lock_release_failed', resources: sorted, error })
    })
  }
}

/** Without duplicates, sorted by bytes: the same on every machine, in every locale. */
export function inLockOrder(resources: readonly string[]): readonly string[] {
  return [...new Set(resources.map((resource) => resource.normalize('NFC')))].sort((a, b) =>
    Buffer.compare(Buffer.from(a), Buffer.from(b)),
  )
}

function renewing(kit: SagaKit, lock: HeldLock, resources: readonly string[], leaseMs: number): () => void {
  let stopped = false
  let timer = schedule()
  function schedule() {
    return kit.clock.timer(leaseMs / 3, () => {
      lock
        .renew(leaseMs)
        // `signal` reports a lost lease; after a failed renewal another one may succeed. One that met the release is none.
        .catch((error: unknown) => {
          if (!stopped) kit.emit({ kind: 'lock_renewal_failed', resources, error })
        })
        .finally(() => {
          if (!stopped && !lock.signal.aborted) timer = schedule()
        })
    })
  }
  return () => {
    stopped = true
    timer.cancel()
  }
}
