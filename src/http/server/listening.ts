/**
 * What every listener has: TLS with all its options written out, an address, and a limit of connections.
 *
 * A renewed certificate takes effect on new connections; open ones keep theirs.
 */

import type { Server, Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'

export type Certificates = {
  /** PEM: the certificate, then its chain. */
  readonly cert: string
  readonly key: string
  /** PEM. If present, a client without a certificate signed by it is disconnected. */
  readonly clientCa: string | undefined
}

/** Of a listener that speaks it. */
export type ListenerTls = {
  readonly current: () => Certificates
  /** Calls the listener after each change. */
  readonly onChange: (listener: () => void) => void
}

export function tlsOptions(tls: ListenerTls, handshakeTimeoutMs: number): TlsOptions {
  const verifies = tls.current().clientCa !== undefined
  return {
    ...contextOf(tls.current()),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    // Node's default is two minutes; a client that does not finish its handshake holds a connection.
    handshakeTimeout: handshakeTimeoutMs,
    requestCert: verifies,
    rejectUnauthorized: verifies,
  }
}

/** The options of Node's server, as Fastify takes them, which creates its server itself. */
export function serverOptions<O extends { readonly headersTimeout: number }>(
  http: O,
  tls: ListenerTls | undefined,
): { readonly http: O } {
  if (tls === undefined) return { http }
  // Fastify's types make this another type of server; what is used of it is the same.
  return { https: { ...http, ...tlsOptions(tls, http.headersTimeout) } } as unknown as { readonly http: O }
}

export function keepTlsFresh(server: { setSecureContext(of: TlsOptions): void }, tls: ListenerTls): void {
  tls.onChange(() => server.setSecureContext({ ...contextOf(tls.current()), minVersion: 'TLSv1.2' }))
}

export function contextOf({ cert, key, clientCa }: Certificates): TlsOptions {
  return { cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) }
}

export type ListenAt =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string }

export interface Listening {
  /** Where it listens: `http://host:port`, or `unix:/path`. */
  listen(at: ListenAt): Promise<string>
  /** Each answer ends its connection from now on. */
  leave(): void
  /** Admits nothing new; resolves when what is under way has ended, at most after `graceMs`. */
  close(graceMs: number): Promise<void>
}

export type FailurePorts = {
  readonly newInstance: () => string
  /** Gets a fault of the sidecar itself; the client got 500 with this instance. */
  readonly onFailure: (error: unknown, instance: string) => void
}

/** The address of a listening server: `http://host:port`, `https://host:port`, or `unix:/path`. */
export function whereListening(server: Pick<Server, 'address'>, encrypted: boolean): string {
  const at = server.address()
  if (typeof at === 'string' || at === null) return `unix:${at}`
  const host = at.family === 'IPv6' ? `[${at.address}]` : at.address
  return `${encrypted ? 'https' : 'http'}://${host}:${at.port}`
}

/** How many connections a listener for clients takes. Beyond it new ones are closed at once, before a byte of theirs is read. */
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

/**
 * For a listener whose callers matter more than their connections: beyond the limit the oldest one is cut. A server that refuses new ones
 * there is in the hands of whoever keeps the limit's number open.
 */
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
