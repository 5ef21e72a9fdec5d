/** Those who wait for something to happen, each at most for a time of its own. Owns that whoever is woken has no timer left. */

import type { Clock } from './clock.ts'

export type WakeUps = {
  wake(): void
  /** Resolves at the next `wake`, or after `ms`. */
  orAfter(ms: number): Promise<void>
}

export function createWakeUps(clock: Pick<Clock, 'timer'>): WakeUps {
  const waiting = new Set<() => void>()
  return {
    wake: () => {
      for (const done of waiting) done()
    },
    orAfter: (ms) =>
      new Promise((resolve) => {
        const done = (): void => {
          timer.cancel()
          waiting.delete(done)
          resolve()
        }
        const timer = clock.timer(ms, done)
        waiting.add(done)
      }),
  }
}
