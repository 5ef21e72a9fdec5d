/**
 * What became of the requests of the last two minutes, for an operator who looks now: counts by the second, quantiles,
 * and what the breakers said last.
 *
 * Owns the window and what counts as what. Everything is of this process alone, and bounded: metrics are what is kept.
 */

import type { Clock } from '../clock.ts'
import type { Decision } from '../decision.ts'
import type { CoreEvent } from '../events.ts'
import { createLatencyWindow, type LatencyWindow, WINDOW_SLICES } from './latency-window.ts'

/** A request that was executed, answered from its record, refused, or told that another one is under way. */
export const FATES = ['created', 'replayed', 'refused', 'waiting', 'unprotected'] as const
type Fate = (typeof FATES)[number]

export const TRAFFIC_SECONDS = 120

const FATE_OF: Readonly<Record<Decision, Fate | undefined>> = {
  acquired: 'created',
  duplicate_completed: 'replayed',
  duplicate_in_flight: 'waiting',
  fingerprint_mismatch: 'refused',
  quorum_unavailable: 'refused',
  invalid: 'refused',
  overloaded: 'refused',
  // Executed without a claim, because its route said so.
  fail_open: 'unprotected',
  bypassed: undefined,
}

export type Quantiles = { readonly count: number; readonly p50Ms?: number; readonly p95Ms?: number }

export type TrafficView = {
  /** For each whole second of the window, oldest first. */
  readonly perSecond: Readonly<Record<Fate, readonly number[]>>
  /** Requests from their arrival to their answer, the application's time included. */
  readonly requests: Quantiles
  /** Claims on the nodes. */
  readonly claims: Quantiles
  /** Groups whose claims are refused without a round; the only group is the empty name. */
  readonly openBreakers: readonly string[]
}

export type Traffic = { readonly observe: (event: CoreEvent) => void; readonly view: () => TrafficView }

export function createTraffic(clock: Pick<Clock, 'monoMs'>): Traffic {
  const seconds = TRAFFIC_SECONDS + 1
  const counts = Object.fromEntries(FATES.map((fate) => [fate, new Uint32Array(seconds)])) as Record<
    Fate,
    Uint32Array
  >
  const requests = createLatencyWindow([])
  const claims = createLatencyWindow([])
  const breakers = new Set<string>()
  let second = Math.floor(clock.monoMs() / 1_000)

  function moveOn(): void {
    const now = Math.floor(clock.monoMs() / 1_000)
    // After a silence of any length every second of the window is empty: no more need be walked over.
    second = Math.max(second, now - seconds)
    while (second < now) {
      second += 1
      for (const fate of FATES) counts[fate][second % seconds] = 0
      if (second % (TRAFFIC_SECONDS / WINDOW_SLICES) !== 0) continue
      requests.moveOn()
      claims.moveOn()
    }
  }

  return {
    observe: (event) => {
      switch (event.kind) {
        case 'decided': {
          moveOn()
          const fate = FATE_OF[event.decision]
          if (fate === undefined) return
          const at = second % seconds
          counts[fate][at] = (counts[fate][at] ?? 0) + 1
          requests.add(event.durationMs)
          return
        }
        case 'claim_ended':
          moveOn()
          // Without a round it was answered from memory, and says nothing of the nodes.
          if (event.rounds > 0) claims.add(event.durationMs)
          return
        case 'quorum_breaker_changed':
          if (event.to === 'closed') breakers.delete(event.group ?? '')
          else breakers.add(event.group ?? '')
          return
        default:
          return
      }
    },
    view: () => {
      moveOn()
      const past = Array.from({ length: TRAFFIC_SECONDS }, (_, index) => (second + 1 + index) % seconds)
      const perSecond = FATES.map((fate) => [fate, past.map((at) => counts[fate][at] ?? 0)])
      return {
        perSecond: Object.fromEntries(perSecond),
        requests: quantilesOf(requests),
        claims: quantilesOf(claims),
        openBreakers: [...breakers],
      }
    },
  }
}

function quantilesOf(window: LatencyWindow): Quantiles {
  const count = window.count()
  return count === 0 ? { count } : { count, p50Ms: window.quantile(0.5), p95Ms: window.quantile(0.95) }
}
