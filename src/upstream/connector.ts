/**
 * How the application is dialled: every option is written out. The pools of `application.ts` use it, and `fencepost doctor`, which so finds
 * what a request would find.
 */

import { buildConnector } from 'undici'

export type ApplicationAddress =
  | { readonly kind: 'http'; readonly origin: string }
  | { readonly kind: 'unix'; readonly path: string }

/** Node gives up each address but the last after this share: with its own half of a second a short deadline would never reach the second one. */
const ATTEMPT_SHARE = 1 / 4
/** The least that Node takes. */
const ATTEMPT_MIN_MS = 10

export function connectorTo(address: ApplicationAddress, connectTimeoutMs: number): buildConnector.connector {
  return buildConnector({
    timeout: connectTimeoutMs,
    allowH2: false,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: Math.max(ATTEMPT_MIN_MS, Math.floor(connectTimeoutMs * ATTEMPT_SHARE)),
    ...(address.kind === 'unix' ? { socketPath: address.path } : {}),
  })
}

/** Why no connection is made, over TLS no handshake; undefined where one is. */
export function whyNoConnection(
  address: ApplicationAddress,
  connectTimeoutMs: number,
): Promise<string | undefined> {
  const { host, hostname, protocol, port } = new URL(
    address.kind === 'unix' ? 'http://localhost' : address.origin,
  )
  return new Promise((resolve) => {
    connectorTo(address, connectTimeoutMs)({ host, hostname, protocol, port }, (error, socket) => {
      socket?.destroy()
      resolve(error === null ? undefined : ((error as NodeJS.ErrnoException).code ?? error.message))
    })
  })
}
