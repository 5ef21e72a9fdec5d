/**
 * Sound answers that undici's parser or Node's sockets take for broken ones. Each would be lost, and each retry executed again. Of the parser:
 *
 * - A `100 Continue` that nobody asked for, ahead of the answer. A client has to read past it (RFC 9110, section 15.2). undici reads past
 *   every other interim answer, and ends the connection at this one.
 * - Spaces behind the number of `Content-Length`, which are no part of it (RFC 9110, section 5.5). undici counts them as digits of a second
 *   opinion about the length, and then finds the body too short. llhttp has framed the body by the number alone.
 *
 * Owns telling undici what they are; it has no option for either. No byte of an answer is read here: undici's parser has read the head, or
 * the answer, to its end by then. Parser and socket are private members of undici, whose version is exact in package.json.
 */

import type { Socket } from 'node:net'
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

type Done = (error?: Error | null) => void

const CLOSED_BY_PEER = new Set(['EPIPE', 'ECONNRESET'])

/** The parts of a stream that its implementation has (`Writable`, in the documentation of Node). */
type Writes = {
  _write(chunk: unknown, encoding: BufferEncoding, done: Done): void
  _writev(chunks: unknown, done: Done): void
}

/**
 * An answer may come before the application has read the whole body, on a connection that it closes then: servers that close after each answer
 * (gunicorn by default) do so for every answer that did not need the body, a refusal or a success. The system tells of it as an error of the
 * next write, while the answer waits to be read. Node ends a connection at that error, and the answer would be lost. So such a write ends
 * nothing: what the application said, and whether it was whole, is read from the connection, which ends by itself.
 */
export function readPastFailedWrites(socket: Socket): void {
  const writes = socket as unknown as Writes
  const [one, several] = [writes._write.bind(socket), writes._writev.bind(socket)]
  writes._write = (chunk, encoding, done) => one(chunk, encoding, unlessClosed(done))
  writes._writev = (chunks, done) => several(chunks, unlessClosed(done))
}

function unlessClosed(done: Done): Done {
  return (error) => done(closedByPeer(error) ? null : error)
}

function closedByPeer(error: (Error & { code?: unknown }) | null | undefined): boolean {
  return typeof error?.code === 'string' && CLOSED_BY_PEER.has(error.code)
}
