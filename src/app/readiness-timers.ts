/**
 * The two timers of readiness: its evaluations, and the synthetic claims while real ones are too few.
 */

import type { Config } from '../config/load.ts'
import type { Clock, Random, Timer } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import type { ReadinessGate } from '../core/health/readiness.ts'
import { claimSynthetically, syntheticPauseMs } from '../core/health/synthetic-claims.ts'
import type { Leases } from '../core/ports.ts'
import { PROBE_KEY } from '../redis/keys.ts'

export type ReadinessTimersPorts = {
  readonly instance: string
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

/** @param groups get the claims in turn */
export function startReadinessTimers(
  gate: ReadinessGate,
  groups: readonly Pick<Leases, 'claim' | 'release'>[],
  config: Pick<Config, 'readinessWindowMs' | 'readinessMinSamples' | 'claimBudgetMs'>,
  { instance, clock, random, events }: ReadinessTimersPorts,
): Disposable {
  const timers = new Set<Timer>()

  function every(intervalMs: number, work: () => void | Promise<void>): void {
    const timer = clock.timer(intervalMs, async () => {
      timers.delete(timer)
      await work()
      every(intervalMs, work)
    })
    timers.add(timer)
  }

  // A new key: an earlier claim, also of an earlier process, may not have been released.
  const freshKey = () => `${PROBE_KEY}${instance}:${random.hex(8)}`
  let key = freshKey()
  let next = 0
  // A quarter above the minimum: each slice of the window that ends takes its claims away.
  const enough = config.readinessMinSamples * 1.25

  every(gate.evaluateEveryMs, gate.evaluate)
  every(syntheticPauseMs(config.readinessWindowMs, config.readinessMinSamples), async () => {
    const leases = groups[next++ % groups.length]
    if (leases === undefined || gate.samples() > enough) return
    const ports = { leases, clock, random, events }
    const { durationMs, unavailable, left } = await claimSynthetically(key, config.claimBudgetMs, ports)
    gate.observe(durationMs, unavailable ? 'unavailable' : undefined)
    if (left) key = freshKey()
  })
  return {
    [Symbol.dispose]: () => {
      for (const timer of timers) timer.cancel()
    },
  }
}
