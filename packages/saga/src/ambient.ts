/**
 * The clock and the randomness of the process: a kit's default. The only file of the kit that touches them.
 */
import { randomBytes } from 'node:crypto'
import type { Clock, Random } from './core.ts'

/** For loops that run until stopped: their timers alone would not keep the process alive. Returns the release. */
export function keepProcessAlive(): () => void {
  const hold = setInterval(() => {}, 2 ** 30)
  return () => clearInterval(hold)
}

/** A longer delay Node turns into 1 ms. */
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
