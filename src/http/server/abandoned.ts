/**
 * Tells that nobody waits for an answer any more: its client went away before it was sent whole.
 *
 * An answer that was sent whole is not abandoned, although its response closes too: to abort then would tell nobody
 * anything, and makes an error with its stack for each request.
 */
import type { ServerResponse } from 'node:http'

export function abandoned(res: ServerResponse): AbortSignal {
  const gone = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished) gone.abort()
  })
  return gone.signal
}
