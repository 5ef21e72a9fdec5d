/**
 * The observing part of the composition root: log, metrics and readiness around the events of the core.
 *
 * Owns their wiring: which subscribers get an event, and what a probe and a scrape are answered from.
 */

import type { Logger } from 'pino'
import type { Config } from '../config/load.ts'
import type { CollectedStats } from '../coordination/node-collector.ts'
import type { Clock, Random } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import { createObservations, type Observations } from '../core/health/observations.ts'
import type { ReadinessVerdict } from '../core/health/readiness.ts'
import { createTraffic, type Traffic } from '../core/health/traffic.ts'
import { createRecentDecisions } from '../core/operator/recent-decisions.ts'
import type { Leases, RecordNode } from '../core/ports.ts'
import { protects } from '../core/routes/route.ts'
import { type Tracing, UNTRACED } from '../core/tracing.ts'
import type { Readiness } from '../http/admin/server.ts'
import type { OverviewFacts } from '../http/operator/overview.ts'
import {
  countEvents,
  recordCertificates,
  recordIdentity,
  recordNodeStats,
  recordStanding,
  type ShownCertificate,
  type Standing,
} from '../observe/counting.ts'
import { createLog, type LogTarget, logEvents } from '../observe/log.ts'
import { createMetrics } from '../observe/metrics.ts'
import type { NamingVariables } from '../observe/tracing.ts'
import { identityRules } from './identity-rules.ts'
import { type NodesSeen, watchReadiness } from './readiness.ts'

export type TelemetryEnvironment = {
  readonly version: string
  readonly nodeVersion: string
  readonly instance: string
  readonly logTo: LogTarget
  readonly clock: Clock
  readonly random: Random
  /** Names of the nodes of all groups, in their order. */
  readonly nodeNames: readonly string[]
  /** One group's nodes, and a majority of them. */
  readonly nodeCount: number
  readonly required: number
  /** The end leaves something open that it has no means to close. */
  readonly leaveOpen?: () => void
} & NamingVariables

type Subscriber = Events['publish']

/** The state that scrapes and probes read. */
export type Watched = NodesSeen & {
  /** By node name, if this sidecar is elected to collect them. */
  readonly nodeStats: ReadonlyMap<string, CollectedStats> | undefined
  readonly certificates: readonly ShownCertificate[]
  /** Of the nodes of each group; empty while that one is not known. Default: none is. */
  readonly clusterIds?: readonly string[]
} & Pick<
    Standing,
    'inFlight' | 'bodyBytes' | 'bodyLimitBytes' | 'leasesReserved' | 'writeBackPending' | 'sweeping'
  >

export type Telemetry = AsyncDisposable & {
  readonly tracing: Tracing
  /** The node with a span for each of its commands, if configured. */
  readonly tracedNode: (node: RecordNode) => RecordNode
  readonly log: Logger
  readonly events: Events
  /** Adds a subscriber to every further event. */
  subscribe(subscriber: Subscriber): void
  readiness(watched: Watched): Readiness
  /** What readiness is made of. */
  verdict(watched: Watched): ReadinessVerdict
  scrape(watched: Watched, accept: string | undefined): Promise<{ contentType: string; text: string }>
  /** The sidecar serves: starts evaluations, and synthetic claims while real ones are too few. */
  start(groups: readonly Pick<Leases, 'claim' | 'release'>[], watched: () => Watched): void
}

