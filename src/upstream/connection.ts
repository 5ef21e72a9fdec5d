/**
 * A connection to the application, and whether it was one that the application gave up while it was idle.
 *
 * An application may close an idle connection at any moment, also at the one in which a request is being written to it. What came after the
 * request on that connection tells: nothing, although there had been answers before it.
 *
 * Owns what was read from a connection before and after a request was written to it. The socket is a private member of undici, whose version
 * is exact in package.json.
 */

import type { Socket } from 'node:net'
import { Client, type Dispatcher } from 'undici'
import symbols from 'undici/lib/core/symbols.js'

/** What was read from a connection when a request was about to be written to it. */
export type Reading = {
  /** Whether the connection was kept from an earlier request, and nothing was read since. */
  givenUp(): boolean
}

/** A request's handler that wants to know its connection. */
export type ConnectedHandler = Dispatcher.DispatchHandler & { connection?: Connection | undefined }

export class Connection extends Client {
  override dispatch(options: Dispatcher.DispatchOptions, handler: ConnectedHandler): boolean {
    handler.connection = this
    return super.dispatch(options, handler)
  }

  /** Only while a request is about to be written: before and after that it may have no socket. */
  reading(): Reading {
    const socket = (this as unknown as { readonly [symbols.kSocket]: Socket })[symbols.kSocket]
    const before = socket.bytesRead
    return { givenUp: () => before > 0 && socket.bytesRead === before }
  }
}
