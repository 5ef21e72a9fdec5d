/**
 * A named fault of the matrix: how it is injected into a stage while clients go on, and what may follow from it.
 */

import { setTimeout as pause } from 'node:timers/promises'
import type { Clients } from './clients.ts'
import { type History, monoMs } from './history.ts'
import type { Stage } from './stage.ts'

export type FaultContext = {
  readonly stage: Stage
  readonly clients: Clients
  readonly history: History
  /** Seeded: from 0 up to 1. */
  readonly fraction: () => number
  /** A key that no other operation uses. */
  freshKey(): string
  /** Keys that were executed and recorded lately. */
  recentKeys(count: number): readonly string[]
  /** Keys that only emptied nodes knew are not sent again. */
  lose(): void
  /** A condition that has to come true during or after the fault; else a promise was broken. */
  demand(promise: string, withinMs: number, condition: () => Promise<boolean>): Promise<void>
}

export type Fault = {
  /** Its row of the matrix: `F1`; `F22c` where a row has several. */
  readonly id: string
  readonly what: string
  /** How it is injected. */
  readonly how: string
  /** A holder may lose its lease by it: then an execution may be repeated, as attempt 2. */
  readonly mayLoseLease?: boolean
  /** Left out of short runs. */
  readonly long?: boolean
  /** Injects it, waits, and heals it. Returns how often it bit, counted at the fault: 0 makes the run invalid. */
  inject(context: FaultContext): Promise<number>
}

export { pause }

export function between(fraction: () => number, least: number, most: number): number {
  return least + fraction() * (most - least)
}

/** `count` different numbers below `below`. */
export function choose(fraction: () => number, below: number, count: number): readonly number[] {
  const left = Array.from({ length: below }, (_, index) => index)
  return Array.from({ length: count }, () => left.splice(Math.floor(fraction() * left.length), 1)[0] ?? 0)
}

/** Repeats an action until the time is over. */
export async function during(ms: number, everyMs: () => number, act: () => unknown): Promise<number> {
  const untilMs = monoMs() + ms
  let times = 0
  while (monoMs() < untilMs) {
    await act()
    times += 1
    await pause(everyMs())
  }
  return times
}