export async function openTelemetry(config: Config, environment: TelemetryEnvironment): Promise<Telemetry> {
  const { version, nodeVersion, instance, logTo, clock, random, nodeNames, nodeCount, required } = environment
  const identity = { env: config.env, rules: identityRules(config) }
  const metrics = createMetrics({
    version,
    nodeVersion,
    nodes: nodeNames,
    groupNodes: nodeCount,
    required,
    routes: config.routes.map(({ name }) => name),
    leasesMs: leasesOf(config),
    nodeDeadlineMs: config.nodeDeadlineMs,
    identity,
    observing: config.routes.some(({ mode }) => mode === 'observe'),
    nodeStats: config.nodeCollectionIntervalMs > 0,
  })
  const { sampled, not_taken: notTaken } = metrics.logLinesDropped
  const log = createLog({ level: config.logLevel, instance, target: logTo, onLost: () => notTaken.add(1) })
  const traces = config.tracing ? await openTraces(config, environment, log) : undefined
  const traced = traces === undefined ? [] : [traces.subscriber]
  const size = { nodeCount, required }
  const watch = watchReadiness(config, { instance, nodeNames, size, log, clock, random })
  const subscribers: Subscriber[] = [
    logEvents(log, {
      nodeCount,
      decisionsPerSecond: config.logDecisionsPerSecond,
      monoMs: () => clock.monoMs(),
      onDropped: () => sampled.add(1),
      trace: () => traces?.active(),
    }),
    countEvents(metrics, required, () => traces?.active()?.traceId),
    ...traced,
    watch.saw,
  ]
  const events = fanOut(subscribers, (cause) => log.error({ err: cause }, 'a subscriber failed'))
  return {
    log,
    events,
    tracing: traces ?? UNTRACED,
    tracedNode: (node) => (traces !== undefined && config.traceNodeSpans ? traces.tracedNode(node) : node),
    subscribe: (subscriber) => void subscribers.push(subscriber),
    verdict: watch.verdict,
    readiness: (watched) => {
      const { ready, reasons, p95Ms } = watch.verdict(watched)
      const p95 = p95Ms === undefined ? {} : { acquireP95Ms: Math.round(p95Ms * 10) / 10 }
      return { ready, reasons, ...p95, nodes: watched.nodes }
    },
    scrape: (watched, accept) => {
      recordStanding(metrics, { ...watched, readiness: watch.verdict(watched) })
      recordNodeStats(metrics.nodeStats, watched.nodeStats)
      recordCertificates(metrics.certificates, watched.certificates)
      recordIdentity(metrics.identity, identity, watched.clusterIds)
      return metrics.exposition(accept)
    },
    start: (groups, watched) => watch.start(groups, watched, events),
    [Symbol.asyncDispose]: async () => {
      watch[Symbol.dispose]()
      await traces?.[Symbol.asyncDispose]()
    },
  }
}

/** Of the protected routes, by name. */
function leasesOf({ routes }: Config): ReadonlyMap<string, number> {
  return new Map(routes.filter(protects).map(({ name, leaseMs }) => [name, leaseMs]))
}

/** The SDK takes a third of a second to load: only where it is used. */
async function openTraces(
  config: Config,
  { version, nodeCount, required, random, clock, leaveOpen = () => {}, ...naming }: TelemetryEnvironment,
  log: Logger,
) {
  const { openTracing, serviceNameOf } = await import('../observe/tracing.ts')
  const traces = openTracing({
    serviceName: serviceNameOf(naming),
    version,
    sampleRatio: config.traceSampleRatio,
    baggage: config.traceBaggage,
    nodeCount,
    required,
    random,
    monoMs: () => clock.monoMs(),
    log,
    leaveOpen,
  })
  if (traces === undefined)
    log.warn(
      'tracing is on, but OpenTelemetry sends no span, for its variables (OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT): the trace headers of clients pass as they are',
    )
  return traces
}

export function overviewFacts(
  watched: Watched,
  telemetry: Pick<Telemetry, 'verdict'>,
  { required }: { readonly required: number },
  traffic: Traffic,
  observations: Observations,
): OverviewFacts {
  const { ready, reasons, sentences } = telemetry.verdict(watched)
  const { nodes, inFlight, sweeping } = watched
  return {
    ready,
    reasons,
    failing: sentences,
    nodes,
    required,
    inFlight,
    sweeperElected: sweeping?.filled,
    orphansOpen: sweeping?.orphansOpen,
    traffic: traffic.view(),
    nearMisses: observations.view().near_misses.map(({ says }) => says),
  }
}

/** What an operator is shown of this sidecar's requests. */
export function requestsSeen(config: Config, telemetry: Pick<Telemetry, 'subscribe'>, clock: Clock) {
  const recent = createRecentDecisions(config, () => clock.wallMs())
  const traffic = createTraffic(clock)
  const observations = createObservations()
  telemetry.subscribe((event) => {
    if (event.kind === 'observed' || event.kind === 'near_miss') observations.add(event)
  })
  if (config.operatorListen.kind !== 'off') {
    telemetry.subscribe(recent.observe)
    telemetry.subscribe(traffic.observe)
  }
  return { recent, traffic, observations }
}

/** Hands every event to each subscriber. One that fails must not fail the request, and still gets later events. */
function fanOut(subscribers: readonly Subscriber[], onFailure: (cause: unknown) => void): Events {
  return {
    publish: (event) => {
      for (const subscriber of subscribers) {
        try {
          subscriber(event)
        } catch (cause) {
          onFailure(cause)
        }
      }
    },
  }
}
