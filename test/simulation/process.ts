/**
 * A simulated process: its two clocks, its timers, and whether it runs.
 *
 * Owns what an operating system does to a sidecar: the monotonic clock runs at its own rate, the wall clock can also be
 * stepped, a stopped process sees no event until it resumes and then sees all of them in the order in which they came
 * due, and a dead one never resumes. Everything that reaches the core from outside passes `deliver`.
 */

import type { Clock, Timer } from '../../src/core/clock.ts'
import type { Scheduler } from './scheduler.ts'

/** One turn of a busy event loop. */
const TURN_MS = 0.01

/** A moment of 2026: tokens have their real size. */
export const INCARNATION_WALL_MS = 1_790_000_000_000

export class SimulatedProcess {
  readonly name: string
  readonly clock: Clock
  readonly #scheduler: Scheduler
  readonly #rate: number
  #wallOffsetMs: number
  #stoppedUntilMs = 0
  #wallRate: number
  #dead = false
  /** On resuming it handles messages before timers; else both in the order in which they came due. */
  answersFirst = false
  /** When it was stopped or dead, which explains a lost lease. */
  readonly stops: { readonly fromMs: number; readonly untilMs: number }[] = []

  constructor(name: string, scheduler: Scheduler, ratePpm: number, wallOffsetMs: number) {
    this.name = name
    this.#scheduler = scheduler
    this.#rate = 1 + ratePpm / 1_000_000
    this.#wallRate = this.#rate
    this.#wallOffsetMs = wallOffsetMs
    this.clock = {
      monoMs: () => 1_000 + scheduler.nowMs * this.#rate,
      wallMs: () => INCARNATION_WALL_MS + scheduler.nowMs * this.#wallRate + this.#wallOffsetMs,
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

  /** Time service: removes the drift of the wall clock, and keeps it at the right rate; steps stay. */
  correctDrift(): void {
    this.#wallRate = 1
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

  /** An event arrives now: the process sees it at once, when it resumes, or never. */
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
