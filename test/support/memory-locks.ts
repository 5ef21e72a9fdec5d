/**
 * A lock manager inside the process, with the behaviour that matters: leases that end by the clock, all resources or
 * none, one increasing token, renewal refused once the lease is over, and a release that spares the next holder.
 */

import { type HeldLock, LeaseEndedError, type LockManager, LockNotAcquiredError } from '@fencepost/saga'
import { processClock } from '../../packages/saga/src/ambient.ts'
import type { Clock } from '../../src/core/clock.ts'

type Entry = { readonly token: number; untilMonoMs: number }

export class MemoryLocks implements LockManager {
  readonly acquired: string[][] = []
  readonly #clock: Clock
  readonly #held = new Map<string, Entry>()
  #token = 0

  constructor(clock: Clock = processClock) {
    this.#clock = clock
  }

  async acquire(resources: readonly string[], { leaseMs }: { leaseMs: number }): Promise<HeldLock> {
    const now = this.#clock.monoMs()
    const left = resources.map((resource) => (this.#held.get(resource)?.untilMonoMs ?? now) - now)
    if (left.some((ms) => ms > 0)) throw new LockNotAcquiredError(resources, Math.max(...left))
    this.#token += 1
    const token = this.#token
    const entry: Entry = { token, untilMonoMs: now + leaseMs }
    for (const resource of resources) this.#held.set(resource, entry)
    this.acquired.push([...resources])
    const mine = () => resources.every((resource) => this.#held.get(resource) === entry)
    const controller = new AbortController()
    const lost = () => controller.abort(new LeaseEndedError(resources.join(', ')))
    let timer = this.#clock.timer(leaseMs, lost)
    return {
      fencingToken: token,
      signal: controller.signal,
      renew: async (renewedMs) => {
        if (!mine() || controller.signal.aborted) throw new LeaseEndedError(resources.join(', '))
        timer.cancel()
        timer = this.#clock.timer(renewedMs, lost)
        entry.untilMonoMs = this.#clock.monoMs() + renewedMs
      },
      release: async () => {
        timer.cancel()
        if (mine()) for (const resource of resources) this.#held.delete(resource)
      },
    }
  }

  /** As if the quorum had forgotten: the next caller gets it, without notice to this holder. */
  forget(resource: string): void {
    this.#held.delete(resource)
  }
}
