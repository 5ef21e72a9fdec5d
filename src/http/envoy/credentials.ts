/** TLS of the gRPC listener: the same as on every other listener (`server/tls.ts`), in the form that gRPC takes. */

import { ServerCredentials } from '@grpc/grpc-js'
import { contextOf, type ListenerTls, tlsOptions } from '../server/tls.ts'

export function listenerCredentials(
  tls: ListenerTls | undefined,
  handshakeTimeoutMs: number,
): ServerCredentials {
  return tls === undefined
    ? ServerCredentials.createInsecure()
    : new ListenerCredentials(tls, handshakeTimeoutMs)
}

class ListenerCredentials extends ServerCredentials {
  constructor(tls: ListenerTls, handshakeTimeoutMs: number) {
    // gRPC's server offers HTTP/2 by itself.
    const { ALPNProtocols: _, ...options } = tlsOptions(tls, handshakeTimeoutMs)
    super(options, contextOf(tls.current()))
    tls.onChange(() =>
      this.updateSecureContextOptions({ ...contextOf(tls.current()), minVersion: 'TLSv1.2' }),
    )
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other
  }
}
