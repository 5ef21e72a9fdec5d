/**
 * A `100 Continue` that nobody asked for, ahead of the answer.
 *
 * A client has to read past it (RFC 9110, section 15.2). undici reads past every other interim answer, ends the connection at this one, and
 * has no option for it: the answer behind it would be lost, and each retry executed again.
 *
 * Owns telling undici that it is one of the others. No byte of an answer is read here: undici's parser has read the head to its end by
 * then, and passes its status on. Parser and socket are private members of undici, whose version is exact in package.json.
 */

import type { Pool } from 'undici'
import symbols from 'undici/lib/core/symbols.js'

type Parser = {
  onHeadersComplete(status: number, upgrade: boolean, keepAlive: boolean): number
}
type Connected = { readonly [symbols.kSocket]: { readonly [symbols.kParser]: Parser } }

const CONTINUE = 100
const PROCESSING = 102

/** On every connection that the pool opens from now on. */
export function passOverContinue(pool: Pool): void {
  pool.on('connect', (_origin, targets) => {
    // The pool, and the client in it that has the connection.
    const client = targets.at(-1) as unknown as Connected
    const parser = client[symbols.kSocket][symbols.kParser]
    const onHead = parser.onHeadersComplete.bind(parser)
    parser.onHeadersComplete = (status, upgrade, keepAlive) =>
      onHead(status === CONTINUE ? PROCESSING : status, upgrade, keepAlive)
  })
}
