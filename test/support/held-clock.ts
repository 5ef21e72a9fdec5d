/**
 * Clocks for real servers in this process whose timers stay real. One moves when the test says so; one stands still while
 * the process does, so that what is promised of a process that runs can be asked for on a machine that holds it up.
 */
import type { Clock } from '../../src/core/clock.ts'
import { systemClock } from '../../src/system/clock.ts'

export type HeldClock = Clock & {
  advance(byMs: number): void
}

export function heldClock(): HeldClock {
  let aheadMs = 0
  const monoMs = systemClock.monoMs()
  const wallMs = systemClock.wallMs()
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
    /** From now on it stands still. */
    stop(): void
  }

const LOOK_EVERY_MS = 5
/** Of a longer pause between two looks only this much was the process's own. */
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
