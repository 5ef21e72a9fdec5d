/**
 * What this process knows already, so that it need not ask the nodes again.
 *
 *   nothing known → asking (others join) → held here → outcome known, or nothing
 *
 * Stands in front of `Leases` and answers three kinds of duplicates without a round: those that arrive while the same
 * claim is being asked for (they share its answer), while this process holds the record (held), and after a majority has
 * recorded its outcome (the outcome). Each of these answers is one that the nodes would give or would have given: "held"
 * and "mismatch" are said only under a live lease of our own, an outcome only once a majority holds it, which is for good.
 *
 * The memory of outcomes is bounded (`outcome-memory.ts`). Nothing in it is needed: a process that starts empty asks the nodes.
 */

import { now } from '../clocks.ts'
import type { Events } from '../events.ts'
import type { ClaimRequest, ClaimResult, Clock, Lease, Leases } from '../ports.ts'
import type { Fingerprint } from '../record/record.ts'
import { remainingMs } from './lease.ts'
import { createOutcomeMemory } from './outcome-memory.ts'

export type SharedLeasesOptions = {
  readonly leases: Leases
  readonly clock: Clock
  readonly events: Events
  /** Most memory for outcomes, counted as body, headers and a fixed overhead; the longest unused go first. */
  readonly outcomeBytesMax: number
}

export type SharedLeases = Leases & {
  /** Resolves when the claim that this process holds on `key` has ended; undefined where it holds none. */
  whenEnded(key: string): Promise<void> | undefined
}

/** Fewer claims than this are not worth a walk over them. */
const FORGET_FROM = 1_000

/** A claim that is under way, and for which request. */
type Asking = { readonly fingerprint: Fingerprint; readonly result: Promise<ClaimResult> }

type Held = {
  lease: Lease
  readonly ended: PromiseWithResolvers<void>
}

export function shareLeases({ leases, clock, events, outcomeBytesMax }: SharedLeasesOptions): SharedLeases {
  const asking = new Map<string, Asking>()
  const held = new Map<string, Held>()
  const known = createOutcomeMemory(outcomeBytesMax)
  let forgetFrom = FORGET_FROM

  /** What is known here without asking, or undefined. */
  function answerHere({ key, fingerprint }: ClaimRequest): ClaimResult | undefined {
    const entry = known.find(key)
    if (entry !== undefined && entry.untilMonoMs > clock.monoMs()) {
      if (entry.fingerprint !== fingerprint) return { kind: 'mismatch' }
      return { kind: 'duplicate', outcome: entry.outcome, token: entry.token, attempt: entry.attempt }
    }
    if (entry !== undefined) known.forget(key)
    const holder = held.get(key)
    if (holder === undefined) return undefined
    const leftMs = remainingMs(holder.lease, now(clock))
    if (leftMs <= 0) {
      end(key, holder.lease)
      return undefined
    }
    return holder.lease.fingerprint === fingerprint
      ? { kind: 'held', retryAfterMs: leftMs }
      : { kind: 'mismatch' }
  }

  /** Told like every other claim, with no round. */
  function told(request: ClaimRequest, result: ClaimResult): ClaimResult {
    events.publish({
      kind: 'claim_ended',
      result: result.kind,
      recordKey: request.key,
      rounds: 0,
      durationMs: 0,
    })
    return result
  }

  /** Joins a claim of the same key that is under way, and reads its answer as one who came second. */
  async function join(request: ClaimRequest, underWay: Asking): Promise<ClaimResult> {
    const first = await underWay.result
    // For the same request every answer but "granted" is ours too; granted to the first, we are its duplicate.
    if (request.fingerprint === underWay.fingerprint && first.kind !== 'granted') return told(request, first)
    return claim(request)
  }

  async function ask(request: ClaimRequest): Promise<ClaimResult> {
    const { key, fingerprint, retentionMs } = request
    const result = await leases.claim(request)
    if (result.kind === 'granted') {
      if (held.size >= forgetFrom) forgetLapsed()
      held.set(key, { lease: result.lease, ended: Promise.withResolvers() })
    }
    if (result.kind === 'duplicate') {
      const { outcome, token, attempt } = result
      // The nodes forget it when its retention is over; by our clocks that is not later than this.
      const leftMs = retentionMs - Math.max(0, clock.wallMs() - outcome.completedAtWallMs)
      if (leftMs > 0)
        known.remember(key, { outcome, fingerprint, token, attempt, untilMonoMs: clock.monoMs() + leftMs })
    }
    return result
  }

  async function claim(request: ClaimRequest): Promise<ClaimResult> {
    // A claimant with an owner of its own may be the holder itself, asking again.
    if (request.owner !== undefined) return leases.claim(request)
    const here = answerHere(request)
    if (here !== undefined) return told(request, here)
    const underWay = asking.get(request.key)
    if (underWay !== undefined) return join(request, underWay)
    const result = ask(request).finally(() => asking.delete(request.key))
    asking.set(request.key, { fingerprint: request.fingerprint, result })
    return result
  }

  /**
   * What is left to lapse (no answer came, a mark of a content) is not asked about again, as a rule. Once there are twice as
   * many claims as the last time left standing: a claim costs the same, however many there are.
   */
  function forgetLapsed(): void {
    const at = now(clock)
    for (const [key, { lease }] of held) if (remainingMs(lease, at) <= 0) end(key, lease)
    forgetFrom = Math.max(FORGET_FROM, 2 * held.size)
  }

  /** One claim has one owner; its token may be raised meanwhile. */
  function end(key: string, lease: Pick<Lease, 'owner'>): void {
    const holder = held.get(key)
    if (holder?.lease.owner !== lease.owner) return
    held.delete(key)
    holder.ended.resolve()
  }

  return {
    claim,
    renew: async (lease) => {
      const result = await leases.renew(lease)
      const holder = held.get(lease.key)
      if (result.kind === 'renewed' && holder?.lease.owner === lease.owner) holder.lease = result.lease
      if (result.kind === 'lost') end(lease.key, lease)
      return result
    },
    complete: async (lease, outcome) => {
      const result = await leases.complete(lease, outcome)
      if (result.kind === 'recorded') {
        const { fingerprint, token, attempt } = lease
        known.remember(lease.key, {
          outcome,
          fingerprint,
          token,
          attempt,
          untilMonoMs: clock.monoMs() + lease.retentionMs,
        })
      }
      if (result.kind !== 'unavailable') end(lease.key, lease)
      return result
    },
    release: async (lease) => {
      // Before the nodes are told: from here on the answer is theirs.
      end(lease.key, lease)
      return leases.release(lease)
    },
    read: (key) => leases.read(key),
    whenEnded: (key) => held.get(key)?.ended.promise,
  }
}
