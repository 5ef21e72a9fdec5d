/** The address that a listener is given, and the address that it reports. */

import type { Server } from 'node:net'

export type ListenAt =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string }

/** The address of a listening server: `http://host:port`, `https://host:port`, or `unix:/path`. */
export function whereListening(server: Pick<Server, 'address'>, encrypted: boolean): string {
  const at = server.address()
  if (typeof at === 'string' || at === null) return `unix:${at}`
  const host = at.family === 'IPv6' ? `[${at.address}]` : at.address
  return `${encrypted ? 'https' : 'http'}://${host}:${at.port}`
}
