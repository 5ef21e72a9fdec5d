/**
 * The metrics of the sidecar: names, help, labels, in the order of a scrape.
 *
 * Every label has a closed set of values, from this file or the configuration, and every series exists from the start
 * at zero: a rate over a counter that appears with its first error misses that error. No request can add a series. A
 * pod with five nodes has at most 328 series, because the number of pods multiplies them: a label that costs more than
 * it tells is left out (docs/reference/telemetry.md says which and why). `counting.ts` decides what is counted when;
 * those of requests stand in `request-metrics.ts`.
 * Only what the elected sidecar shows of the nodes' servers comes and goes (`node-stats-gauges.ts`). Certificates have series from
 * the first scrape on, where there are any (`certificate-gauges.ts`).
 */

import type { Decision, Entrypoint } from '../core/decision.ts'
import type { EntriesOf, LeaseEnd, WriteBackEnd } from '../core/events.ts'
import type { ReadinessReason } from '../core/health/readiness.ts'
import { BUCKETS_S } from './buckets.ts'
import { certificateGauges } from './certificate-gauges.ts'
import { identityGauge, type ShownIdentity } from './identity-gauge.ts'
import { leaseSizing } from './lease-sizing.ts'
import { nodeStatsGauges } from './node-stats-gauges.ts'
import { observedMetrics, requestMetrics } from './request-metrics.ts'
import { type Kinds, Tally } from './tallies.ts'

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
/** The checks of all gateways count together: a sidecar stands behind one kind of gateway. */
const ENTRYPOINTS = ['proxy', 'api', 'gateway'] as const
export function entrypointLabel(entrypoint: Entrypoint): (typeof ENTRYPOINTS)[number] {
  return entrypoint === 'proxy' || entrypoint === 'api' ? entrypoint : 'gateway'
}
const ACQUIRE_OUTCOMES = ['acquired', 'held', 'contended', 'no_quorum'] as const
const NODE_RESULTS = ['ok', 'rejected', 'timeout', 'error'] as const
const RENEWAL_RESULTS = ['success', 'lost', 'no_quorum'] as const
const RELEASE_RESULTS = ['released', 'not_owner', 'no_quorum'] as const
const LEASE_ENDS: readonly LeaseEnd[] = ['completed', 'released', 'expired', 'lost', 'abandoned']
export const READINESS_REASONS: readonly ReadinessReason[] = ['latency', 'quorum', 'clock', 'shutdown']
const WRITE_BACK_ENDS: readonly WriteBackEnd[] = ['recorded', 'conflict', 'dropped']
const ENTRIES_OF: readonly EntriesOf[] = ['dead-letters', 'audit', 'queue']
const PROBE_RESULTS = ['ok', 'false_positive', 'false_negative', 'error'] as const

/** Routes with a series of their own; later ones, and requests without a route, are `other`. */
const LABELLED_ROUTES_MAX = 3
export const OTHER_ROUTE = 'other'

export type MetricsOptions = {
  readonly version: string
  readonly nodeVersion: string
  /** Names of the nodes of all groups, in their order. */
  readonly nodes: readonly string[]
  /** Nodes of one group. Default: all. */
  readonly groupNodes?: number
  readonly required: number
  /** Names of the configured routes, in their order. */
  readonly routes: readonly string[]
  /** The leases of those that are protected, by name. Default: none. */
  readonly leasesMs?: ReadonlyMap<string, number>
  /** Default: that of an empty environment. */
  readonly identity?: ShownIdentity
  /** Default: 80 ms, as of the setting. */
  readonly nodeDeadlineMs?: number
  /** Whether a route only observes. Default false. */
  readonly observing?: boolean
  /** Whether the elected sidecar collects the stats of the nodes. Default false. */
  readonly nodeStats?: boolean
}

