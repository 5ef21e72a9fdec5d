/**
 * Runs a command where this repository is an empty folder: what works there works for somebody who never had it.
 *
 * Owns how that is done: in a mount namespace of its own, so that nobody else notices. Where the machine allows none (no Linux, a container
 * without the right), the command sees the repository, and the sentence says so.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

export type Hiding = {
  /** @returns the command and its arguments; it needs a working directory outside of the repository */
  readonly without: (command: string, args: readonly string[]) => readonly [string, ...string[]]
  /** What was reached, to be printed. */
  readonly sentence: string
}

const COVER = 'mount -t tmpfs -o ro,mode=755 hidden "$0" && exec "$@"'
/** The second for whoever is not root. */
const NAMESPACES = [['--mount'], ['--mount', '--user', '--map-root-user']] as const

/** @param folder what is hidden */
export function hideCheckout(folder = root): Hiding {
  const refusals: string[] = []
  for (const namespaces of NAMESPACES) {
    const without: Hiding['without'] = (command, args) => [
      'unshare',
      ...namespaces,
      ...['sh', '-c', COVER, folder, command, ...args],
    ]
    const [command, ...args] = without('sh', ['-c', 'test -z "$(ls -A "$0")"', folder])
    const { status, stderr, error } = spawnSync(command, args, { cwd: '/', encoding: 'utf8' })
    if (status === 0) return { without, sentence: 'checkout: hidden from everything that follows' }
    refusals.push(error?.message ?? stderr.trim())
  }
  return {
    without: (command, args) => [command, ...args],
    sentence: `unchecked: the checkout was in sight, because it can't be hidden here (${refusals.at(-1)})`,
  }
}
