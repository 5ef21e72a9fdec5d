/**
 * Work that goes on after its request was answered.
 *
 * Owns how much of it there may be and knowing when it is over. The caller that starts work decides what it does and
 * that it ends; only `failed` hears of its failure. Work that only waits for something which has a limit of its own is not counted: it
 * would take the places of outcomes for as long as that lasts.
 */

export type Background = {
  /** Most that may run at once. */
  readonly limit: number
  /** How many of those that are counted run now. */
  readonly running: number
  /** @returns false where the limit is reached: then the work was not begun */
  start(work: () => Promise<void>): boolean
  /** Work at the end of what has a limit of its own, such as an answer under way. Never refused, and not counted. */
  follow(work: () => Promise<void>): void
  /** Resolves when no work runs, for the first time from now on. */
  drained(): Promise<void>
}

export function createBackground(limit: number, failed: (cause: unknown) => void): Background {
  const counted = new Set<Promise<void>>()
  const following = new Set<Promise<void>>()

  function begin(work: () => Promise<void>, works: Set<Promise<void>>): void {
    const running: Promise<void> = (async () => work())()
      .catch(failed)
      .finally(() => {
        works.delete(running)
      })
    works.add(running)
  }

  return {
    limit,
    get running() {
      return counted.size
    },
    start(work) {
      if (counted.size >= limit) return false
      begin(work, counted)
      return true
    },
    follow: (work) => begin(work, following),
    async drained() {
      // Work may begin more work.
      while (counted.size + following.size > 0) await Promise.all([...counted, ...following])
    },
  }
}