/** In the order of a scrape. */
export function defineMetrics(kinds: Kinds, options: MetricsOptions) {
  const { version, nodeVersion, nodes, groupNodes = nodes.length, required, routes } = options
  const route = [...routes.slice(0, LABELLED_ROUTES_MAX), OTHER_ROUTE]
  const { gauge } = kinds
  gauge(
    'fencepost_build_info',
    'Constant 1, labelled with the version of the sidecar and of Node.js.',
    { version: [version], node_version: [nodeVersion] },
    1,
  )
  const identity = identityGauge(gauge, options.identity ?? { env: '', rules: '' })
  gauge('fencepost_quorum_required', 'Nodes that make a majority.', {}, required)
  gauge('fencepost_quorum_nodes', 'Nodes of a quorum that are configured.', {}, groupNodes)
  return {
    identity,
    nodeStats: options.nodeStats === true ? nodeStatsGauges(gauge) : undefined,
    labelledRoutes: new Set(route),
    ...claimMetrics(kinds, groupNodes - required),
    ...nodeMetrics(kinds, nodes),
    certificates: certificateGauges(gauge),
    ...quorumLossMetrics(kinds),
    ...leaseMetrics(kinds),
    sizing: leaseSizing(gauge, { ...options, labels: route, other: OTHER_ROUTE }),
    ...outcomeMetrics(kinds),
    ...readinessMetrics(kinds),
    ...requestMetrics(kinds, route),
    observed: options.observing === true ? observedMetrics(kinds, route) : undefined,
  }
}

function claimMetrics(
  { counter, counterBy, counterByTwo, histogram, histogramBy }: Kinds,
  spareNodes: number,
) {
  return {
    decisions: counterByTwo(
      'fencepost_decisions_total',
      'Decisions about requests, by who asked.',
      { outcome: DECISIONS },
      { entrypoint: ENTRYPOINTS },
    ),
    acquireDuration: histogramBy(
      'fencepost_lock_acquire_duration_seconds',
      'Time from asking for a claim to its answer, rounds and pauses included.',
      { outcome: ACQUIRE_OUTCOMES },
      BUCKETS_S.acquire,
    ),
    acquireRetries: counter('fencepost_lock_acquire_retries_total', 'Rounds of claims after their first.'),
    quorumAttempts: counterBy(
      'fencepost_quorum_attempts_total',
      'Claim rounds; success where a majority of nodes answered, whatever they said.',
      { result: ['success', 'failure'] },
    ),
    quorumMargin: histogram(
      'fencepost_quorum_margin_votes',
      'Votes beyond the majority of claims that were granted; 0 would not have survived one more failure.',
      // Without a bound of their own: all nodes are the +Inf bucket.
      Array.from({ length: spareNodes }, (_, spare) => spare),
    ),
  }
}

function nodeMetrics({ counter, counterByTwo, gauge, histogramBy }: Kinds, node: readonly string[]) {
  return {
    reachableNodes: gauge(
      'fencepost_quorum_reachable_nodes',
      'Nodes that can vote now and take writes; of several groups, those of the one that has the fewest.',
      {},
    ),
    nodeUp: gauge('fencepost_redis_node_up', '1 where the node is connected and may vote.', { node }),
    nodeRefusesWrites: gauge(
      'fencepost_redis_node_refuses_writes',
      '1 where the node may vote and refuses every write, so that no request can count on it.',
      { node },
    ),
    nodeDuration: histogramBy(
      'fencepost_redis_node_request_duration_seconds',
      'Time from asking a node to its answer or to giving it up.',
      { node },
      BUCKETS_S.node,
    ),
    nodeRequests: counterByTwo(
      'fencepost_redis_node_requests_total',
      'Commands to a node: ok it agreed, rejected it answered otherwise, timeout or error it did not answer.',
      { node },
      { result: NODE_RESULTS },
    ),
    nodesQuarantined: gauge(
      'fencepost_redis_nodes_quarantined',
      'Nodes that forgot and have no vote before they were enrolled again.',
      {},
    ),
    clusterReplaced: gauge(
      'fencepost_cluster_replaced',
      '1 where nodes were founded anew beside this sidecar, which accepts no other cluster than its own.',
      {},
    ),
    clockSkew: gauge(
      'fencepost_redis_clock_skew_seconds',
      'Clock of the node minus clock of the sidecar, as far as it is surely off; NaN where it is not known.',
      { node },
      Number.NaN,
    ),
    nodeStart: gauge(
      'fencepost_redis_node_start_timestamp_seconds',
      'When the server process of the node was started; NaN where it is not known.',
      { node },
      Number.NaN,
    ),
    nodeMemory: gauge(
      'fencepost_redis_node_memory_used_ratio',
      'Share of its `maxmemory` that the node uses; NaN where it has none, or is not known.',
      { node },
      Number.NaN,
    ),
    clockSteps: counter(
      'fencepost_redis_clock_steps_total',
      'Steps of a clock of a node that suspended its vote.',
    ),
    nodeBreakerOpen: gauge(
      'fencepost_redis_node_breaker_open',
      '1 where the node is not asked for a while.',
      { node },
    ),
  }
}

