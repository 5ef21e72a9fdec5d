/**
 * What is counted when: maps events and the sidecar's current state to the metrics of `metrics.ts`.
 *
 * Owns the classification: which end of a claim is a hit, which reply of a node is a failure. A claim that
 * another holder blocks is a success of the quorum; otherwise every duplicate would burn the error budget. What a sidecar
 * claims for itself (synthetic claims, the election) is no request's: while nobody sends any, it would be all that counts.
 */

import type { ClaimEnd, CoreEvent, Events } from '../core/events.ts'
import type { ReadinessReason } from '../core/health/readiness.ts'
import { type NodeStatus, refusesWrites, takesWrites } from '../core/node-status.ts'
import { provenOffsetMs } from '../core/nodes/clock-samples.ts'
import type { NodeStats } from '../core/nodes/node-stats.ts'
import { isOurs } from '../core/record/record.ts'
import { isObserved } from '../core/request/identity.ts'
import {
  entrypointLabel,
  OTHER_ROUTE,
  READINESS_REASONS,
  type ShownIdentity,
  UNKNOWN,
} from './metric-table.ts'
import type { Metrics } from './metrics.ts'

/** The state at the moment of a scrape, as opposed to events. */
export type Standing = {
  readonly nodes: readonly NodeStatus[]
  readonly inFlight: number
  /** Of bodies of requests and answers. */
  readonly bodyBytes: number
  readonly bodyLimitBytes: number
  /** Reservations that this sidecar granted and that are still open, without those that it renews itself. */
  readonly leasesReserved: number
  readonly writeBackPending: number
  readonly sweeping: SweepingNow | undefined
  readonly readiness: {
    readonly ready: boolean
    readonly failing: ReadonlySet<ReadinessReason>
    readonly p95Ms: number | undefined
  }
}

/**
 * @property filled some sidecar leads, this one or another, perhaps one of another namespace
 * @property orphansOpen of the last round; undefined while this sidecar does not lead or has not finished a round
 */
type SweepingNow = {
  readonly leading: boolean
  readonly filled: boolean
  readonly orphansOpen: number | undefined
}

/** Of the active span, if it is recorded: becomes the exemplar of the observation. */
type TraceId = () => string | undefined

type EventOf<K extends CoreEvent['kind']> = Extract<CoreEvent, { kind: K }>
type Counts = { readonly [K in CoreEvent['kind']]?: (event: EventOf<K>) => void }

export function countEvents(metrics: Metrics, required: number, traceId: TraceId): Events['publish'] {
  /** Groups whose breaker is not closed; the only group has no name. */
  const lost = new Set<string | undefined>()
  const counts: Counts = {
    // The first two are the bulk of all events: one for each node and command.
    node_answered: (event) => {
      metrics.nodeRequests[event.node]?.[nodeResult(event)].add(1)
      // A node without a connection is refused at once, which says nothing of its speed.
      if (event.unreachable !== 'refused') metrics.nodeDuration[event.node]?.observe(event.durationMs / 1000)
    },
    round_settled: (event) => {
      if (event.command !== 'claim' || isOurs(event.recordKey)) return
      metrics.quorumAttempts[event.answered >= required ? 'success' : 'failure'].add(1)
      if (event.majorityReached) metrics.quorumMargin.observe(event.margin)
    },
    decided: (event) => countDecision(event, metrics, traceId),
    claim_ended: (event) => countClaim(event, metrics, traceId),
    lease_began: () => metrics.leasesKept.add(1),
    lease_ended: (event) => countLeaseEnd(event, metrics),
    application_worked: ({ route, durationMs }) =>
      metrics.sizing.worked(routeLabel(route, metrics), durationMs),
    lease_renewed: ({ result }) => metrics.renewals[RENEWAL[result]].add(1),
    lease_released: ({ result }) => metrics.releases[result === 'unavailable' ? 'no_quorum' : result].add(1),
    outcome_damaged: () => metrics.damaged.add(1),
    cluster_replaced: () => metrics.clusterReplaced.set(1),
    clock_stepped: () => metrics.clockSteps.add(1),
    breaker_changed: ({ node, to }) => metrics.nodeBreakerOpen.set({ node }, to === 'closed' ? 0 : 1),
    quorum_breaker_changed: ({ group, to }) => {
      if (to === 'closed') lost.delete(group)
      else lost.add(group)
      metrics.breakerOpen.set(lost.size === 0 ? 0 : 1)
    },
    written_back: ({ result }) => metrics.writtenBack[result].add(1),
    body_memory_full: ({ of }) => metrics.bodyMemoryFull[of].add(1),
    connections_refused: ({ refused }) => metrics.connectionsRefused.add(refused),
    entries_untaken: ({ of, entries }) => metrics.untaken[of].add(entries),
    synthetic_claim: ({ result }) => metrics.synthetic[result].add(1),
    observed: ({ route, would, ageMs }) => {
      metrics.observed?.total[routeLabel(route, metrics)]?.[would].add(1)
      if (ageMs !== undefined) metrics.observed?.age.observe(ageMs / 1000)
    },
    near_miss: ({ route }) => metrics.nearMisses[routeLabel(route, metrics)]?.add(1),
  }
  return (event) => (counts[event.kind] as ((event: CoreEvent) => void) | undefined)?.(event)
}

