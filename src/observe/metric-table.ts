/**
 * The metrics of the sidecar: names, help, labels, in the order of a scrape.
 *
 * Every label has a closed set of values, from this file or the configuration, and every series exists from the start
 * at zero: a rate over a counter that appears with its first error misses that error. No request can add a series. A
 * pod with five nodes has at most 328 series, because the number of pods multiplies them: a label that costs more than
 * it tells is left out (docs/reference/telemetry.md says which and why). `counting.ts` decides what is counted when.
 * Only what the elected sidecar shows of the nodes' servers comes and goes. Certificates have series from the first scrape on, where
 * there are any.
 */

import { type Decision, type Entrypoint, WOULD } from '../core/decision.ts'
import type { EntriesOf, LeaseEnd, WriteBackEnd } from '../core/events.ts'
import { OBSERVED_AGES_S } from '../core/health/observations.ts'
import type { ReadinessReason } from '../core/health/readiness.ts'
import { leaseSizing } from './lease-sizing.ts'
import { type Kinds, type MakeGauge, Tally } from './tallies.ts'

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
      'Nodes that forgot and have no vote before they have rejoined.',
    ),
    clusterReplaced: gauge(
      'fencepost_cluster_replaced',
      '1 where nodes were founded anew beside this sidecar, which accepts no other cluster than its own.',
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
    ),
    writtenBack: counterBy(
      'fencepost_write_backs_total',
      'Outcomes of the time without a quorum, written to it afterwards.',
      { result: WRITE_BACK_ENDS },
    ),
    writeBackPending: gauge(
      'fencepost_write_back_pending',
      'Outcomes of the time without a quorum that are yet to be written to it.',
    ),
    sweeping: gauge(
      'fencepost_sweeper_leading',
      '1 where this sidecar is elected to look for orphans; NaN where the nodes are embedded, and nobody is.',
    ),
    sweeperElected: gauge('fencepost_sweeper_elected', '1 where some sidecar is known to be elected.'),
    untaken: counterBy(
      'fencepost_untaken_entries_total',
      'Entries that no majority of the nodes took: dead letters, which each sweep offers again; the audit log; who waits for a record.',
      { of: ENTRIES_OF },
    ),
    orphansOpen: gauge(
      'fencepost_orphans_open',
      'Expired claims without an outcome that the last round of this sidecar found; NaN where it is not elected.',
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
    ready: gauge('fencepost_ready', '1 while `/readyz` answers 200.'),
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

const BUCKETS_S = {
  /** Contain 0.05 (the latency alert) and 0.15 (the readiness gate) exactly, so that neither is interpolated. */
  acquire: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 5],
  /** Coarser: most of a request's time is the application's. */
  request: [0.005, 0.05, 0.15, 0.5, 5],
  /** Contains the default deadline of a node, 0.08, between its last two. */
  node: [0.001, 0.005, 0.025, 0.05, 0.1],
  hold: [0.05, 0.5, 1, 5, 60],
  remaining: [0, 0.5, 2.5, 5],
}

const CODE_CLASSES = ['2xx', '3xx', '4xx', '5xx'] as const

function requestMetrics(
  { counter, counterBy, counterByTwo, gauge, histogram }: Kinds,
  route: readonly string[],
) {
  return {
    requests: counterByTwo(
      'fencepost_http_requests_total',
      'Requests answered by the proxy.',
      { route },
      { code: CODE_CLASSES },
    ),
    requestDuration: histogram(
      'fencepost_http_request_duration_seconds',
      'From the head of a request to the last byte of its answer, the application included.',
      BUCKETS_S.request,
    ),
    nearMisses: counterBy(
      'fencepost_near_misses_total',
      'Pairs of requests that were executed within a minute and were equal but for some headers or cookies.',
      { route },
    ),
    requestsInFlight: gauge(
      'fencepost_http_requests_in_flight',
      'Requests under way in the proxy and through Envoy.',
    ),
    bodyMemory: gauge(
      'fencepost_body_memory_used_bytes',
      'Bytes of bodies, of requests and answers, that are in memory now.',
    ),
    bodyMemoryLimit: gauge(
      'fencepost_body_memory_limit_bytes',
      'What these may be together; requests may fill three quarters of it.',
    ),
    bodyMemoryFull: counterBy(
      'fencepost_body_memory_full_total',
      'Requests that were refused, and answers that were passed on without being kept, because the memory for bodies was full.',
      { of: ['request', 'answer'] },
    ),
    connectionsRefused: counter(
      'fencepost_connections_refused_total',
      'Connections of clients that were closed at once, because their listener had as many as `limits.connections` allows.',
    ),
    logLinesDropped: counterBy(
      'fencepost_log_lines_dropped_total',
      'Lines that are not in the log: of decisions that went well, sampled away under load; and any that standard output did not take.',
      { reason: ['sampled', 'not_taken'] },
    ),
  }
}

