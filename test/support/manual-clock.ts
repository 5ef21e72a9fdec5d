/**
 * A clock that goes only when the test says so: timers fire in order of their instants, and what they start is let run
 * before the next one fires.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock, Timer } from '../../src/core/ports.ts'

export class ManualClock implements Clock {
  #nowMs = 0
  readonly #timers = new Set<{ readonly atMs: number; readonly fire: () => void }>()

  monoMs(): number {
    return this.#nowMs
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.#nowMs
  }

  timer(delayMs: number, fire: () => void): Timer {
    const timer = { atMs: this.#nowMs + Math.max(0, delayMs), fire }
    this.#timers.add(timer)
    return { cancel: () => this.#timers.delete(timer) }
  }

  async advance(byMs: number): Promise<void> {
    const untilMs = this.#nowMs + byMs
    for (;;) {
      const [next] = [...this.#timers].filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)
      if (next === undefined) break
      this.#timers.delete(next)
      this.#nowMs = next.atMs
      next.fire()
      await nextTurn()
    }
    this.#nowMs = untilMs
    await nextTurn()
  }
}
