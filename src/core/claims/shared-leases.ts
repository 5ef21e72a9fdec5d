/**
 * Answers from what this process already knows, without a round.
 *
 *   nothing known → requested (others join) → held here → outcome known, or nothing
 *
 * Stands in front of `Leases` and answers three kinds of duplicates without a round: those that arrive while a claim of
 * the same request is under way (they share its result), while this process holds the record (held), and after a
 * majority has recorded its outcome (the outcome). The nodes would give, or would have given, each of these answers:
 * "held" and "mismatch" only under a live lease of our own, an outcome only once a majority holds it for good.
 *
 * The memory of outcomes is bounded (`outcome-memory.ts`) and only saves rounds: a process may start without it. An
 * outcome leaves it at the end that it says itself, on the sooner of our two clocks as a lease ends: after that the nodes
 * may have another one.
 */

import { type Clock, type Instant, now } from '../clock.ts'
import type { Events } from '../events.ts'
import type { ClaimRequest, ClaimResult, Lease, Leases } from '../ports.ts'
import type { Fingerprint } from '../record/record.ts'
import { millisecondOf } from '../record/token.ts'
import { ShortLivedMap } from '../short-lived.ts'
import { remainingMs, type Validity } from './lease.ts'
import { createOutcomeMemory } from './outcome-memory.ts'

type SharedLeasesOptions = {
  readonly leases: Leases
  readonly clock: Clock
  readonly events: Events
  /** Most memory for outcomes, counted as body, headers and a fixed overhead; the least recently used go first. */
  readonly outcomeBytesMax: number
}

export type SharedLeases = Leases & {
  /** Resolves when this process's claim on `key` has ended; undefined where it holds none. */
  whenEnded(key: string): Promise<void> | undefined
  /** An operator decided about this record: nothing is answered from memory here, and whoever waits for it claims. */
  forget(key: string): void
  /** Whether this process holds a live lease on the record. */
  isHeld(key: string): boolean
}

/** A claim under way, and the request that it is for. */
type ClaimUnderWay = { readonly fingerprint: Fingerprint; readonly result: Promise<ClaimResult> }

