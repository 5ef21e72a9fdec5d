/**
 * Why a node could not be dialled, so that whoever reads it knows which side to repair.
 *
 * OpenSSL tells of alerts in words for those who know its source, and with TLS 1.3 the client has finished its handshake
 * when the node looks at its certificate: the refusal comes in place of the first answer, or, where a command was sent
 * meanwhile, not at all. What can only be guessed is said as a guess. Sources: RFC 8446, section 6; the codes of Node's `tls`.
 */

import type { Socket } from 'node:net'
import { wasReached } from './happy-eyeballs.ts'
import type { NodeTls } from './node-tls.ts'

export type DialError = NodeJS.ErrnoException & { readonly reason?: string }

/** How far the dial came. `connected`: with TLS its handshake is over, on this side. */
export type Dial = {
  readonly tls: NodeTls | undefined
  readonly stream: Socket | undefined
  readonly connected: boolean
}

const [CERT, CA] = ['FENCEPOST_REDIS_CERT_FILE', 'FENCEPOST_REDIS_CA_FILE']

/** By the number of the alert that the node sent. */
const ALERTS: Readonly<Record<string, string>> = {
  42: `it refuses the certificate of ${CERT}`,
  43: `it refuses the certificate of ${CERT}, which is not for clients (extended key usage clientAuth)`,
  44: `it refuses the certificate of ${CERT}, which is revoked`,
  45: `it refuses the certificate of ${CERT}, which has expired`,
  46: `it refuses the certificate of ${CERT}`,
  48: `it does not know the authority of the certificate of ${CERT}; one that is not the root belongs into that file, too`,
  70: 'it speaks no TLS 1.2 and nothing newer',
  112: 'it has no certificate for the host of its URL',
  116: `it demands a certificate, and ${CERT} is not set`,
}

const UNKNOWN_AUTHORITY = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** A process that was stopped, a machine that stands still: the kernel takes the connection in its place. */
export const ANSWERS_NOTHING = 'it takes connections and answers nothing: it hangs, or its machine does'

/** @param error undefined: the connection was closed without one */
export function dialFault(error: DialError | undefined, dial: Dial): string {
  if (error === undefined && isGivenUp(dial)) return ANSWERS_NOTHING
  const said = error === undefined ? 'connection closed' : wordsOf(error)
  const meaning = error?.code === undefined ? undefined : meaningOf(error.code, error.message, dial.tls)
  if (meaning !== undefined) return `${meaning} (${said})`
  const guess = guessOf(error?.code, error === undefined, dial)
  return guess === undefined ? said : `${said}: ${guess}`
}

/** Closed by this side, and not a byte had come. */
function isGivenUp({ stream, connected }: Dial): boolean {
  return connected && stream !== undefined && stream.bytesRead === 0 && !stream.readableEnded
}

/** Without the addresses and lines of OpenSSL, and without what Node advises for its own command line. */
function wordsOf({ message, code = '', reason, name }: DialError): string {
  if (code.startsWith('ERR_SSL_') && reason !== undefined) return reason
  return message.replace(/; if the root CA is installed locally.*$/, '') || code || name
}

function meaningOf(code: string, message: string, tls: NodeTls | undefined): string | undefined {
  if (tls === undefined) return undefined
  const alert = /SSL alert number (\d+)/.exec(message)?.[1]
  // So TLS 1.2 says that there was no certificate, among others.
  if (alert === '40')
    return tls.showsCertificate
      ? 'it has no cipher in common with this sidecar'
      : `it demands a certificate, and ${CERT} is not set, or it has no cipher in common with this sidecar`
  if (alert !== undefined) return ALERTS[alert]
  if (UNKNOWN_AUTHORITY.has(code))
    return tls.hasAuthorities
      ? `its certificate is of no authority of ${CA}, or lacks the authorities between`
      : `its certificate is of no authority that Node knows, and ${CA} is not set`
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'its certificate is not for the host of its URL'
  if (code === 'CERT_HAS_EXPIRED') return 'its certificate, or that of an authority of it, has expired'
  if (code === 'CERT_NOT_YET_VALID') return 'its certificate is not valid yet, by the clock of this machine'
  return code === 'ERR_SSL_WRONG_VERSION_NUMBER' ? 'it speaks no TLS: write redis://' : undefined
}

/** What the connection ended for where no error says it: before the first answer. */
function guessOf(code: string | undefined, closed: boolean, dial: Dial): string | undefined {
  const { tls, stream, connected } = dial
  if (!connected)
    return tls !== undefined && code === 'ETIMEDOUT' && stream !== undefined && wasReached(stream)
      ? 'there was a connection and no TLS handshake in time: it speaks no TLS (then write redis://), or is slower than FENCEPOST_REDIS_CONNECT_TIMEOUT'
      : undefined
  if (!closed && code !== 'ECONNRESET' && code !== 'EPIPE') return undefined
  if (tls === undefined)
    return stream?.bytesRead === 0
      ? 'it may speak TLS alone (then write rediss://), or be a proxy that knows no INFO (then use the server behind it)'
      : undefined
  return tls.showsCertificate
    ? `it may refuse the certificate of ${CERT}`
    : `it may demand a certificate, and ${CERT} is not set`
}
