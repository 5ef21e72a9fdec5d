/**
 * The part of the composition root that watches: log, metrics and readiness around the events of the core.
 *
 * Owns their wiring: who hears of an event, and what a probe and a scrape are answered from.
 */

import type { DestinationStream, Logger } from 'pino'
import type { Config } from '../config/load.ts'
import type { Clock, Random } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import { createReadinessGate, type ReadinessVerdict } from '../core/health/readiness.ts'
import type { NodeStats } from '../core/nodes/node-stats.ts'
import type { Leases, RecordNode } from '../core/ports.ts'
import type { SagaBacklog } from '../core/saga-admin.ts'
import { type Tracing, UNTRACED } from '../core/tracing.ts'
import type { Readiness } from '../http/admin/server.ts'
import { countEvents, recordStanding, type Standing } from '../observe/counting.ts'
import { fanOut, type Subscriber } from '../observe/fan-out.ts'
import { createLog, logEvents } from '../observe/log.ts'
import { createMetrics } from '../observe/metrics.ts'
import { recordNodeStats } from '../observe/node-stats-gauges.ts'
import { recordSagaBacklog } from '../observe/saga-gauges.ts'
import { type NodesSeen, readinessFacts } from './readiness-facts.ts'
import { startReadinessTimers } from './readiness-timers.ts'

export type TelemetryEnvironment = {
  readonly version: string
  readonly nodeVersion: string
  readonly instance: string
  readonly logTo: DestinationStream
  readonly clock: Clock
  readonly random: Random
  /** Names of the nodes of all groups, in their order. */
  readonly nodeNames: readonly string[]
  /** Of one group, and a majority of it. */
  readonly nodeCount: number
  readonly required: number
  /** `OTEL_SERVICE_NAME`, where it is set. */
  readonly serviceName?: string | undefined
}

/** What is asked at a scrape or a probe. */
export type Watched = NodesSeen & {
  /** Where a database is configured and has answered. */
  readonly sagas: SagaBacklog | undefined
  /** Of the nodes by name, where this sidecar is elected to ask for them. */
  readonly nodeStats: ReadonlyMap<string, NodeStats> | undefined
} & Pick<Standing, 'inFlight' | 'leasesReserved' | 'writeBackPending' | 'sweeping'>

export type Telemetry = AsyncDisposable & {
  readonly tracing: Tracing
  /** The node with a span for each of its commands, where that is asked for. */
  readonly tracedNode: (node: RecordNode) => RecordNode
  readonly log: Logger
  readonly events: Events
  /** From now on told of every event as well. */
  tell(subscriber: Subscriber): void
  readiness(watched: Watched): Readiness
  scrape(watched: Watched, accept: string | undefined): Promise<{ contentType: string; text: string }>
  /** Begins to evaluate, and to claim synthetically where there are too few claims to judge by. */
  start(groups: readonly Pick<Leases, 'claim' | 'release'>[]): void
}

export async function openTelemetry(config: Config, environment: TelemetryEnvironment): Promise<Telemetry> {
  const { version, nodeVersion, instance, logTo, clock, random, nodeNames, nodeCount, required } = environment
  const log = createLog({ level: config.logLevel, instance, destination: logTo })
  const routes = config.routes.map(({ name }) => name)
  const metrics = createMetrics({
    version,
    nodeVersion,
    nodes: nodeNames,
    groupNodes: nodeCount,
    required,
    routes,
    sagas: config.sagaDatabase !== undefined,
    nodeStats: config.nodeCollectionIntervalMs > 0,
  })
  const traces = config.tracing ? await openTraces(config, environment) : undefined
  const traced = traces === undefined ? [] : [traces.subscriber]
  const gate = createReadinessGate(config, { clock, random })
  /** Nodes whose clocks are further off than tolerated. */
  const skewed = new Set<string>()
  const subscribers: Subscriber[] = [
    logEvents(log, {
      nodeCount,
      decisionsPerSecond: config.logDecisionsPerSecond,
      monoMs: () => clock.monoMs(),
      onDropped: () => metrics.logLinesDropped.add(1),
      trace: () => traces?.active(),
    }),
    countEvents(metrics, required, () => traces?.active()?.traceId),
    ...traced,
    (event) => {
      // Without a round the nodes were not asked: that says nothing of them.
      if (event.kind === 'claim_ended' && event.rounds > 0) gate.observe(event.durationMs)
      if (event.kind !== 'clock_offset') return
      if (event.skewed) skewed.add(event.node)
      else skewed.delete(event.node)
    },
  ]
  const events = fanOut(subscribers, (cause) => log.error({ err: cause }, 'a subscriber failed'))

  const verdict = (watched: Watched): ReadinessVerdict =>
    gate.verdict(readinessFacts(watched, config.clockEnforce ? skewed : undefined, { nodeCount, required }))
  let readinessTimers: Disposable | undefined

  return {
    log,
    events,
    tracing: traces ?? UNTRACED,
    tracedNode: (node) => (traces !== undefined && config.traceNodeSpans ? traces.tracedNode(node) : node),
    tell: (subscriber) => void subscribers.push(subscriber),
    readiness: (watched) => {
      const { ready, reasons, p95Ms } = verdict(watched)
      const p95 = p95Ms === undefined ? {} : { acquireP95Ms: Math.round(p95Ms * 10) / 10 }
      return { ready, reasons, ...p95, nodes: watched.nodes }
    },
    scrape: (watched, accept) => {
      const nodes = watched.nodes.map((view) => ({
        ...view,
        voting: view.state === 'voting',
        quarantined: view.state === 'quarantined',
      }))
      recordStanding(metrics, { ...watched, nodes, readiness: verdict(watched) })
      recordSagaBacklog(metrics.sagas, watched.sagas)
      recordNodeStats(metrics.nodeStats, watched.nodeStats)
      return metrics.exposition(accept)
    },
    start: (groups) => {
      readinessTimers = startReadinessTimers(gate, groups, config, { instance, clock, random, events })
    },
    [Symbol.asyncDispose]: async () => {
      readinessTimers?.[Symbol.dispose]()
      await traces?.[Symbol.asyncDispose]()
    },
  }
}

/** The SDK takes a third of a second to load: only where it is used. */
async function openTraces(
  config: Config,
  { serviceName, version, nodeCount, required, random }: TelemetryEnvironment,
) {
  const { openTracing } = await import('../observe/tracing.ts')
  return openTracing({
    serviceName: serviceName ?? 'fencepost',
    version,
    sampleRatio: config.traceSampleRatio,
    baggage: config.traceBaggage,
    nodeCount,
    required,
    random,
  })
}
