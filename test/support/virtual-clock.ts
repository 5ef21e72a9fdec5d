/**
 * A clock that moves only when the test says so. Timers fire in the order of their time, each followed by all its
 * promise continuations, so that a test that advances an hour sees the same order as a process that waits one.
 */
import type { Clock, Timer } from '../../src/core/clock.ts'

/** 2026-01-01T00:00:00Z: tokens and records have a realistic size. */
export const VIRTUAL_START_WALL_MS = Date.UTC(2026, 0, 1)

type Armed = { readonly atMonoMs: number; readonly order: number; readonly fire: () => void }

export class VirtualClock implements Clock {
  #monoMs = 0
  #wallAheadMs: number
  #armedCount = 0
  readonly #armed = new Set<Armed>()

  constructor(wallMs = VIRTUAL_START_WALL_MS) {
    this.#wallAheadMs = wallMs
  }

  monoMs(): number {
    return this.#monoMs
  }

  wallMs(): number {
    return this.#monoMs + this.#wallAheadMs
  }

  timer(delayMs: number, fire: () => void): Timer {
    this.#armedCount += 1
    const armed = { atMonoMs: this.#monoMs + Math.max(0, delayMs), order: this.#armedCount, fire }
    this.#armed.add(armed)
    return { cancel: () => void this.#armed.delete(armed) }
  }

  /** Timers that have neither fired nor been cancelled. */
  get pendingTimers(): number {
    return this.#armed.size
  }

  /** Steps the wall clock; the monotonic one runs on. */
  stepWall(byMs: number): void {
    this.#wallAheadMs += byMs
  }

  /** Both clocks move by `byMs`; timers that fall due meanwhile fire at their own time. */
  async advance(byMs: number): Promise<void> {
    const untilMonoMs = this.#monoMs + byMs
    await settled()
    for (let next = this.#next(untilMonoMs); next !== undefined; next = this.#next(untilMonoMs)) {
      this.#armed.delete(next)
      this.#monoMs = Math.max(this.#monoMs, next.atMonoMs)
      next.fire()
      await settled()
    }
    this.#monoMs = untilMonoMs
  }

  /** Moves from timer to timer until `promise` has settled, for at most `withinMs`. */
  async during<T>(promise: Promise<T>, withinMs = 600_000): Promise<T> {
    let over = false
    const mark = () => {
      over = true
    }
    promise.then(mark, mark)
    const untilMonoMs = this.#monoMs + withinMs
    for (;;) {
      await settled()
      if (over) return promise
      const next = this.#next(untilMonoMs)
      if (next === undefined) throw new Error(`nothing more happens within ${withinMs} ms of virtual time`)
      await this.advance(next.atMonoMs - this.#monoMs)
    }
  }

  #next(untilMonoMs: number): Armed | undefined {
    return [...this.#armed]
      .filter((armed) => armed.atMonoMs <= untilMonoMs)
      .sort((a, b) => a.atMonoMs - b.atMonoMs || a.order - b.order)[0]
  }
}

/** Returns when every promise that can settle has: the event loop runs immediates only after all microtasks. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
