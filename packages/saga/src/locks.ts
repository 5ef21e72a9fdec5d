/**
 * Locks on several resources at once, kept alive while the work runs.
 *
 * Owns the order (duplicates removed, sorted by bytes, so that two callers never wait for each other crosswise), the
 * renewal, and a release that never hides the result of the work. Refuses to lock anything itself: that is the
 * `LockManager`'s, which takes all or nothing. Safety is not here but in the fencing token (`fences.ts`).
 */

import { LeaseLostError } from './errors.ts'
import type { SagaKit } from './kit.ts'

/** All or nothing. @throws LockNotAcquiredError where one of the resources has another holder. */
export interface LockManager {
  acquire(resources: readonly string[], options: { readonly leaseMs: number }): Promise<HeldLock>
}

export interface HeldLock {
  /** One token for all resources; higher than that of every earlier holder of any of them. */
  readonly fencingToken: number
  /** Aborts when the lease is over or known to be lost, before another holder can have it. */
  readonly signal: AbortSignal
  /** @throws LeaseLostError where another holder may have it by now. */
  renew(leaseMs: number): Promise<void>
  /** Of no effect where the lease is lost. */
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
  const lock = await lockManager.acquire(sorted, { leaseMs })
  const stopRenewal = autoRenew ? renewing(kit, lock, sorted, leaseMs) : () => {}
  try {
    return await work({ fencingToken: lock.fencingToken, signal: lock.signal })
  } catch (error) {
    // What failed because it was told to stop, failed because the lease was lost.
    if (lock.signal.aborted && error === lock.signal.reason)
      throw new LeaseLostError(sorted.join(', '), { cause: error })
    throw error
  } finally {
    stopRenewal()
    // The work is done or has failed, and that is what counts: a lock that cannot be released ends with its lease.
    await lock.release().catch((error: unknown) => {
      kit.emit({ kind: 'lock_release_failed', resources: sorted, error })
    })
  }
}

/** Without duplicates, sorted by bytes: the same on every machine, whatever its locale. */
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
        // Losing the lease is told by `signal`; a failed renewal may still be followed by one that works.
        .catch((error: unknown) => kit.emit({ kind: 'lock_renewal_failed', resources, error }))
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
