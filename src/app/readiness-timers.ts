/**
 * The two timers of readiness: its evaluations, and the synthetic claims while real ones are too few.
 *
 * Each synthetic claim costs every node, and idle sidecars are many. So they follow one another only until the window
 * has enough; while all is calm there is one in a window, which is what finds out that it is no longer.
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
  let ended = false

  function every(intervalMs: number, work: () => void | Promise<void>): void {
    const timer = clock.timer(intervalMs, async () => {
      timers.delete(timer)
      await work()
      if (!ended) every(intervalMs, work)
    })
    timers.add(timer)
  }

  // A new key: an earlier claim, also of an earlier process, may not have been released.
  const freshKey = () => `${PROBE_KEY}${instance}:${random.hex(8)}`
  let key = freshKey()
  let next = 0
  let lastMonoMs = Number.NEGATIVE_INFINITY
  const isDue = () => {
    const wants = gate.wants()
    if (wants !== 'one in a while') return wants === 'more'
    // Each group once a window.
    return clock.monoMs() - lastMonoMs >= config.readinessWindowMs / groups.length
  }

  every(gate.evaluateEveryMs, gate.evaluate)
  every(syntheticPauseMs(config.readinessWindowMs, config.readinessMinSamples), async () => {
    if (!isDue()) return
    const leases = groups[next++ % groups.length]
    if (leases === undefined) return
    lastMonoMs = clock.monoMs()
    const ports = { leases, clock, random, events }
    const { durationMs, ok, unavailable, left } = await claimSynthetically(key, config.claimBudgetMs, ports)
    gate.observe(durationMs, unavailable ? 'unavailable' : undefined)
    if (!ok) gate.disturbed()
    if (left) key = freshKey()
  })
  return {
    [Symbol.dispose]: () => {
      ended = true
      for (const timer of timers) timer.cancel()
    },
  }
}
