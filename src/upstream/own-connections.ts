/**
 * A login that holds for a connection: NTLM, and Negotiate where it falls back to it. The server answers all that comes later on that
 * connection as the one who logged in there, so no other client's request may be sent on it.
 *
 * Owns that a connection of a client on which such a login begins has one to the application for itself, from there to its end.
 *
 * Source: RFC 4559, section 6; MS-NTHT, section 1.1.
 */

import type { Pool } from 'undici'
import { linesOf } from '../core/formats/header-lines.ts'
import type { HeaderList } from '../core/header-list.ts'
import type { Dispatching } from './shares.ts'

/** The client's connection. */
export type Peer = { readonly destroyed: boolean; once(event: 'close', ended: () => void): unknown }

export type OwnConnections = AsyncDisposable & {
  /** @returns undefined where any connection will do */
  of(headers: HeaderList, peer: Peer | undefined): Dispatching | undefined
}

const BINDS = /^\s*(ntlm|negotiate)\b/i

/** @param open makes a pool of one connection */
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
