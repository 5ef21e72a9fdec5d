/**
 * An answer that comes before the application has read the whole body, on a connection that it closes then.
 *
 * Application servers that close after each answer (gunicorn by default) do so for every answer that did not need the body: a refusal, or
 * a success. The system tells of it as an error of the next write, while the answer waits to be read. Node ends a connection at
 * that error, and the answer would be lost.
 *
 * Owns that a write which fails for this reason ends nothing: what the application said, and whether it was whole, is read from the connection,
 * which ends by itself.
 */

import type { Socket } from 'node:net'

type Done = (error?: Error | null) => void

const CLOSED_BY_PEER = new Set(['EPIPE', 'ECONNRESET'])

/** The parts of a stream that its implementation has (`Writable`, in the documentation of Node). */
type Writes = {
  _write(chunk: unknown, encoding: BufferEncoding, done: Done): void
  _writev(chunks: unknown, done: Done): void
}

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
