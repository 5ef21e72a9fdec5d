/**
 * Which of the connections to the application a request may take.
 *
 * Owns that a quarter of them is kept for protected requests (`core/units.ts`), which take it only while none of the others is free.
 */

import type { Dispatcher, Pool } from 'undici'
import { passingShare } from '../core/units.ts'

export type Dispatching = Pick<Dispatcher, 'dispatch'>

export type Shares = {
  /** For requests that no route protects. */
  readonly passing: Dispatching
  readonly guarded: Dispatching
  destroy(): Promise<void>
}

/** @param open makes a pool of so many connections at most, none of which is opened before it is needed */
export function shareConnections(connectionsMax: number, open: (connections: number) => Pool): Shares {
  const common = open(passingShare(connectionsMax))
  const rest = connectionsMax - passingShare(connectionsMax)
  const kept = rest > 0 ? open(rest) : undefined
  // As undici tells it: a request that is not taken at once waits, and so does the next, until `drain`.
  let isFull = false
  common.on('drain', () => {
    isFull = false
  })
  const passing: Dispatching = {
    dispatch: (request, handler) => {
      isFull = !common.dispatch(request, handler)
      return !isFull
    },
  }
  return {
    passing,
    guarded: {
      dispatch: (request, handler) =>
        isFull && kept !== undefined ? kept.dispatch(request, handler) : passing.dispatch(request, handler),
    },
    destroy: async () => {
      await Promise.all([common.destroy(), kept?.destroy()])
    },
  }
}
