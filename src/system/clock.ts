/** This process's clocks and timers, behind the `Clock` port. */

import type { Clock } from '../core/clock.ts'

export const systemClock: Clock = {
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
  timer: (delayMs, fire) => {
    const handle = setTimeout(fire, delayMs)
    handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
}
