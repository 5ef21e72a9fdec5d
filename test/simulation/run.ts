/** Runs one history from its plan; returns its violations and sights. */

import { check } from './checks.ts'
import type { Sight, Violation } from './history.ts'
import type { Plan } from './plan.ts'
import { World } from './world.ts'

export type Verdict = {
  readonly violations: readonly Violation[]
  readonly seen: ReadonlyMap<Sight, number>
  /** Over every step in order: equal digests, equal histories. */
  readonly digest: string
  readonly trace: readonly string[]
}

export async function runHistory(plan: Plan, traced = false): Promise<Verdict> {
  const world = new World(plan)
  const trace = traced ? world.history.keepTrace() : []
  try {
    await world.run()
    check(world)
  } catch (cause) {
    const detail = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
    world.history.violated('crash', world.scheduler.nowMs, detail)
  }
  const { violations, seen, digest } = world.history
  return { violations, seen, digest, trace }
}