/** What replaces a lost quorum, and the sweeper that cleans up afterwards. */
function quorumLossMetrics({ counterBy, gauge }: Kinds) {
  return {
    breakerOpen: gauge(
      'fencepost_circuit_breaker_open',
      '1 where the quorum was lost for so long that claims are refused without asking.',
      {},
    ),
    writtenBack: counterBy(
      'fencepost_write_backs_total',
      'Outcomes of the time without a quorum, written to it afterwards.',
      { result: WRITE_BACK_ENDS },
    ),
    writeBackPending: gauge(
      'fencepost_write_back_pending',
      'Outcomes of the time without a quorum that are yet to be written to it.',
      {},
    ),
    sweeping: gauge(
      'fencepost_sweeper_leading',
      '1 where this sidecar is elected to look for orphans; NaN where the nodes are embedded, and nobody is.',
      {},
    ),
    sweeperElected: gauge('fencepost_sweeper_elected', '1 where some sidecar is known to be elected.', {}),
    untaken: counterBy(
      'fencepost_untaken_entries_total',
      'Entries that no majority of the nodes took: dead letters, which each sweep offers again; the audit log; who waits for a record.',
      { of: ENTRIES_OF },
    ),
    orphansOpen: gauge(
      'fencepost_orphans_open',
      'Lapsed claims without an outcome that the last round of this sidecar found; NaN where it is not elected.',
      {},
      Number.NaN,
    ),
  }
}

function leaseMetrics({ counter, counterBy, gauge, histogram }: Kinds) {
  return {
    renewals: counterBy('fencepost_lease_renewals_total', 'Renewals of leases.', { result: RENEWAL_RESULTS }),
    leasesHeld: gauge(
      'fencepost_leases_held',
      'Leases held now: of requests in the proxy, and of reservations that this sidecar gave out.',
      {},
    ),
    /** Those that this process renews; callers renew their own reservations. */
    leasesKept: new Tally(),
    leasesEnded: counterBy(
      'fencepost_leases_ended_total',
      'Leases by how they ended: expired and lost ended before their work did; abandoned kept until their time is over.',
      { ended: LEASE_ENDS },
    ),
    holdDuration: histogram(
      'fencepost_lease_hold_duration_seconds',
      'How long leases were held.',
      BUCKETS_S.hold,
    ),
    remainingAtRelease: histogram(
      'fencepost_lease_remaining_at_release_seconds',
      'What was left of a lease when its work was done: near zero it is too short.',
      BUCKETS_S.remaining,
    ),
    expiredBeforeCompletion: counter(
      'fencepost_leases_expired_before_completion_total',
      'Leases that ran out or were taken while their work was under way.',
    ),
    releases: counterBy('fencepost_lock_releases_total', 'Leases given back.', { result: RELEASE_RESULTS }),
  }
}

function outcomeMetrics({ counter, counterBy }: Kinds) {
  return {
    lookups: counterBy(
      'fencepost_idempotency_lookups_total',
      'Identities looked up: hit where the nodes knew of an earlier request.',
      { result: ['hit', 'miss'] },
    ),
    damaged: counter(
      'fencepost_outcomes_damaged_total',
      'Stored outcomes that failed their digest and were not used.',
    ),
  }
}

function readinessMetrics({ counterBy, gauge }: Kinds) {
  return {
    ready: gauge('fencepost_ready', '1 while `/readyz` answers 200.', {}),
    readinessFailing: gauge(
      'fencepost_readiness_failing',
      '1 for each reason why the sidecar is not ready, or would not be where it is only reported.',
      { reason: READINESS_REASONS },
    ),
    readinessP95: gauge(
      'fencepost_readiness_acquire_p95_seconds',
      'The p95 that readiness judges by; NaN where there are too few claims.',
      {},
      Number.NaN,
    ),
    synthetic: counterBy('fencepost_synthetic_probe_total', 'Synthetic claims by what they showed.', {
      result: PROBE_RESULTS,
    }),
  }
}
