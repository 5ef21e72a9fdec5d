/**
 * Counts waiters: for one key, and in this process altogether.
 *
 * Owns two counters. Waiting itself, and for how long, is the waiter's business; who of them claims is `wait-group.ts`'.
 */

import type { ClaimResult } from '../ports.ts'
import { createWaitGroups, type WaitGroups } from './wait-group.ts'

/** A holder works on it, or several claimants race for it: both end, and a later claim finds out the result. */
export type Taken = Extract<ClaimResult, { kind: 'held' | 'contended' }>

export function isTaken(claimed: ClaimResult): claimed is Taken {
  return claimed.kind === 'held' || claimed.kind === 'contended'
}

export type Waiters = {
  /** The limit that {@link enter} refused by, for the message: the one for a single key. */
  readonly limit: number
  /** Takes a place; undefined where there is none. Disposing releases it. */
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
