/**
 * Reports when one of a few small files has new content.
 *
 * By polling: Kubernetes replaces a mounted secret by renaming a link two directories above it, which watchers of the
 * file itself do not see. An unreadable file keeps its last content, because a secret is missing for a moment while it
 * is replaced. One that is there and is no text is new content, which its owner refuses. One that is still being written is none yet:
 * new content counts when two looks found it.
 */

import { lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Clock } from '../core/clock.ts'

/** Together within a second. */
const POLL_EVERY_MS = 700
const WRITTEN_WITHIN_MS = 200

export function watchFiles(
  paths: readonly string[],
  readFile: (path: string) => string,
  clock: Clock,
  onChange: () => void,
): Disposable {
  let inForce = paths.map(contentOf)
  let seen = inForce
  let timer = clock.timer(POLL_EVERY_MS, poll)

  function contentOf(path: string): string | undefined {
    try {
      return readFile(path)
    } catch (cause) {
      // A fault of the system has a code; all others are of what was read.
      return (cause as NodeJS.ErrnoException).code === undefined ? String(cause) : undefined
    }
  }

  function poll(): void {
    const before = seen
    seen = paths.map((path, index) => contentOf(path) ?? before[index])
    const isNew = differ(seen, inForce)
    const isWritten = !differ(seen, before)
    if (isNew && isWritten) {
      inForce = seen
      onChange()
    }
    timer = clock.timer(isNew && !isWritten ? WRITTEN_WITHIN_MS : POLL_EVERY_MS, poll)
  }

  return { [Symbol.dispose]: () => timer.cancel() }
}

function differ(contents: readonly unknown[], others: readonly unknown[]): boolean {
  return contents.some((content, index) => content !== others[index])
}

/**
 * The file of a Unix socket outlives a process that was killed: nothing can listen there until it is removed, and the container that is
 * started in its place has no shell. Nothing else is removed: a socket with a process behind it takes connections, or lets them wait; a file
 * that is no socket is refused like an abandoned one, and is somebody's.
 *
 * @throws where the file is abandoned and can't be removed
 */
export async function removeAbandonedSocket(path: string): Promise<void> {
  const stats = await lstat(path).catch(() => undefined)
  if (stats?.isSocket() === true && (await isRefused(path))) await unlink(path)
}

function isRefused(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path })
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'ECONNREFUSED'))
  })
}
