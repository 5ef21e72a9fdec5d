/**
 * Which of the connections to the application a request may take.
 *
 * Owns that a quarter of them is kept for protected requests (`core/units.ts`), which take it only while none of the others is free; and
 * that a client whose login holds for its connection has one for itself.
 */

import type { Dispatcher, Pool } from 'undici'
import { type HeaderList, linesOf } from '../core/header-list.ts'
import type { Peer } from '../core/ports.ts'
import { unprotectedLimit } from '../core/units.ts'

export type Dispatching = Pick<Dispatcher, 'dispatch'>

type Shares = {
  /** For requests that no route protects. */
  readonly passing: Dispatching
  readonly guarded: Dispatching
  destroy(): Promise<void>
}

/** @param open makes a pool of so many connections at most, none of which is opened before it is needed */
export function shareConnections(connectionsMax: number, open: (connections: number) => Pool): Shares {
  const common = open(unprotectedLimit(connectionsMax))
  const rest = connectionsMax - unprotectedLimit(connectionsMax)
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

type OwnConnections = AsyncDisposable & {
  /** @returns undefined where any connection will do */
  of(headers: HeaderList, peer: Peer | undefined): Dispatching | undefined
}

const BINDS = /^\s*(ntlm|negotiate)\b/i

/**
 * A login may hold for a connection: NTLM, and Negotiate where it falls back to it. The server answers all that comes later on that connection
 * as the one who logged in there, so a connection of a client on which such a login begins has one to the application for itself, to its end.
 * Source: RFC 4559, section 6; MS-NTHT, section 1.1.
 *
 * @param open makes a pool of one connection
 */
export function ownConnections(connectionsMax: number, open: () => Pool): OwnConnections {
  const pools = new Map<Peer, Pool>()
  return {
    of: (headers, peer) => {
      if (peer === undefined) return undefined
      const own = pools.get(peer)
      if (own !== undefined || !linesOf(headers, 'authorization').some((line) => BINDS.test(line))) return own
      if (pools.size >= connectionsMax) return FULL
      const pool = open()
      pools.set(peer, pool)
      // What the application is at work on goes on to its end.
      const end = (): void => {
        pools.delete(peer)
        void pool.close()
      }
      if (peer.destroyed) queueMicrotask(end)
      else peer.once('close', end)
      return pool
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()))
    },
  }
}

const FULL: Dispatching = {
  dispatch: () => {
    throw new Error('as many connections to the application belong to one client each as there may be')
  },
}
