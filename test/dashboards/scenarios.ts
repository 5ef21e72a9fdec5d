/** Series while all is well, and in every incident that has an alert, in the notation of promtool. */

/** What a series does, in phases: a counter goes up by so much a minute, a gauge stands at a value. */
type Phases = readonly (readonly [minutes: number, value: number])[]
export type Scenario = Readonly<Record<string, Phases>>

export const HEALTHY_MINUTES = 120
/** More than the longest a scenario lasts: series without another phase go on as they were. */
const REST_MINUTES = 700

const POD = 'namespace="shop",job="fencepost",instance="pod-1:9090",pod="pod-1"'
export const at = (name: string, labels = '') =>
  `${name}{${[POD, labels].filter((part) => part !== '').join(',')}}`
const isCounter = (series: string) => /_(total|bucket|count|sum)\{/.test(series)

const MEMORY_OF = [0, 1, 2].map((node) =>
  at('fencepost_redis_node_memory_used_ratio', `node="redis-${node}"`),
) as [string, string, string]
const PROBE_OK =
  'fencepost_probe_findings_total{namespace="shop",job="fencepost-probe",entrypoint="proxy",expected="one",result="ok"}'
const GATEWAY_REFUSALS = at('fencepost_decisions_total', 'outcome="quorum_unavailable",entrypoint="gateway"')

/** Three sidecars of one application, of which one is configured otherwise in an incident. */
export const identityOf = (
  pod: string,
  { env = 'production', rules = '0a1b2c3d4e5f', nodes = '11' }: Readonly<Record<string, string>> = {},
) =>
  `fencepost_identity_info{namespace="shop",job="fencepost",instance="${pod}:9090",pod="${pod}",env="${env}",rules="${rules}",node_cluster="${nodes}"}`

/** What every sidecar shows without requests. */
export const NO_TRAFFIC: Scenario = {
  [at('up')]: [[1, 1]],
  [at('fencepost_build_info')]: [[1, 1]],
  [identityOf('pod-1')]: [[1, 1]],
  [at('fencepost_quorum_required')]: [[1, 3]],
  [at('fencepost_quorum_reachable_nodes')]: [[1, 5]],
  [at('fencepost_quorum_attempts_total', 'result="success"')]: [[1, 0]],
  [at('fencepost_quorum_attempts_total', 'result="failure"')]: [[1, 0]],
  [at('fencepost_lock_acquire_duration_seconds_bucket', 'outcome="acquired",le="0.025"')]: [[1, 0]],
  [at('fencepost_lock_acquire_duration_seconds_bucket', 'outcome="acquired",le="0.05"')]: [[1, 0]],
  [at('fencepost_lock_acquire_duration_seconds_bucket', 'outcome="acquired",le="0.075"')]: [[1, 0]],
  [at('fencepost_lock_acquire_duration_seconds_bucket', 'outcome="acquired",le="+Inf"')]: [[1, 0]],
  [at('fencepost_lease_renewals_total', 'result="success"')]: [[1, 0]],
  [at('fencepost_lease_renewals_total', 'result="lost"')]: [[1, 0]],
  [at('fencepost_idempotency_lookups_total', 'result="hit"')]: [[1, 0]],
  [at('fencepost_idempotency_lookups_total', 'result="miss"')]: [[1, 0]],
  [at('fencepost_decisions_total', 'outcome="acquired"')]: [[1, 0]],
  [at('fencepost_decisions_total', 'outcome="duplicate_completed"')]: [[1, 0]],
  [at('fencepost_decisions_total', 'outcome="duplicate_in_flight"')]: [[1, 0]],
  [at('fencepost_decisions_total', 'outcome="overloaded"')]: [[1, 0]],
  [GATEWAY_REFUSALS]: [[1, 0]],
  [at('fencepost_http_requests_total', 'route="other",code="5xx"')]: [[1, 0]],
  [at('fencepost_decisions_total', 'outcome="fingerprint_mismatch"')]: [[1, 0]],
  [at('fencepost_decisions_total', 'outcome="fail_open"')]: [[1, 0]],
  [at('fencepost_leases_expired_before_completion_total')]: [[1, 0]],
  [at('fencepost_outcomes_damaged_total')]: [[1, 0]],
  [at('fencepost_connections_refused_total')]: [[1, 0]],
  [at('fencepost_log_lines_dropped_total', 'reason="sampled"')]: [[1, 0]],
  [at('fencepost_log_lines_dropped_total', 'reason="not_taken"')]: [[1, 0]],
  [at('fencepost_write_backs_total', 'result="conflict"')]: [[1, 0]],
  [at('fencepost_redis_nodes_quarantined')]: [[1, 0]],
  [at('fencepost_redis_clock_steps_total')]: [[1, 0]],
  [at('fencepost_circuit_breaker_open')]: [[1, 0]],
  [at('fencepost_sweeper_elected')]: [[1, 1]],
  [at('fencepost_orphans_open')]: [[1, 0]],
  [at('fencepost_write_back_pending')]: [[1, 0]],
  [at('fencepost_readiness_failing', 'reason="latency"')]: [[1, 0]],
  [at('fencepost_synthetic_probe_total', 'result="ok"')]: [[1, 0]],
  [at('fencepost_synthetic_probe_total', 'result="false_negative"')]: [[1, 0]],
  [PROBE_OK]: [[1, 60]],
  [at('fencepost_redis_node_up', 'node="redis-0"')]: [[1, 1]],
  [at('fencepost_redis_node_refuses_writes', 'node="redis-0"')]: [[1, 0]],
  [at('fencepost_redis_clock_skew_seconds', 'node="redis-0"')]: [[1, 0.001]],
  [at('fencepost_redis_node_start_timestamp_seconds', 'node="redis-0"')]: [[1, -86_400]],
  [MEMORY_OF[0]]: [[1, 0.4]],
  [MEMORY_OF[1]]: [[1, 0.4]],
  [MEMORY_OF[2]]: [[1, 0.4]],
  [at('nodejs_eventloop_lag_p99_seconds')]: [[1, 0.011]],
  [at('fencepost_saga_database_up')]: [[1, 1]],
  [at('fencepost_outbox_oldest_age_seconds')]: [[1, 0]],
  [at('fencepost_dead_letters_open', 'source="outbox"')]: [[1, 0]],
  [at('fencepost_dead_letters_open', 'source="inbox"')]: [[1, 0]],
  [at('fencepost_sagas_open', 'state="running"')]: [[1, 0]],
  [at('fencepost_sagas_open', 'state="parked"')]: [[1, 0]],
  [at('fencepost_outbox_dead_rows')]: [[1, 0]],
  [at('fencepost_saga_database_oldest_transaction_seconds')]: [[1, 0]],
  // promtool begins at 1970. The second is one of a day, as a service mesh has them: to it seven days are no measure.
  [at('fencepost_certificate_not_before_timestamp_seconds', 'setting="tls.certFile"')]: [[1, -60 * 86_400]],
  [at('fencepost_certificate_not_after_timestamp_seconds', 'setting="tls.certFile"')]: [[1, 30 * 86_400]],
  [at('fencepost_certificate_not_before_timestamp_seconds', 'setting="redis.certFile"')]: [[1, 0]],
  [at('fencepost_certificate_not_after_timestamp_seconds', 'setting="redis.certFile"')]: [[1, 86_400]],
  [at('fencepost_redis_node_evicted_keys', 'node="redis-0"')]: [[1, 0]],
  [at('fencepost_redis_node_memory_fragmentation_ratio', 'node="redis-0"')]: [[1, 9]],
  [at('fencepost_redis_node_memory_used_bytes', 'node="redis-0"')]: [[1, 1_000_000]],
  [at('fencepost_node_collector_elected')]: [[1, 1]],
}

const ACQUIRED = 'outcome="acquired"'
const traffic = (decisions: Scenario): Scenario => ({
  ...NO_TRAFFIC,
  [at('fencepost_quorum_attempts_total', 'result="success"')]: [[1, 600]],
  [at('fencepost_lock_acquire_duration_seconds_bucket', `${ACQUIRED},le="0.025"`)]: [[1, 600]],
  [at('fencepost_lock_acquire_duration_seconds_bucket', `${ACQUIRED},le="0.05"`)]: [[1, 600]],
  [at('fencepost_lock_acquire_duration_seconds_bucket', `${ACQUIRED},le="0.075"`)]: [[1, 600]],
  [at('fencepost_lock_acquire_duration_seconds_bucket', `${ACQUIRED},le="+Inf"`)]: [[1, 600]],
  [at('fencepost_synthetic_probe_total', 'result="ok"')]: [[1, 20]],
  ...decisions,
})

export const USUAL = traffic({
  [at('fencepost_lease_renewals_total', 'result="success"')]: [[1, 100]],
  [at('fencepost_idempotency_lookups_total', 'result="hit"')]: [[1, 540]],
  [at('fencepost_idempotency_lookups_total', 'result="miss"')]: [[1, 60]],
  [at('fencepost_decisions_total', ACQUIRED)]: [[1, 60]],
  [at('fencepost_decisions_total', 'outcome="duplicate_completed"')]: [[1, 540]],
  [at('fencepost_log_lines_dropped_total', 'reason="sampled"')]: [[1, 100]],
})
/** Sagas run, messages wait for a moment, a report reads the database for an hour while little is deleted. */
export const USUAL_SAGAS: Scenario = {
  ...USUAL,
  [at('fencepost_outbox_oldest_age_seconds')]: [[1, 5]],
  [at('fencepost_sagas_open', 'state="running"')]: [[1, 400]],
  [at('fencepost_outbox_dead_rows')]: [[1, 2_000]],
  [at('fencepost_saga_database_oldest_transaction_seconds')]: [[1, 3_600]],
}
export const ONLY_DUPLICATES = traffic({
  [at('fencepost_idempotency_lookups_total', 'result="hit"')]: [[1, 600]],
  [at('fencepost_decisions_total', 'outcome="duplicate_completed"')]: [[1, 600]],
})

/** Bad for `minutes` after two healthy hours, then as before. */
export type Incident = {
  readonly alert: string
  readonly bad: Readonly<Record<string, number>>
  readonly minutes: number
  /** After how many bad minutes the alert is checked. */
  readonly firesAfter: number
  /** So long after the end it has resolved. */
  readonly resolvedAfter: number
  /** What else rightly fires then. */
  readonly also?: readonly string[]
  readonly absent?: boolean
}

const incident = (
  alert: string,
  bad: Incident['bad'],
  [minutes, firesAfter, resolvedAfter]: readonly [minutes: number, firesAfter: number, resolvedAfter: number],
  more: Pick<Incident, 'also' | 'absent'> = {},
): Incident => ({ alert, bad, minutes, firesAfter, resolvedAfter, ...more })

export const BURN = 'FencepostQuorumErrorBudgetBurn'
export const INCIDENTS: readonly Incident[] = [
  incident(
    'FencepostLockAcquireLatencyHigh',
    {
      [at('fencepost_lock_acquire_duration_seconds_bucket', `${ACQUIRED},le="0.025"`)]: 0,
      [at('fencepost_lock_acquire_duration_seconds_bucket', `${ACQUIRED},le="0.05"`)]: 300,
    },
    [30, 18, 10],
  ),
  // 0.3 %: below the objective, above none of the burn rates but the slowest.
  incident(
    'FencepostQuorumSuccessRateLow',
    { [at('fencepost_quorum_attempts_total', 'result="failure"')]: 1.8 },
    [30, 12, 10],
  ),
  incident(BURN, { [at('fencepost_quorum_attempts_total', 'result="failure"')]: 30 }, [60, 40, 600], {
    also: ['FencepostQuorumSuccessRateLow'],
  }),
  incident(
    'FencepostLeaseRenewalFailures',
    { [at('fencepost_lease_renewals_total', 'result="lost"')]: 20 },
    [20, 10, 10],
  ),
  incident(
    'FencepostMissRatioSpike',
    {
      [at('fencepost_idempotency_lookups_total', 'result="hit"')]: 60,
      [at('fencepost_idempotency_lookups_total', 'result="miss"')]: 540,
    },
    [40, 30, 10],
  ),
  // 6 % of what the proxy answers.
  incident(
    'FencepostClientErrors',
    { [at('fencepost_http_requests_total', 'route="other",code="5xx"')]: 36 },
    [20, 12, 10],
  ),
  // 6 % of all checks are refused.
  incident('FencepostClientErrors', { [GATEWAY_REFUSALS]: 40 }, [20, 12, 10]),
  incident(
    'FencepostShedding',
    { [at('fencepost_decisions_total', 'outcome="overloaded"')]: 12 },
    [20, 12, 10],
  ),
  // Bug: clients whose connections were closed at the limit were in a metric and in the log, and in no alert.
  incident('FencepostConnectionsRefused', { [at('fencepost_connections_refused_total')]: 3 }, [20, 9, 10]),
  incident(
    'FencepostLockContention',
    { [at('fencepost_decisions_total', 'outcome="duplicate_in_flight"')]: 200 },
    [30, 18, 10],
  ),
  incident(
    'FencepostRedisNodesFull',
    Object.fromEntries(MEMORY_OF.map((series) => [series, 0.92])),
    [15, 8, 40],
    { also: ['FencepostRedisNodeMemoryHigh', 'FencepostOutageBefore'] },
  ),
  incident('FencepostQuorumLost', { [at('fencepost_quorum_reachable_nodes')]: 2 }, [5, 3, 40], {
    also: ['FencepostOutageBefore'],
  }),
  incident('FencepostQuorumNoSpare', { [at('fencepost_quorum_reachable_nodes')]: 3 }, [10, 8, 2]),
  incident('FencepostRedisNodeDown', { [at('fencepost_redis_node_up', 'node="redis-0"')]: 0 }, [10, 8, 2]),
  // Bug: a node whose disk was full kept its vote, so nothing fired, also where no other node was left to lose.
  incident(
    'FencepostRedisNodeDown',
    { [at('fencepost_redis_node_refuses_writes', 'node="redis-0"')]: 1 },
    [10, 8, 2],
  ),
  // Started in the first bad minute; seconds since the beginning of the scenario.
  incident(
    'FencepostRedisNodeRestarted',
    { [at('fencepost_redis_node_start_timestamp_seconds', 'node="redis-0"')]: HEALTHY_MINUTES * 60 },
    [10, 1, 1],
  ),
  incident(
    'FencepostRedisEvictions',
    { [at('fencepost_redis_node_evicted_keys', 'node="redis-0"')]: 3 },
    [10, 2, 15],
  ),
  incident(
    'FencepostRedisFragmentation',
    {
      [at('fencepost_redis_node_memory_fragmentation_ratio', 'node="redis-0"')]: 1.8,
      [at('fencepost_redis_node_memory_used_bytes', 'node="redis-0"')]: 500_000_000,
    },
    [40, 32, 2],
  ),
  incident('FencepostRedisNodeMemoryHigh', { [MEMORY_OF[0]]: 0.85 }, [10, 7, 2]),
  incident(
    'FencepostClockSkewHigh',
    { [at('fencepost_redis_clock_skew_seconds', 'node="redis-0"')]: -0.06 },
    [10, 8, 2],
  ),
  incident(
    'FencepostLeaseExpiredBeforeCompletion',
    { [at('fencepost_leases_expired_before_completion_total')]: 1 },
    [5, 3, 15],
  ),
  incident(
    'FencepostFailOpenActive',
    { [at('fencepost_decisions_total', 'outcome="fail_open"')]: 5 },
    [10, 5, 10],
  ),
  incident(
    'FencepostFingerprintMismatch',
    { [at('fencepost_decisions_total', 'outcome="fingerprint_mismatch"')]: 100 },
    [60, 40, 20],
  ),
  incident(
    'FencepostReadinessGateMass',
    { [at('fencepost_readiness_failing', 'reason="latency"')]: 1 },
    [6, 4, 2],
  ),
  incident('FencepostEventLoopLag', { [at('nodejs_eventloop_lag_p99_seconds')]: 0.2 }, [15, 12, 2]),
  incident(
    'FencepostSyntheticProbeFailing',
    { [at('fencepost_synthetic_probe_total', 'result="false_negative"')]: 1 },
    [5, 3, 15],
  ),
  incident('FencepostProbeStalled', { [PROBE_OK]: 0 }, [20, 15, 3]),
  incident('FencepostOutcomeDamaged', { [at('fencepost_outcomes_damaged_total')]: 1 }, [5, 3, 15]),
  incident(
    'FencepostWriteBackConflict',
    { [at('fencepost_write_backs_total', 'result="conflict"')]: 1 },
    [5, 3, 15],
  ),
  incident('FencepostSagaDatabaseDown', { [at('fencepost_saga_database_up')]: 0 }, [6, 4, 2]),
  incident('FencepostOutboxStalled', { [at('fencepost_outbox_oldest_age_seconds')]: 90 }, [6, 4, 2]),
  incident(
    'FencepostDeadLettersOpen',
    { [at('fencepost_dead_letters_open', 'source="inbox"')]: 3 },
    [10, 8, 2],
  ),
  incident('FencepostSagaParked', { [at('fencepost_sagas_open', 'state="parked"')]: 1 }, [10, 8, 2]),
  incident(
    'FencepostOutboxBloat',
    {
      [at('fencepost_outbox_dead_rows')]: 50_000,
      [at('fencepost_saga_database_oldest_transaction_seconds')]: 900,
    },
    [20, 14, 2],
  ),
  incident('FencepostRedisNodeQuarantined', { [at('fencepost_redis_nodes_quarantined')]: 1 }, [25, 18, 2]),
  incident('FencepostClockStepped', { [at('fencepost_redis_clock_steps_total')]: 1 }, [5, 3, 15]),
  incident('FencepostCircuitBreakerOpen', { [at('fencepost_circuit_breaker_open')]: 1 }, [6, 4, 2]),
  incident('FencepostSweeperMissing', { [at('fencepost_sweeper_elected')]: 0 }, [20, 14, 2]),
  incident('FencepostWriteBackBacklog', { [at('fencepost_write_back_pending')]: 12 }, [20, 14, 2]),
  incident('FencepostOrphansOpen', { [at('fencepost_orphans_open')]: 2 }, [25, 18, 2]),
  incident(
    'FencepostCertificateEnds',
    { [at('fencepost_certificate_not_after_timestamp_seconds', 'setting="tls.certFile"')]: 6 * 86_400 },
    [25, 18, 2],
  ),
  // Bug: what the log lost was counted together with what is left out of it on purpose, and no alert could tell them apart.
  incident(
    'FencepostLogLinesLost',
    {
      [at('fencepost_log_lines_dropped_total', 'reason="sampled"')]: 6_000,
      [at('fencepost_log_lines_dropped_total', 'reason="not_taken"')]: 3,
    },
    [5, 3, 15],
  ),
  incident('FencepostTargetDown', { [at('up')]: 0 }, [15, 8, 2]),
  incident('FencepostTargetsMissing', {}, [30, 20, 2], { absent: true }),
]

/** It follows others: {@link INCIDENTS} that it fires with. */
export const AFTERWARDS = 'FencepostOutageBefore'

/** It compares sidecars of one application. */
export const BETWEEN_PODS = 'FencepostSidecarsDisagree'

/** It compares days, so it is played in hours. */
export const OVER_DAYS = 'FencepostRedisNodesFillingUp'

/** The alerts that page, and that promtool plays quickly; `rules.long.test.ts` plays the others. */
const SLICE: readonly string[] = [
  'FencepostQuorumLost',
  'FencepostQuorumSuccessRateLow',
  'FencepostLeaseRenewalFailures',
  'FencepostOutcomeDamaged',
  'FencepostRedisNodeDown',
  'FencepostLogLinesLost',
]

export const [inSlice, others] = [
  INCIDENTS.filter(({ alert }) => SLICE.includes(alert)),
  INCIDENTS.filter(({ alert }) => !SLICE.includes(alert)),
]

/** There is one leader of all sidecars that share nodes, and it is in one namespace. */
export const SWEEPER_ELSEWHERE: Scenario = {
  ...USUAL,
  [at('fencepost_sweeper_leading')]: [[1, 0]],
}

const PROBE = 'namespace="shop",job="fencepost-probe",instance="pod-9:9090",pod="pod-9"'
/** The sidecar of a probe: of seven requests four are duplicates of one under way, and one has the key of another. */
export const SYNTHETIC: Scenario = {
  ...USUAL,
  [`fencepost_decisions_total{${PROBE},outcome="acquired"}`]: [[1, 60]],
  [`fencepost_decisions_total{${PROBE},outcome="duplicate_in_flight"}`]: [[1, 240]],
  [`fencepost_decisions_total{${PROBE},outcome="duplicate_completed"}`]: [[1, 60]],
  [`fencepost_decisions_total{${PROBE},outcome="fingerprint_mismatch"}`]: [[1, 60]],
}

const OTHER_POD = 'namespace="shop",job="fencepost",instance="pod-2:9090"'
/** Somebody else's server, watched by redis_exporter, which evicts and is fragmented. */
const STRANGER = 'namespace="caches",job="redis_exporter",instance="redis://cache:6379"'
export const UNRELATED_REDIS: Scenario = {
  ...USUAL,
  [`redis_evicted_keys_total{${STRANGER}}`]: [[1, 40]],
  [`redis_mem_fragmentation_ratio{${STRANGER}}`]: [[1, 2.2]],
  [`redis_mem_fragmentation_bytes{${STRANGER}}`]: [[1, 900_000_000]],
}

/** Nineteen of twenty requests are always new. */
export const MOSTLY_NEW: Scenario = {
  ...USUAL,
  [at('fencepost_idempotency_lookups_total', 'result="hit"')]: [[1, 30]],
  [at('fencepost_idempotency_lookups_total', 'result="miss"')]: [[1, 570]],
}

export const TWO_CLUSTERS: Scenario = {
  ...USUAL,
  [`fencepost_quorum_required{${OTHER_POD}}`]: [[1, 2]],
  [`fencepost_quorum_reachable_nodes{${OTHER_POD}}`]: [[1, 3]],
}

/** The notation of promtool: a counter goes on from where it was, a gauge jumps. */
function values(series: string, phases: Phases): string {
  let from = 0
  return phases
    .map(([minutes, value]) => {
      if (!isCounter(series)) return `${value}x${minutes - 1}`
      const text = `${from}+${value}x${minutes - 1}`
      from += value * minutes
      return text
    })
    .join(' ')
}

export function seriesOf(
  usual: Scenario,
  { bad, minutes, absent = false }: Pick<Incident, 'bad' | 'minutes' | 'absent'>,
) {
  return Object.entries(usual).map(([series, phases]) => {
    const healthy = phases[0]?.[1] ?? 0
    const then = bad[series] ?? healthy
    const text = absent
      ? [
          values(series, [[HEALTHY_MINUTES, healthy]]),
          `stale _x${minutes - 1}`,
          values(series, [[REST_MINUTES, healthy]]),
        ].join(' ')
      : values(series, [
          [HEALTHY_MINUTES, healthy],
          [minutes, then],
          [REST_MINUTES, healthy],
        ])
    return { series, values: text }
  })
}
