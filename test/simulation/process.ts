/**
 * A simulated process: its two clocks, its timers, and whether it runs at all.
 *
 * Owns what an operating system does to a sidecar: the monotonic clock runs at its own rate, the wall clock besides can
 * be stepped, a stopped process sees nothing until it goes on and then sees everything in the order in which it came
 * due, and a dead one never goes on. Everything that reaches the core from outside passes `deliver`.
 */

import type { Clock, Timer } from '../../src/core/clock.ts'
import type { Scheduler } from './scheduler.ts'

/** Of an event loop that has much to do. */
const TURN_MS = 0.01

/** Some moment of 2026: tokens have their real size. */
export const EPOCH_WALL_MS = 1_790_000_000_000

export class SimulatedProcess {
  readonly name: string
  readonly clock: Clock
  readonly #scheduler: Scheduler
  readonly #rate: number
  #wallOffsetMs: number
  #stoppedUntilMs = 0
  #dead = false
  /** When it goes on it looks at what has arrived before it looks at its timers; else at both in the order in which they came due. */
  answersFirst = false
  /** How often and until when it was stopped or died: what explains a lost lease. */
  readonly stops: { readonly fromMs: number; readonly untilMs: number }[] = []

  constructor(name: string, scheduler: Scheduler, ratePpm: number, wallOffsetMs: number) {
    this.name = name
    this.#scheduler = scheduler
    this.#rate = 1 + ratePpm / 1_000_000
    this.#wallOffsetMs = wallOffsetMs
    this.clock = {
      monoMs: () => 1_000 + scheduler.nowMs * this.#rate,
      wallMs: () => EPOCH_WALL_MS + scheduler.nowMs * this.#rate + this.#wallOffsetMs,
      timer: (delayMs, fire) => this.#timer(delayMs, fire),
    }
  }

  get alive(): boolean {
    return !this.#dead
  }

  get running(): boolean {
    return !this.#dead && this.#scheduler.nowMs >= this.#stoppedUntilMs
  }

  /** When this process's monotonic clock shows `monoMs`, on the clock of the history. */
  historyMs(monoMs: number): number {
    return (monoMs - 1_000) / this.#rate
  }

  stepWall(ms: number): void {
    this.#wallOffsetMs += ms
  }

  /** Time service: what the wall clock has gained or lost by its own rate is taken back; steps stay. */
  correctDrift(): void {
    this.#wallOffsetMs -= this.#scheduler.nowMs * (this.#rate - 1)
  }

  stopFor(ms: number): void {
    const fromMs = this.#scheduler.nowMs
    this.#stoppedUntilMs = Math.max(this.#stoppedUntilMs, fromMs + ms)
    this.stops.push({ fromMs, untilMs: this.#stoppedUntilMs })
  }

  resume(): void {
    this.#stoppedUntilMs = this.#scheduler.nowMs
  }

  kill(): void {
    this.#dead = true
    this.stops.push({ fromMs: this.#scheduler.nowMs, untilMs: Number.POSITIVE_INFINITY })
  }

  /** Something arrives now: it is seen at once, when the process goes on, or never. */
  deliver(run: () => void, afterMs = 0): void {
    if (this.#dead) return
    if (this.#scheduler.nowMs >= this.#stoppedUntilMs) run()
    else this.#scheduler.at(this.#stoppedUntilMs + afterMs, () => this.deliver(run, afterMs))
  }

  #timer(delayMs: number, fire: () => void): Timer {
    let armed = true
    const due = this.#scheduler.after(Math.max(0, delayMs) / this.#rate, () =>
      this.deliver(
        () => {
          if (armed) fire()
        },
        this.answersFirst ? TURN_MS : 0,
      ),
    )
    return {
      cancel: () => {
        armed = false
        due.cancel()
      },
    }
  }
}