function countDecision(event: EventOf<'decided'>, metrics: Metrics, traceId: TraceId): void {
  metrics.served()
  metrics.decisions[event.decision][entrypointLabel(event.entrypoint)].add(1)
  if (event.entrypoint !== 'proxy') return
  metrics.requests[routeLabel(event.route, metrics)]?.[codeClass(event.status)].add(1)
  metrics.requestDuration.observe(event.durationMs / 1000, traceId())
}

function countClaim(event: EventOf<'claim_ended'>, metrics: Metrics, traceId: TraceId): void {
  // Nobody waits for the claim of a request that is observed.
  if (isOurs(event.recordKey) || isObserved(event.recordKey)) return
  // Answered from this process's memory: no claim of the quorum, and it would hide how slow those are.
  if (event.rounds > 0) {
    metrics.acquireDuration[ACQUIRE_OUTCOME[event.result]].observe(event.durationMs / 1000, traceId())
    metrics.acquireRetries.add(event.rounds - 1)
  }
  if (event.result !== 'unavailable') metrics.lookups[event.result === 'granted' ? 'miss' : 'hit'].add(1)
}

export function recordStanding(metrics: Metrics, standing: Standing): void {
  const {
    nodes,
    inFlight,
    bodyBytes,
    bodyLimitBytes,
    readiness,
    leasesReserved,
    writeBackPending,
    sweeping,
  } = standing
  const groups = Object.values(Object.groupBy(nodes, ({ group = '' }) => group))
  // The quorum with the fewest nodes is the first to be lost.
  const reachable = groups.map((all = []) => all.filter(takesWrites).length)
  metrics.reachableNodes.set(reachable.length === 0 ? 0 : Math.min(...reachable))
  for (const status of nodes) {
    const { name: node, state, clock, startedWallMs, memoryShare } = status
    // What it showed before it hung is no longer known.
    const offsetMs = state === 'down' || clock === undefined ? Number.NaN : provenOffsetMs(clock)
    metrics.clockSkew.set({ node }, offsetMs / 1000)
    metrics.nodeUp.set({ node }, state === 'voting' ? 1 : 0)
    metrics.nodeRefusesWrites.set({ node }, refusesWrites(status) ? 1 : 0)
    metrics.nodeStart.set({ node }, (startedWallMs ?? Number.NaN) / 1000)
    metrics.nodeMemory.set({ node }, memoryShare ?? Number.NaN)
  }
  metrics.nodesQuarantined.set(nodes.filter(({ state }) => state === 'quarantined').length)
  metrics.requestsInFlight.set(inFlight)
  metrics.bodyMemory.set(bodyBytes)
  metrics.bodyMemoryLimit.set(bodyLimitBytes)
  metrics.leasesHeld.set(metrics.leasesKept.count + leasesReserved)
  metrics.writeBackPending.set(writeBackPending)
  metrics.sweeping.set(sweeping === undefined ? Number.NaN : Number(sweeping.leading))
  metrics.sweeperElected.set(sweeping === undefined ? Number.NaN : Number(sweeping.filled))
  metrics.orphansOpen.set(sweeping?.orphansOpen ?? Number.NaN)
  metrics.ready.set(readiness.ready ? 1 : 0)
  for (const reason of READINESS_REASONS)
    metrics.readinessFailing.set({ reason }, readiness.failing.has(reason) ? 1 : 0)
  metrics.readinessP95.set((readiness.p95Ms ?? Number.NaN) / 1000)
  metrics.sizing.record()
}

