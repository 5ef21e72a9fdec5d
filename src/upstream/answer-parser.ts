/**
 * Two sound answers that undici's parser takes for broken ones. Each would be lost, and each retry executed again.
 *
 * - A `100 Continue` that nobody asked for, ahead of the answer. A client has to read past it (RFC 9110, section 15.2). undici reads past
 *   every other interim answer, and ends the connection at this one.
 * - Spaces behind the number of `Content-Length`, which are no part of it (RFC 9110, section 5.5). undici counts them as digits of a second
 *   opinion about the length, and then finds the body too short. llhttp has framed the body by the number alone.
 *
 * Owns telling undici what they are; it has no option for either. No byte of an answer is read here: undici's parser has read the head, or
 * the answer, to its end by then. Parser and socket are private members of undici, whose version is exact in package.json.
 */

import type { Pool } from 'undici'
import symbols from 'undici/lib/core/symbols.js'

type Parser = {
  onHeadersComplete(status: number, upgrade: boolean, keepAlive: boolean): number
  onMessageComplete(): number
  /** -1 where none is stated. */
  contentLength: number
  readonly bytesRead: number
}
type Connected = { readonly [symbols.kSocket]: { readonly [symbols.kParser]: Parser } }

const CONTINUE = 100
const PROCESSING = 102

/** On every connection that the pool opens from now on. */
export function takeSoundAnswers(pool: Pool): void {
  pool.on('connect', (_origin, targets) => {
    // The pool, and the client in it that has the connection.
    const client = targets.at(-1) as unknown as Connected
    const parser = client[symbols.kSocket][symbols.kParser]
    const onHead = parser.onHeadersComplete.bind(parser)
    parser.onHeadersComplete = (status, upgrade, keepAlive) =>
      onHead(status === CONTINUE ? PROCESSING : status, upgrade, keepAlive)
    const onEnd = parser.onMessageComplete.bind(parser)
    parser.onMessageComplete = () => {
      if (parser.contentLength !== -1) parser.contentLength = parser.bytesRead
      return onEnd()
    }
  })
}
