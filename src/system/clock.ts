/** This process's clocks and timers, behind the `Clock` port. */

import type { Clock, Timer } from '../core/clock.ts'

export const systemClock: Clock = {
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
  timer: (delayMs, fire) => new SystemTimer(delayMs, fire),
}

/** A class, because a request starts three to five of them. */
class SystemTimer implements Timer {
  readonly #handle: NodeJS.Timeout

  constructor(delayMs: number, fire: () => void) {
    this.#handle = setTimeout(fire, delayMs).unref()
  }

  cancel(): void {
    clearTimeout(this.#handle)
  }
}
