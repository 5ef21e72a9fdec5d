/**
 * Reports when one of a few small files has new content.
 *
 * By polling: Kubernetes replaces a mounted secret by renaming a link two directories above it, which watchers of the
 * file itself do not see. An unreadable file keeps its last content, because a secret is missing for a moment while it
 * is replaced. One that is there and is no text is new content, which its owner refuses.
 */

import type { Clock } from '../core/clock.ts'

const POLL_EVERY_MS = 1_000

export function watchFiles(
  paths: readonly string[],
  readFile: (path: string) => string,
  clock: Clock,
  onChange: () => void,
): Disposable {
  const seen = new Map(paths.map((path) => [path, contentOf(path)]))
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
    let changed = false
    for (const path of paths) {
      const content = contentOf(path)
      if (content === undefined || content === seen.get(path)) continue
      seen.set(path, content)
      changed = true
    }
    if (changed) onChange()
    timer = clock.timer(POLL_EVERY_MS, poll)
  }

  return { [Symbol.dispose]: () => timer.cancel() }
}
