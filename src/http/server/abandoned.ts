/**
 * A signal that aborts when the client disconnects before its answer is sent in full. One that ends only its side of the
 * connection counts as disconnected: both look the same, and Node's `httpAllowHalfOpen`, which would answer it, would hide the others.
 *
 * A response that was sent in full closes as well, without an abort: no code listens any more, and each abort creates
 * an error with its stack.
 */
import type { ServerResponse } from 'node:http'

export function abandoned(res: ServerResponse): AbortSignal {
  const gone = new AbortController()
  // It may have left before its request's turn.
  if (res.destroyed) gone.abort()
  else
    res.on('close', () => {
      if (!res.writableFinished) gone.abort()
    })
  return gone.signal
}
