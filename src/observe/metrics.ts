/**
 * The metrics of the sidecar. The only file that knows prom-client.
 *
 * Owns names, labels and buckets. Every label has a closed set of values that stands here, and every series exists from
 * the start at zero: a rate over a counter that appears with its first error misses that error. Requests cannot add a
 * series, whatever they carry.
 */

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { CoreEvent, Decision, Entrypoint } from '../core/events.ts'
import type { Subscriber } from './fan-out.ts'

/** Contain 0.05 (the latency alert) and 0.15 (the readiness gate) exactly, so that neither is interpolated. */
const ACQUIRE_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5]

const DECISIONS: readonly Decision[] = [
  'acquired',
  'duplicate_in_flight',
  'duplicate_completed',
  'fingerprint_mismatch',
  'quorum_unavailable',
  'invalid',
  'fail_open',
  'overloaded',
  'bypassed',
]
const ENTRYPOINTS: readonly Entrypoint[] = ['proxy', 'api']

export type MetricsOptions = {
  readonly version: string
  readonly nodeVersion: string
  readonly nodeCount: number
  readonly required: number
}

export type Metrics = {
  readonly subscriber: Subscriber
  /** The exposition, and its content type. */
  scrape(): Promise<{ readonly contentType: string; readonly text: string }>
}

export function createMetrics({ version, nodeVersion, nodeCount, required }: MetricsOptions): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })

  new Gauge({
    name: 'fencepost_build_info',
    help: 'Constant 1, labelled with the version of the sidecar and of Node.js.',
    labelNames: ['version', 'node_version'],
    registers,
  }).set({ version, node_version: nodeVersion }, 1)
  new Gauge({ name: 'fencepost_quorum_required', help: 'Nodes that make a majority.', registers }).set(
    required,
  )
  new Gauge({ name: 'fencepost_quorum_nodes', help: 'Nodes that are configured.', registers }).set(nodeCount)

  const decisions = new Counter({
    name: 'fencepost_decisions_total',
    help: 'Decisions about requests, by outcome and by who asked.',
    labelNames: ['outcome', 'entrypoint'],
    registers,
  })
  for (const outcome of DECISIONS)
    for (const entrypoint of ENTRYPOINTS) decisions.inc({ outcome, entrypoint }, 0)

  const acquire = new Histogram({
    name: 'fencepost_lock_acquire_duration_seconds',
    help: 'Time from asking for a claim to its answer, rounds and pauses included.',
    labelNames: ['outcome'],
    buckets: ACQUIRE_BUCKETS_S,
    registers,
  })
  for (const outcome of ['acquired', 'held', 'no_quorum', 'error']) acquire.zero({ outcome })

  const attempts = new Counter({
    name: 'fencepost_quorum_attempts_total',
    help: 'Claim rounds; success where a majority of nodes answered, whatever they said.',
    labelNames: ['result'],
    registers,
  })
  for (const result of ['success', 'failure']) attempts.inc({ result }, 0)

  const margin = new Histogram({
    name: 'fencepost_quorum_margin_votes',
    help: 'Votes beyond the majority of claims that were granted; 0 would not have survived one more failure.',
    buckets: Array.from({ length: nodeCount - required + 1 }, (_, spare) => spare),
    registers,
  })

  return {
    subscriber: (event: CoreEvent) => {
      switch (event.kind) {
        case 'decided':
          decisions.inc({ outcome: event.decision, entrypoint: event.entrypoint })
          return
        case 'claim_ended':
          acquire.observe({ outcome: ACQUIRE_OUTCOME[event.result] }, event.durationMs / 1000)
          return
        case 'round_settled':
          if (event.command !== 'claim') return
          attempts.inc({ result: event.answered >= required ? 'success' : 'failure' })
          if (event.carried) margin.observe(event.margin)
          return
        default:
          return
      }
    },
    scrape: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  }
}

const ACQUIRE_OUTCOME = {
  granted: 'acquired',
  duplicate: 'held',
  mismatch: 'held',
  held: 'held',
  unavailable: 'no_quorum',
  damaged: 'error',
} as const
