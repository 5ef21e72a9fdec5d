/**
 * The file of a Unix socket, which outlives a process that was killed: nothing can listen there until it is removed, and the container that
 * is started in its place has no shell.
 *
 * Owns that nothing else is removed: a socket with a process behind it takes connections, or lets them wait; a file that is no socket is
 * refused like an abandoned one, and is somebody's.
 */

import { lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'

/** @throws where the file is abandoned and can't be removed */
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
