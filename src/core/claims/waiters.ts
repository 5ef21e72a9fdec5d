/**
 * Counts waiters, for one key and in this process altogether; and lets one of them claim for all that wait for the same request.
 *
 * Waiting itself, and for how long, is the waiter's business.
 */

import type { Random } from '../clock.ts'
import type { ClaimResult } from '../ports.ts'
import { type Backoff, jitteredDelayMs } from '../retry.ts'

/** A holder works on it, or several claimants race for it: both end, and a later claim finds out the result. */
export type Busy = Extract<ClaimResult, { kind: 'held' | 'contended' }>

export function isBusy(claimed: ClaimResult): claimed is Busy {
  return claimed.kind === 'held' || claimed.kind === 'contended'
}

export type Waiters = {
  /** The limit that {@link enter} refused by, for the message: the one for a single key. */
  readonly limit: number
  /** Takes a slot; undefined where there is none. Disposing releases it. */
  enter(key: string): Disposable | undefined
  /** In which one waiter claims for all that wait for the same. */
  readonly groups: WaitGroups
}

/** @param perKey most waiters of one key @param inAll most waiters of the process */
export function createWaiters(perKey: number, inAll: number): Waiters {
  const waiting = new Map<string, number>()
  let total = 0
  return {
    limit: perKey,
    groups: createWaitGroups(),
    enter: (key) => {
      const here = waiting.get(key) ?? 0
      if (here >= perKey || total >= inAll) return undefined
      waiting.set(key, here + 1)
      total += 1
      let inside = true
      return {
        [Symbol.dispose]: () => {
          if (!inside) return
          inside = false
          total -= 1
          const left = (waiting.get(key) ?? 1) - 1
          if (left === 0) waiting.delete(key)
          else waiting.set(key, left)
        },
      }
    },
  }
}

/**
 *   join → one of many: until another is answered → leave
 *          first of them: claims again and again, and wakes the others with its answer → leave: the next one is first
 *
 * Owns who claims, and how soon again. What an answer means to each is its own claim's business: once the first one has
 * the outcome, the others are answered from memory (`shared-leases.ts`). No promise rests on it: whoever claims besides is
 * answered by the nodes.
 */

/** Nobody notices a pause that is a small part of the work, and nobody needs one that is longer than this. */
const SHARE_OF_WAIT = 1 / 20
const SHORTEST_MS = 10
const LONGEST_SHARE_MS = 100

/** A waiter's slot in its group. Disposing leaves it. */
export type GroupMember = Disposable & {
  /** Whether this one claims for all. */
  readonly isFirst: boolean
  /** How often the group was answered. */
  readonly answers: number
  /** Resolves when one of the group is answered, or when this one becomes the first. */
  readonly woken: Promise<void>
  /**
   * Until the first one claims again. The group claims no more often than its waiters would, each for itself with
   * `backoff`; and with a pause of at least {@link SHORTEST_MS}, growing to {@link LONGEST_SHARE_MS} as the wait does.
   */
  nextPauseMs(backoff: Backoff, nowMonoMs: number, random: Random): number
  /** This one has its answer: all others may claim at once. */
  answered(nowMonoMs: number): void
}

type WaitGroups = {
  /** @param request which requests are the same: they are answered alike */
  join(request: string, nowMonoMs: number): GroupMember
}

export function createWaitGroups(): WaitGroups {
  const groups = new Map<string, WaitGroup>()
  return {
    join: (request, nowMonoMs) => {
      const group = groups.get(request) ?? new WaitGroup(nowMonoMs, () => groups.delete(request))
      groups.set(request, group)
      return group.join()
    },
  }
}

type Waiting = { woken: PromiseWithResolvers<void> }

class WaitGroup {
  readonly #onEmpty: () => void
  /** In order of arrival. */
  readonly #waiting = new Set<Waiting>()
  #sinceMonoMs: number
  #pauses = 0
  #answers = 0

  constructor(nowMonoMs: number, onEmpty: () => void) {
    this.#sinceMonoMs = nowMonoMs
    this.#onEmpty = onEmpty
  }

  join(): GroupMember {
    const one: Waiting = { woken: Promise.withResolvers() }
    const isFirst = () => this.#first() === one
    const answers = () => this.#answers
    this.#waiting.add(one)
    return {
      get isFirst() {
        return isFirst()
      },
      get answers() {
        return answers()
      },
      get woken() {
        return one.woken.promise
      },
      nextPauseMs: (backoff, nowMonoMs, random) => this.#nextPauseMs(backoff, nowMonoMs, random),
      answered: (nowMonoMs) => this.#answered(nowMonoMs),
      [Symbol.dispose]: () => this.#leave(one),
    }
  }

  #first(): Waiting | undefined {
    return this.#waiting.values().next().value
  }

  #nextPauseMs(backoff: Backoff, nowMonoMs: number, random: Random): number {
    const aloneMs = jitteredDelayMs(backoff, this.#pauses, random)
    this.#pauses += 1
    const shareMs = (nowMonoMs - this.#sinceMonoMs) * SHARE_OF_WAIT
    const leastMs = Math.min(LONGEST_SHARE_MS, Math.max(SHORTEST_MS, shareMs))
    // Jittered, too: other sidecars wait for the same end, and must not claim in step.
    return Math.max(aloneMs / this.#waiting.size, leastMs * (0.75 + random.fraction() / 2))
  }

  #answered(nowMonoMs: number): void {
    this.#answers += 1
    // Whoever waits on waits for what comes next.
    this.#pauses = 0
    this.#sinceMonoMs = nowMonoMs
    for (const one of this.#waiting) wake(one)
  }

  #leave(one: Waiting): void {
    const wasFirst = this.#first() === one
    if (!this.#waiting.delete(one)) return
    const next = this.#first()
    if (next === undefined) this.#onEmpty()
    else if (wasFirst) wake(next)
  }
}

function wake(one: Waiting): void {
  const { resolve } = one.woken
  one.woken = Promise.withResolvers()
  resolve()
}
