/**
 * The clock and the randomness of the process, for a kit that is given none. The only file of the kit that touches them.
 */
import { randomBytes } from 'node:crypto'
import type { Clock, Random } from './core.ts'

/** For loops that run until they are stopped: their timers alone would not keep the process. Returns the release. */
export function keepProcessAlive(): () => void {
  const hold = setInterval(() => {}, 2 ** 30)
  return () => clearInterval(hold)
}

/** Beyond it Node waits for 1 ms instead. */
const timerMaxMs = 2 ** 31 - 1

export const processClock: Clock = {
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
  timer(delayMs, fire) {
    const timeout = setTimeout(fire, Math.min(delayMs, timerMaxMs))
    timeout.unref()
    return { cancel: () => clearTimeout(timeout) }
  },
}

export const processRandom: Random = {
  fraction: () => Math.random(),
  hex: (byteCount) => randomBytes(byteCount).toString('hex'),
}
