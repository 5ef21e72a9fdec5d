/** Waits for a node's answer: only the node's own silence counts as silence, not a stall of this process. */

import type { Clock } from '../core/clock.ts'

/**
 * The promise, or an error with the sentence. Timers run before sockets are read, so after a stall of our own loop the
 * answer may be there already: it is read first.
 */
export function inTime<T>(
  clock: Clock,
  deadlineMs: number,
  promise: Promise<T>,
  sentence: string,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.timer(deadlineMs, () => setImmediate(() => reject(new Error(sentence))))
    promise.then(resolve, reject).finally(() => timer.cancel())
  })
}