/** Of routes that only observe: there are series where there is such a route. */
function observedMetrics({ counterByTwo, histogram }: Kinds, route: readonly string[]) {
  return {
    total: counterByTwo(
      'fencepost_observed_total',
      'Requests of routes in mode observe, by what protecting them would have done.',
      { route },
      { would: WOULD },
    ),
    age: histogram(
      'fencepost_observed_age_seconds',
      'Age of the recorded outcome that would have answered such a request.',
      OBSERVED_AGES_S,
    ),
  }
}

function certificateGauges(gauge: MakeGauge) {
  const ofSetting = (name: string, help: string) =>
    gauge<'setting'>(name, `${help}, by the setting that names its file.`, { setting: [] })
  return {
    notBefore: ofSetting(
      'fencepost_certificate_not_before_timestamp_seconds',
      'From when the certificate in force is valid',
    ),
    notAfter: ofSetting(
      'fencepost_certificate_not_after_timestamp_seconds',
      'Until when the certificate in force is valid',
    ),
  }
}

/** @property rules digits of all settings that make identities */
export type ShownIdentity = { readonly env: string; readonly rules: string }

/** Before a node has voted nobody knows their cluster. */
export const UNKNOWN = ''

/** One series, whose labels an alert compares between the sidecars of one application. */
function identityGauge(gauge: MakeGauge, { env, rules }: ShownIdentity) {
  return gauge(
    'fencepost_identity_info',
    'Constant 1, labelled with what makes two requests one here: the environment, a hash of the settings, and the cluster of the nodes.',
    { env: [env], rules: [rules], node_cluster: [UNKNOWN] },
    1,
  )
}

function nodeStatsGauges(gauge: MakeGauge) {
  const ofNode = (name: string, help: string) =>
    gauge<'node'>(name, `${help}; only of the sidecar that is elected to ask.`, { node: [] })
  return {
    elected: gauge('fencepost_node_collector_elected', '1 where this sidecar asks the nodes for the others.'),
    byNode: {
      memoryUsedBytes: ofNode('fencepost_redis_node_memory_used_bytes', 'Memory of the data of the node'),
      memoryMaxBytes: ofNode('fencepost_redis_node_memory_max_bytes', 'The `maxmemory` of the node'),
      memoryFragmentationRatio: ofNode(
        'fencepost_redis_node_memory_fragmentation_ratio',
        'Memory of the process of the node by memory of its data',
      ),
      evictedKeys: ofNode(
        'fencepost_redis_node_evicted_keys',
        'Keys that the node threw away since it was started',
      ),
      expiredKeys: ofNode(
        'fencepost_redis_node_expired_keys',
        'Keys of the node whose time was over, since it was started',
      ),
      connectedClients: ofNode('fencepost_redis_node_connected_clients', 'Connections to the node'),
      blockedClients: ofNode(
        'fencepost_redis_node_blocked_clients',
        'Connections to the node that wait in a blocking command',
      ),
      aofLastWriteOk: ofNode(
        'fencepost_redis_node_aof_last_write_ok',
        '1 where the last write of the append-only file of the node succeeded',
      ),
      slowlogLength: ofNode('fencepost_redis_node_slowlog_length', 'Entries of the slow log of the node'),
      slowCommands: ofNode(
        'fencepost_redis_node_slow_commands',
        'Commands that entered the slow log of the node since it was started',
      ),
      slowestNewSeconds: ofNode(
        'fencepost_redis_node_slowest_command_seconds',
        'The longest command that is new in the slow log of the node since the look before, 0 where none is',
      ),
    },
  }
}
