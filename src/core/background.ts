/**
 * Work that goes on after its request was answered.
 *
 * Owns how much of it there may be and knowing when it is over. The caller that starts work decides what it does and
 * that it ends; only `failed` hears of its failure.
 */

export type Background = {
  /** Most that may run at once. */
  readonly limit: number
  /** How many run now. */
  readonly running: number
  /** @returns false where the limit is reached: then the work was not begun */
  start(work: () => Promise<void>): boolean
  /** Resolves when no work runs, for the first time from now on. */
  drained(): Promise<void>
}

export function createBackground(limit: number, failed: (cause: unknown) => void): Background {
  const works = new Set<Promise<void>>()
  return {
    limit,
    get running() {
      return works.size
    },
    start(work) {
      if (works.size >= limit) return false
      const running: Promise<void> = (async () => work())()
        .catch(failed)
        .finally(() => {
          works.delete(running)
        })
      works.add(running)
      return true
    },
    async drained() {
      // Work may begin more work.
      while (works.size > 0) await Promise.all(works)
    },
  }
}
