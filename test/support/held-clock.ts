/**
 * Clocks for real servers in this process whose timers stay real. One moves when the test says so; one stops while the
 * process is stalled, so that promises about a running process can be tested on a busy machine.
 */
import type { Clock } from '../../src/core/clock.ts'
import { systemClock } from '../../src/system/clock.ts'

export type HeldClock = Clock & {
  advance(byMs: number): void
}

export function heldClock(): HeldClock {
  let aheadMs = 0
  // Whole milliseconds: of a fraction, `(now + 10_000) - now` is sometimes below 10,000, and the time not yet up.
  const monoMs = Math.trunc(systemClock.monoMs())
  const wallMs = Math.trunc(systemClock.wallMs())
  return {
    ...systemClock,
    monoMs: () => monoMs + aheadMs,
    wallMs: () => wallMs + aheadMs,
    advance: (byMs) => {
      aheadMs += byMs
    },
  }
}

export type RunningClock = Clock &
  Disposable & {
    /** Stops the clock. */
    stop(): void
  }

const LOOK_EVERY_MS = 5
/** A longer pause between two looks counts as this much: the rest was a stall of the machine. */
const OWN_MAX_MS = 20

export function runningClock(): RunningClock {
  const clock = heldClock()
  let last = systemClock.monoMs()
  let stopped = false
  const look = () => {
    const now = systemClock.monoMs()
    if (!stopped) clock.advance(Math.min(now - last, OWN_MAX_MS))
    last = now
  }
  const timer = setInterval(look, LOOK_EVERY_MS)
  const looked =
    (read: () => number): (() => number) =>
    () => {
      look()
      return read()
    }
  return {
    ...clock,
    monoMs: looked(clock.monoMs),
    wallMs: looked(clock.wallMs),
    stop: () => {
      look()
      stopped = true
    },
    [Symbol.dispose]: () => clearInterval(timer),
  }
}