/** @property setting that names the file */
export type ShownCertificate = {
  readonly setting: string
  readonly fromMs: number
  readonly untilMs: number
}

/** Both ends, because what is soon depends on how long a certificate lives: seven days are all the life of one that is renewed each day. */
export function recordCertificates(
  { notBefore, notAfter }: Metrics['certificates'],
  certificates: readonly ShownCertificate[],
): void {
  for (const { setting, fromMs, untilMs } of certificates) {
    notBefore.set({ setting }, fromMs / 1_000)
    notAfter.set({ setting }, untilMs / 1_000)
  }
}

/** @param clusterIds of each group of nodes */
export function recordIdentity(
  gauge: Metrics['identity'],
  { env, rules }: ShownIdentity,
  clusterIds: readonly string[] = [UNKNOWN],
): void {
  gauge.clear()
  const known = clusterIds.every((id) => id !== UNKNOWN)
  gauge.set({ env, rules, node_cluster: known ? clusterIds.toSorted().join(',') : UNKNOWN }, 1)
}

/** As the collector gives them. */
type Shown = NodeStats & { readonly slowestNewMs: number }

/**
 * Of a hundred sidecars ninety-nine would show series that say nothing. Prometheus ends a series with the first scrape that lacks it, so
 * after an election there is one value for each node again.
 *
 * @param nodeStats undefined while this sidecar is not elected
 */
export function recordNodeStats(
  gauges: Metrics['nodeStats'],
  nodeStats: ReadonlyMap<string, Shown> | undefined,
): void {
  if (gauges === undefined) return
  gauges.elected.set(nodeStats === undefined ? 0 : 1)
  const { byNode } = gauges
  for (const gauge of Object.values(byNode)) gauge.clear()
  for (const [node, { slowestNewMs, ...stats }] of nodeStats ?? []) {
    const shown = { ...stats, slowestNewSeconds: slowestNewMs / 1_000 }
    for (const name of Object.keys(byNode) as (keyof typeof byNode)[])
      if (!Number.isNaN(shown[name])) byNode[name].set({ node }, shown[name])
  }
}

function countLeaseEnd(event: EventOf<'lease_ended'>, metrics: Metrics): void {
  metrics.leasesKept.add(-1)
  metrics.leasesEnded[event.ended].add(1)
  metrics.holdDuration.observe(event.heldMs / 1000)
  if (event.ended === 'completed' || event.ended === 'released')
    metrics.remainingAtRelease.observe(event.remainingMs / 1000)
  if (event.ended === 'expired' || event.ended === 'lost') metrics.expiredBeforeCompletion.add(1)
}

function nodeResult(event: EventOf<'node_answered'>) {
  switch (event.answer) {
    case 'granted':
    case 'renewed':
    case 'recorded':
    case 'released':
    case 'record':
      return 'ok'
    case 'unreachable':
      return event.unreachable === 'timeout' ? 'timeout' : 'error'
    default:
      return 'rejected'
  }
}

function routeLabel(route: string | undefined, { labelledRoutes }: Metrics): string {
  return route !== undefined && labelledRoutes.has(route) ? route : OTHER_ROUTE
}

function codeClass(status: number): '2xx' | '3xx' | '4xx' | '5xx' {
  if (status < 300) return '2xx'
  if (status < 400) return '3xx'
  return status < 500 ? '4xx' : '5xx'
}

const ACQUIRE_OUTCOME = {
  granted: 'acquired',
  duplicate: 'held',
  mismatch: 'held',
  held: 'held',
  contended: 'contended',
  damaged: 'held',
  unavailable: 'no_quorum',
} as const satisfies Record<ClaimEnd, string>

const RENEWAL = { renewed: 'success', lost: 'lost', unavailable: 'no_quorum' } as const
