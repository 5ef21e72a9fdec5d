/**
 * TLS on a listener: versions, client certificates, and how a renewed certificate takes effect.
 *
 * Owns the options, every needed one written out. Open connections keep their certificate; new ones get the new one.
 */

import type { TlsOptions } from 'node:tls'

export type Certificates = {
  /** PEM: the certificate, then its chain. */
  readonly cert: string
  readonly key: string
  /** PEM. If present, a client without a certificate signed by it is disconnected. */
  readonly clientCa: string | undefined
}

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
