/**
 * What shows that a node has forgotten although the epoch that it has names the run of its process.
 *
 * An epoch is data. It goes with the records where these are flushed, but not where they are evicted; and it comes back
 * with the records where a node is given data of before, by a replication in which it was the replica for a while.
 *
 * Owns what one process has seen of one node's epochs, and these judgements; `beats.ts` knows one more. What a node
 * shows is read elsewhere.
 */

import { isEnrolled, type Lineage, lineageIn, wasReplicaSince } from './enrolment-rules.ts'

export type EpochShown = {
  readonly runId: string
  readonly epoch: string | undefined
  readonly role: string
  readonly lineage: Lineage
  /** Since its process started, or since its counters were reset. */
  readonly evictedKeys: number
}

type Seen = {
  readonly epoch: string | undefined
  readonly sinceMonoMs: number
  readonly lineage: Lineage
  readonly evictedKeys: number
}

const HAS_EVICTED = 'it has evicted keys'

export class EpochWatch {
  #seen: Seen | undefined
  /** Those that others have replaced, or that were taken away. Enrolments are few. */
  readonly #past = new Set<string>()

  /** The epoch at the last look, and since when it is known. */
  get seen(): Pick<Seen, 'epoch' | 'sinceMonoMs'> | undefined {
    return this.#seen
  }

  /** @returns why the node has forgotten what it promised under the epoch that it shows; undefined: nothing shows it */
  saw(shown: EpochShown, nowMonoMs: number): string | undefined {
    const { epoch, role, lineage, evictedKeys } = shown
    const before = this.#seen?.epoch === epoch ? this.#seen : undefined
    if (before === undefined && this.#seen?.epoch !== undefined) this.#past.add(this.#seen.epoch)
    const {
      sinceMonoMs = nowMonoMs,
      lineage: first = lineage,
      evictedKeys: evictedBefore = evictedKeys,
    } = before ?? {}
    // A counter that was reset counts on from there.
    this.#seen = { epoch, sinceMonoMs, lineage: first, evictedKeys: Math.min(evictedBefore, evictedKeys) }
    if (epoch === undefined) return undefined
    // In this run, and it has not voted in it: what it had when it was started again is not what it shows.
    if (!isEnrolled(shown)) return evictedKeys > 0 ? HAS_EVICTED : undefined
    if (role !== 'master' || wasReplicaSince(lineageIn(epoch) ?? first, lineage))
      return 'it was a replica of another server, whose data may lack what it had promised'
    if (this.#past.has(epoch)) return 'its data were set back: it has an epoch of before'
    return hasEvictedSince(evictedBefore, evictedKeys) ? HAS_EVICTED : undefined
  }
}

/**
 * Below what it was, a counter was reset since, and counts evictions since then. At 0 there were none since, and those
 * before are unknown. That is taken for none: a node that never evicted shows a reset by nothing, so the opposite
 * would find few more, and would end the vote of each node whose operator resets its counters, perhaps of all at once.
 */
export function hasEvictedSince(before: number, now: number): boolean {
  return now !== before && now > 0
}
