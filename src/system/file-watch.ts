/**
 * Tells when one of a few small files has another content.
 *
 * By reading them again and again: Kubernetes replaces a mounted secret by renaming a link two directories above it,
 * which watchers of the file itself do not see. A file that can't be read keeps its last content, because a secret that
 * is being replaced is missing for a moment.
 */

import type { Clock } from '../core/clock.ts'

const LOOK_EVERY_MS = 1_000

export function watchFiles(
  paths: readonly string[],
  readFile: (path: string) => string,
  clock: Clock,
  onChange: () => void,
): Disposable {
  const seen = new Map(paths.map((path) => [path, contentOf(path)]))
  let timer = clock.timer(LOOK_EVERY_MS, look)

  function contentOf(path: string): string | undefined {
    try {
      return readFile(path)
    } catch {
      return undefined
    }
  }

  function look(): void {
    let changed = false
    for (const path of paths) {
      const content = contentOf(path)
      if (content === undefined || content === seen.get(path)) continue
      seen.set(path, content)
      changed = true
    }
    if (changed) onChange()
    timer = clock.timer(LOOK_EVERY_MS, look)
  }

  return { [Symbol.dispose]: () => timer.cancel() }
}
