/** How many connections a listener for clients takes. Beyond it new ones are closed at once, before a byte of theirs is read. */

import type { Server } from 'node:net'

export type ConnectionLimit = {
  readonly connectionsMax: number
  /** For each connection that is closed for it: its client gets no answer that could say why. */
  readonly onConnectionRefused?: () => void
}

export function limitConnections(
  server: Server,
  { connectionsMax, onConnectionRefused }: ConnectionLimit,
): void {
  server.maxConnections = connectionsMax
  if (onConnectionRefused !== undefined) server.on('drop', onConnectionRefused)
}
