/** Whether a request offers to change its connection to a WebSocket. Other protocols are never accepted. */

import type { IncomingMessage } from 'node:http'

export function asksForWebSocket(req: IncomingMessage): boolean {
  return req.method === 'GET' && offersWebSocket(req)
}

export function offersWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.trim().toLowerCase() === 'websocket'
}
