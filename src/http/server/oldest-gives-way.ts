/**
 * The number of connections of a listener whose callers matter more than their connections: beyond it the oldest one is cut.
 *
 * A server that refuses new connections at its limit is in the hands of whoever keeps the limit's number open.
 */

import type { Server, Socket } from 'node:net'

export function oldestGivesWay(server: Server, connectionsMax: number): void {
  const open = new Set<Socket>()
  // The only limit: Node's own would refuse the new one first.
  server.maxConnections = Number.POSITIVE_INFINITY
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    const [oldest] = open
    if (open.size > connectionsMax) oldest?.destroy()
  })
}
