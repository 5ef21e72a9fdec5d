/**
 * What a sidecar shows to the nodes in a TLS handshake, and whom it believes.
 *
 * Owns the options, every needed one written out. A connection keeps what it was made with; the next one asks anew.
 */

import { createSecureContext, type SecureContext } from 'node:tls'

export type NodeTlsFiles = {
  /** PEM of the authorities that sign the nodes' certificates; by default the system's. */
  readonly ca?: string | undefined
  /** PEM of the certificate that is shown to nodes that ask for one, with its chain, and of its key. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
}

export type NodeTls = {
  readonly context: SecureContext
  readonly showsCertificate: boolean
  /** Of its own, in place of the system's. */
  readonly hasAuthorities: boolean
}

/** @throws if OpenSSL can't use them */
export function createNodeTls({ ca, cert, key }: NodeTlsFiles): NodeTls {
  const context = createSecureContext({
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  })
  return { context, showsCertificate: cert !== undefined, hasAuthorities: ca !== undefined }
}
