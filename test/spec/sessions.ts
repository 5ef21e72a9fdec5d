/**
 * What claimants of a recorded run on real nodes do and conclude: races, leases that expire and are taken over,
 * takeovers that are released, and late calls of each.
 */

import { setTimeout as pause } from 'node:timers/promises'
import type { Lease } from '../../src/core/ports.ts'
import { contentOf } from '../simulation/sidecar.ts'
import { fingerprintOf, keyOf, outcomeOf, type Sidecar } from '../support/redis-cluster.ts'
import type { Timed } from './node-recorder.ts'
import type { Event } from './recorder.ts'
import { nowUs } from './watched-nodes.ts'

const RETENTION_MS = 600_000
const SHORT_LEASE_MS = 400

export class Sessions {
  readonly concluded: Timed[] = []
  readonly #sidecars: readonly Sidecar[]

  constructor(sidecars: readonly Sidecar[]) {
    this.#sidecars = sidecars
  }

  /**
   * Sessions of every kind beside a fault, then some of them once more, and one that lasts from before it until after
   * it.
   */
  async phase(name: string, fault: () => Promise<void>): Promise<void> {
    const across = await this.#granted(0, `${name}-across`, 60_000)
    await Promise.all([fault(), this.#sessions(`${name}-1`)])
    await this.#sessions(`${name}-2`)
    await this.#complete(0, `${name}-across`, across)
    await Promise.all(
      [`${name}-across`, `${name}-1-over`, 'calm-2-race'].map((key) => this.#claim(1, key, 10_000)),
    )
  }

  async #sessions(name: string): Promise<void> {
    await Promise.all([
      this.#race(`${name}-race`),
      this.#takenOver(`${name}-over`),
      this.#givenBack(`${name}-back`),
      this.#otherContent(`${name}-other`),
    ])
  }

  async #race(name: string): Promise<void> {
    const leases = await Promise.all([0, 1, 2].map((at) => this.#claim(at, name, 10_000)))
    await Promise.all(leases.map((lease, at) => this.#complete(at, name, lease)))
    await this.#claim(0, name, 10_000)
  }

  async #takenOver(name: string): Promise<void> {
    const expires = await this.#granted(0, name, SHORT_LEASE_MS)
    const holds = await this.#granted(1, name, 20_000)
    // Each of them late: another holder's claim stands.
    if (expires !== undefined) {
      await this.#leases(0).release(expires)
      await this.#leases(0).renew(expires)
      await this.#complete(0, name, expires)
    }
    if (holds !== undefined) await this.#leases(1).renew(holds)
    await this.#complete(1, name, holds)
    await this.#claim(2, name, 10_000)
  }

  async #givenBack(name: string): Promise<void> {
    await this.#granted(2, name, SHORT_LEASE_MS)
    const takes = await this.#granted(1, name, 20_000)
    if (takes !== undefined) await this.#leases(1).release(takes)
    await this.#granted(0, name, SHORT_LEASE_MS)
    // Its own lease is not over yet, and a larger token was granted and has expired.
    await pause(SHORT_LEASE_MS)
    if (takes !== undefined) await this.#leases(1).renew(takes)
    await this.#complete(2, name, await this.#granted(2, name, 20_000))
  }

  async #otherContent(name: string): Promise<void> {
    const first = await this.#granted(0, name, 20_000)
    await this.#claim(1, name, 10_000, `${name}-2`)
    if (first !== undefined) await this.#leases(0).release(first)
    const second = await this.#granted(1, name, 20_000, `${name}-2`)
    await this.#complete(1, name, second)
    if (first !== undefined) await this.#leases(0).release(first)
  }

  #leases(at: number): Sidecar['leases'] {
    return (this.#sidecars[at] as Sidecar).leases
  }

  /** Until granted: a lease must expire, a node is suspended. Undefined where it never is, as in a broken build. */
  async #granted(
    at: number,
    name: string,
    leaseMs: number,
    content: string = name,
  ): Promise<Lease | undefined> {
    const untilMs = performance.now() + 6_000
    while (performance.now() < untilMs) {
      const lease = await this.#claim(at, name, leaseMs, content)
      if (lease !== undefined) return lease
      await pause(100)
    }
    return undefined
  }

  async #claim(
    at: number,
    name: string,
    leaseMs: number,
    content: string = name,
  ): Promise<Lease | undefined> {
    const claimed = await this.#leases(at).claim({
      key: keyOf(name),
      fingerprint: fingerprintOf(content),
      leaseMs,
      retentionMs: RETENTION_MS,
      budgetMs: 2_000,
    })
    if (claimed.kind === 'duplicate')
      this.#conclude({ kind: 'shown', key: keyOf(name), content: contentOf(claimed.outcome) })
    if (claimed.kind !== 'granted') return undefined
    const { key, token, owner } = claimed.lease
    this.#conclude({ kind: 'granted', key, token, owner })
    return claimed.lease
  }

  async #complete(at: number, name: string, lease: Lease | undefined): Promise<void> {
    if (lease === undefined) return
    const outcome = outcomeOf(`${name} by ${at} of attempt ${lease.attempt}`)
    const { kind } = await this.#leases(at).complete(lease, outcome)
    if (kind === 'recorded') this.#conclude({ kind: 'shown', key: lease.key, content: contentOf(outcome) })
  }

  #conclude(event: Event): void {
    this.concluded.push({ atUs: nowUs(), event })
  }
}
