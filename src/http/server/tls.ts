/**
 * TLS on a listener: what is spoken, who must show a certificate, and how a renewed certificate comes into force.
 *
 * Owns the options, every one that we rely on written out. Connections that stand keep the certificate that they began
 * with; new ones get the new one.
 */

import type { TlsOptions } from 'node:tls'

export type Certificates = {
  /** PEM: the certificate, then its chain. */
  readonly cert: string
  readonly key: string
  /** PEM. Where given, a client without a certificate of theirs is cut. */
  readonly clientCa: string | undefined
}

export type ListenerTls = {
  readonly current: () => Certificates
  /** Told whenever they have changed. */
  readonly onChange: (listener: () => void) => void
}

export function tlsOptions(tls: ListenerTls, handshakeTimeoutMs: number): TlsOptions {
  const verifies = tls.current().clientCa !== undefined
  return {
    ...contextOf(tls.current()),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    // Node waits for two minutes; a client that does not finish its handshake holds a connection.
    handshakeTimeout: handshakeTimeoutMs,
    requestCert: verifies,
    rejectUnauthorized: verifies,
  }
}

/** For Fastify, which makes its server itself: the options of Node's server, under the name that its kind wants. */
export function serverOptions<O extends { readonly headersTimeout: number }>(
  http: O,
  tls: ListenerTls | undefined,
): { readonly http: O } {
  if (tls === undefined) return { http }
  // Fastify's types make another type of server of this; what is used of it is the same.
  return { https: { ...http, ...tlsOptions(tls, http.headersTimeout) } } as unknown as { readonly http: O }
}

export function keepTlsFresh(server: { setSecureContext(of: TlsOptions): void }, tls: ListenerTls): void {
  tls.onChange(() => server.setSecureContext({ ...contextOf(tls.current()), minVersion: 'TLSv1.2' }))
}

export function contextOf({ cert, key, clientCa }: Certificates): TlsOptions {
  return { cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) }
}