export function shareLeases({ leases, clock, events, outcomeBytesMax }: SharedLeasesOptions): SharedLeases {
  const claimsUnderWay = new ShortLivedMap<string, ClaimUnderWay>()
  const held = new HeldLeases(clock)
  const known = createOutcomeMemory(outcomeBytesMax)

  /** The answer known without a round, or undefined. */
  function answerHere({ key, fingerprint }: ClaimRequest): ClaimResult | undefined {
    const entry = known.find(key)
    if (entry !== undefined && remainingMs(entry, now(clock)) > 0) {
      if (entry.fingerprint !== fingerprint) return { kind: 'mismatch' }
      return { kind: 'duplicate', outcome: entry.outcome, token: entry.token, attempt: entry.attempt }
    }
    if (entry !== undefined) known.forget(key)
    const holder = held.find(key)
    if (holder === undefined) return undefined
    if (holder.lease.fingerprint !== fingerprint) return { kind: 'mismatch' }
    const heldForMs = clock.wallMs() - millisecondOf(holder.lease.token)
    return { kind: 'held', retryAfterMs: holder.leftMs, heldForMs }
  }

  /** Reported like every other claim, with no round. */
  function report(request: ClaimRequest, result: ClaimResult): ClaimResult {
    const { key: recordKey } = request
    events.publish({ kind: 'claim_ended', result: result.kind, recordKey, rounds: 0, durationMs: 0 })
    return result
  }

  /** Joins a claim of the same key that is under way, and reads its result as the second claimant. */
  async function join(request: ClaimRequest, underWay: ClaimUnderWay): Promise<ClaimResult> {
    const first = await underWay.result
    // For the same request every result but "granted" is ours too; if the first was granted, we are its duplicate.
    if (request.fingerprint === underWay.fingerprint && first.kind !== 'granted')
      return report(request, first)
    return claim(request)
  }

  async function claimOnNodes(request: ClaimRequest): Promise<ClaimResult> {
    const { key, fingerprint } = request
    const result = await leases.claim(request)
    if (result.kind === 'granted') held.granted(result.lease)
    if (result.kind === 'duplicate' && result.lastsMs !== undefined) {
      const { outcome, token, attempt, lastsMs } = result
      known.remember(key, { outcome, fingerprint, token, attempt, ...after(now(clock), lastsMs) })
    }
    return result
  }

  function claim(request: ClaimRequest): Promise<ClaimResult> {
    // A claimant with an owner of its own may be the holder itself, retrying.
    if (request.owner !== undefined) return leases.claim(request)
    const here = answerHere(request)
    if (here !== undefined) return Promise.resolve(report(request, here))
    const underWay = claimsUnderWay.get(request.key)
    if (underWay !== undefined) return join(request, underWay)
    const result = claimOnNodes(request)
    claimsUnderWay.set(request.key, { fingerprint: request.fingerprint, result })
    // The first to hear of its end: whoever joined it claims again after that.
    const ended = () => claimsUnderWay.delete(request.key)
    result.then(ended, ended)
    return result
  }

  return {
    claim,
    renew: async (lease) => {
      const result = await leases.renew(lease)
      if (result.kind === 'renewed') held.renewed(result.lease)
      if (result.kind === 'lost') held.end(lease)
      return result
    },
    complete: async (lease, outcome) => {
      // Its end is a retention after this, not after the answer, which may take long.
      const sentAt = now(clock)
      const result = await leases.complete(lease, outcome)
      if (result.kind === 'recorded') {
        const { fingerprint, token, attempt, retentionMs } = lease
        const validity = after(sentAt, retentionMs)
        known.remember(lease.key, { outcome, fingerprint, token, attempt, ...validity })
      }
      if (result.kind !== 'unavailable') held.end(lease)
      return result
    },
    release: async (lease) => {
      // Before the nodes hear of it: from here on the answer is theirs.
      held.end(lease)
      return leases.release(lease)
    },
    // Only claimants with an owner of their own raise and withdraw, and their leases are not shared.
    renewWithHigherToken: (lease) => leases.renewWithHigherToken(lease),
    abortClaim: (lease) => leases.abortClaim(lease),
    purge: (lease) => leases.purge(lease),
    read: (key) => leases.read(key),
    whenEnded: (key) => held.whenEnded(key),
    forget: (key) => {
      known.forget(key)
      const holder = held.find(key)
      if (holder !== undefined) held.end(holder.lease)
    },
    isHeld: (key) => held.find(key) !== undefined,
  }
}

function after({ monoMs, wallMs }: Instant, ms: number): Validity {
  return { validUntilMonoMs: monoMs + ms, validUntilWallMs: wallMs + ms }
}

/**
 * The leases that this process holds, by their key, each until it ends.
 *
 *   granted → held (renewed) → ended (completed, released, lost, or found expired)
 *
 * A lease ends here by our own clocks, which is never later than on the nodes.
 */

/** Fewer leases than this are not worth a walk over them. */
const FORGET_FROM = 1_000

type Held = {
  lease: Lease
  /** Once somebody waits for its end. */
  ended?: PromiseWithResolvers<void>
}

class HeldLeases {
  readonly #clock: Clock
  readonly #held = new ShortLivedMap<string, Held>()
  #forgetFrom = FORGET_FROM

  constructor(clock: Clock) {
    this.#clock = clock
  }

  granted(lease: Lease): void {
    if (this.#held.size >= this.#forgetFrom) this.#forgetExpired()
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
   * A lease that is left to expire (no answer came, a mark of a content) is rarely looked up again. Sweeping once their
   * number has doubled since the last sweep keeps the cost of a claim constant.
   */
  #forgetExpired(): void {
    const at = now(this.#clock)
    for (const { lease } of this.#held.values()) if (remainingMs(lease, at) <= 0) this.end(lease)
    this.#forgetFrom = Math.max(FORGET_FROM, 2 * this.#held.size)
  }
}
