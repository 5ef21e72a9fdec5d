/**
 * At which row of `core/node-faults.ts` a node is, from what its connection or its answer says.
 *
 * OpenSSL tells of alerts in words for those who know its source, and with TLS 1.3 the client has finished its handshake
 * when the node looks at its certificate: the refusal comes in place of the first answer, or, where a command was sent
 * meanwhile, not at all. Sources: RFC 8446, section 6; the codes of Node's `tls`.
 */

import type { Socket } from 'node:net'
import { type NodeFault, type Trouble, troubleOf } from '../core/node-faults.ts'
import { answerFault } from '../core/nodes/fitness.ts'
import { type NodeTls, wasReached } from './connector.ts'

export type DialError = NodeJS.ErrnoException & { readonly reason?: string }

/** How far the dial came. `connected`: with TLS its handshake is over, on this side. `wasReady`: commands were sent over it. */
export type Dial = {
  readonly tls: NodeTls | undefined
  readonly stream: Socket | undefined
  readonly connected: boolean
  readonly wasReady: boolean
}

/** By the number of the alert that the node sent: which of its reasons, where the row does not say it. */
const ALERTS: Readonly<Record<string, readonly [NodeFault, string?]>> = {
  40: ['tls_version'],
  42: ['tls_own_refused'],
  43: ['tls_own_refused', 'it is not for clients'],
  44: ['tls_own_refused', 'it is revoked'],
  45: ['tls_own_refused', 'it has expired'],
  46: ['tls_own_refused'],
  48: ['tls_own_refused', 'its authority is not known there'],
  70: ['tls_version'],
  112: ['tls_name', 'it has none for that name'],
  116: ['tls_own_demanded'],
}

const CODES: Readonly<Record<string, NodeFault>> = {
  ENOTFOUND: 'unknown_host',
  EAI_AGAIN: 'no_dns',
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'no_route',
  ENETUNREACH: 'no_route',
  ETIMEDOUT: 'no_connection',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'tls_authority',
  SELF_SIGNED_CERT_IN_CHAIN: 'tls_authority',
  UNABLE_TO_GET_ISSUER_CERT: 'tls_authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'tls_authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'tls_authority',
  ERR_TLS_CERT_ALTNAME_INVALID: 'tls_name',
  CERT_HAS_EXPIRED: 'tls_expired',
  CERT_NOT_YET_VALID: 'tls_not_yet',
  ERR_SSL_WRONG_VERSION_NUMBER: 'tls_not_spoken',
}

/** A dial that failed, or a connection that ended. @param error undefined: it ended without one */
export function dialFault(error: DialError | undefined, dial: Dial): Trouble {
  if (dial.wasReady) return troubleOf('lost', error?.code ?? error?.message ?? '')
  if (error === undefined) return unreadyFault(dial)
  const { code, message } = error
  const alert = dial.tls === undefined ? undefined : /SSL alert number (\d+)/.exec(message)?.[1]
  // So TLS 1.2 says that there was no certificate, among others.
  if (alert === '40' && dial.tls?.showsCertificate === false) return troubleOf('tls_own_demanded')
  if (alert !== undefined)
    return troubleOf(
      ...((ALERTS[alert] ?? (['tls_failed'] as const)).map(String) as [NodeFault, ...string[]]),
    )
  if (code === undefined) return answerFault(error)
  if (dial.connected && (code === 'ECONNRESET' || code === 'EPIPE')) return unreadyFault(dial, code)
  if (code === 'ETIMEDOUT' && dial.tls !== undefined && dial.stream !== undefined && wasReached(dial.stream))
    return troubleOf('tls_unfinished')
  const fault = CODES[code]
  if (fault !== undefined) return troubleOf(fault, code)
  return dial.tls !== undefined && /^(ERR_SSL|ERR_TLS|CERT|UNABLE)/.test(code)
    ? troubleOf('tls_failed', error.reason ?? code)
    : troubleOf('closes', code)
}

/** Connected, and its first answer did not come, or was that it is not ready. */
export function unreadyFault({ stream, tls }: Pick<Dial, 'stream' | 'tls'>, code?: string): Trouble {
  if (stream !== undefined && stream.bytesRead > 0 && code === undefined && !stream.readableEnded)
    return troubleOf('loading')
  // Closed by this side, and not a byte had come.
  if (stream !== undefined && code === undefined && !stream.readableEnded) return troubleOf('silent')
  return troubleOf(tls === undefined ? 'closes' : 'tls_own_perhaps', code ?? '')
}
