/** The dashboards: overview with the objective, quorum and nodes, leases, runtime of the sidecars, and the sagas. */

import {
  type Board,
  buckets,
  NEUTRAL,
  NONE_IS_GOOD,
  type Panel,
  quantile,
  R,
  rate,
  S,
  UP,
  upFrom,
} from './board.ts'
import { sagas } from './sagas-board.ts'

const ACQUIRE = 'fencepost_lock_acquire_duration_seconds'
const FAILURES = 'namespace_job:fencepost_quorum_failures_per_attempts:ratio_rate'

const series = (panel: Omit<Panel, 'kind'>): Panel => ({ kind: 'timeseries', ...panel })

const overview: Board = {
  uid: 'fencepost-overview',
  title: 'Fencepost / Overview (SLO)',
  description: 'Whether requests are deduplicated, how fast, and how much of the error budget is left.',
  panels: [
    series({
      title: 'Decisions by outcome',
      description:
        'Requests a second, by what was decided. Acquired was carried out; duplicates were answered from the record.',
      unit: 'reqps',
      stacked: true,
      queries: [{ expr: `sum by (outcome) (${rate('fencepost_decisions_total')})`, legend: '{{outcome}}' }],
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Share of duplicates',
      description:
        'Of all decisions. A sudden rise is a retry storm; a fall to nothing may be a client that lost its keys.',
      unit: 'percentunit',
      queries: [
        {
          expr: `sum(${rate('fencepost_decisions_total', 'outcome=~"duplicate_.*"')}) / (sum(${rate('fencepost_decisions_total')}) > 0)`,
          legend: 'duplicates',
        },
      ],
      thresholds: NEUTRAL,
    }),
    {
      kind: 'stat',
      title: 'Quorum success (5m)',
      description: 'Claim rounds that a majority of nodes answered, whatever it said. Objective: 99.9 %.',
      unit: 'percentunit',
      queries: [{ expr: 'min(quorum_success_rate{job=~"$job"})', legend: 'success' }],
      thresholds: [
        { from: null, color: 'red' },
        { from: 0.999, color: 'green' },
      ],
    },
    {
      kind: 'stat',
      title: 'Error budget left (30d)',
      description:
        'What is left of the 0.1 % of claim rounds that may fail in 30 days. Below 0 the objective is missed.',
      unit: 'percentunit',
      queries: [
        {
          expr: `1 - sum(increase(fencepost_quorum_attempts_total{${S},result="failure"}[30d])) / (0.001 * (sum(increase(fencepost_quorum_attempts_total{${S}}[30d])) > 0))`,
          legend: 'left',
        },
      ],
      thresholds: [
        { from: null, color: 'red' },
        { from: 0, color: 'yellow' },
        { from: 0.5, color: 'green' },
      ],
    },
    series({
      title: 'Burn rates',
      description:
        'How many times faster than it lasts the budget is used up, over four windows. 14.4 and 6 wake somebody.',
      unit: 'short',
      queries: ['1h', '6h', '1d', '3d'].map((window) => ({
        expr: `max(${FAILURES}${window}{job=~"$job"}) / 0.001`,
        legend: window,
      })),
      thresholds: [...upFrom(1, 6), { from: 14.4, color: 'red' }],
    }),
    series({
      title: 'Claims: p50, p95, p99',
      description:
        'From asking the nodes for a claim to its answer. 50 ms alerts, 150 ms takes the pod out of service.',
      unit: 's',
      queries: [0.5, 0.95, 0.99].map((q) => ({ expr: quantile(q, ACQUIRE), legend: `p${q * 100}` })),
      thresholds: upFrom(0.05, 0.15),
    }),
    {
      kind: 'heatmap',
      title: 'Claims: distribution',
      description: 'The same as a heat map: two bands are two populations, such as a near and a far node.',
      unit: 's',
      queries: buckets(ACQUIRE),
      thresholds: upFrom(0.05, 0.15),
    },
    series({
      title: 'Fail-open and breaker',
      description:
        'Requests a second that passed unprotected, and sidecars that refuse claims because the quorum is lost.',
      unit: 'short',
      queries: [
        { expr: `sum(${rate('fencepost_decisions_total', 'outcome="fail_open"')})`, legend: 'unprotected/s' },
        { expr: `sum(fencepost_circuit_breaker_open{${S}})`, legend: 'sidecars with open breaker' },
      ],
      thresholds: NONE_IS_GOOD,
    }),
    series({
      title: 'Pods that are not ready, by reason',
      description: 'Also those that are only reported (latencyGate: report).',
      unit: 'short',
      queries: [{ expr: `sum by (reason) (fencepost_readiness_failing{${S}})`, legend: '{{reason}}' }],
      thresholds: NONE_IS_GOOD,
    }),
    {
      kind: 'alerts',
      title: 'Firing alerts',
      description: 'Alerts of dashboards/rules; each links to its runbook.',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (alertname, severity) (ALERTS{alertname=~"Fencepost.*",alertstate="firing"}) or on () vector(0)',
          legend: '{{alertname}}',
        },
      ],
      thresholds: NONE_IS_GOOD,
    },
  ],
}

const redis = (
  title: string,
  description: string,
  unit: Panel['unit'],
  exprs: readonly [string, string][],
  thresholds = NEUTRAL,
  elected = false,
): Panel =>
  series({
    title,
    description: `${description} ${elected ? 'From redis_exporter, or from the sidecar that is elected to ask (coordination.nodeCollectionInterval).' : 'From redis_exporter.'}`,
    unit,
    queries: exprs.map(([expr, legend]) => ({ expr, legend })),
    thresholds,
  })

/** Of the sidecar that is elected to collect; of all others it is NaN. */
const orCollected = (exporter: string, vital: string) =>
  `${exporter} or max by (node) (fencepost_redis_node_${vital}{${S}} >= 0)`

const quorum: Board = {
  uid: 'fencepost-quorum',
  title: 'Fencepost / Quorum & Redis nodes',
  description: 'Which nodes vote, how fast they answer, and how they are.',
  panels: [
    {
      kind: 'states',
      title: 'Votes within reach',
      description:
        'The fewest nodes that any sidecar can count on, beside how many are required. Equal: nothing to spare.',
      unit: 'short',
      queries: [
        { expr: `min(fencepost_quorum_reachable_nodes{${S}})`, legend: 'reachable' },
        { expr: `max(fencepost_quorum_required{${S}})`, legend: 'required' },
      ],
      thresholds: [
        { from: null, color: 'red' },
        { from: 3, color: 'yellow' },
        { from: 4, color: 'green' },
      ],
    },
    {
      kind: 'states',
      title: 'Nodes that vote',
      description: 'Share of sidecars that have the vote of each node.',
      unit: 'percentunit',
      queries: [{ expr: `avg by (node) (fencepost_redis_node_up{${S}})`, legend: '{{node}}' }],
      thresholds: UP,
    },
    series({
      title: 'Margin of granted claims',
      description: 'Votes beyond the majority, on average. 0 would not have survived one more failure.',
      unit: 'short',
      queries: [
        {
          expr: `sum(${rate('fencepost_quorum_margin_votes_sum')}) / (sum(${rate('fencepost_quorum_margin_votes_count')}) > 0)`,
          legend: 'margin',
        },
      ],
      thresholds: [
        { from: null, color: 'red' },
        { from: 1, color: 'yellow' },
        { from: 1.8, color: 'green' },
      ],
    }),
    series({
      title: 'p95 by node',
      description:
        'One command, from asking to its answer. A node that stands out is its machine or its path.',
      unit: 's',
      queries: [
        { expr: quantile(0.95, 'fencepost_redis_node_request_duration_seconds', 'node'), legend: '{{node}}' },
      ],
      thresholds: upFrom(0.025, 0.08),
    }),
    series({
      title: 'No answer, by node',
      description: 'Commands a second that timed out or found no connection.',
      unit: 'cps',
      queries: [
        {
          expr: `sum by (node, result) (${rate('fencepost_redis_node_requests_total', 'result=~"timeout|error"')})`,
          legend: '{{node}} {{result}}',
        },
      ],
      thresholds: NONE_IS_GOOD,
    }),
    series({
      title: 'Clock of each node',
      description:
        'Clock of the node minus that of the sidecar, the largest of all sidecars. Beyond 50 ms it alerts.',
      unit: 's',
      queries: [
        { expr: `max by (node) (abs(fencepost_redis_clock_skew_seconds{${S}}))`, legend: '{{node}}' },
      ],
      thresholds: upFrom(0.02, 0.05),
    }),
    series({
      title: 'Uptime of each node',
      description:
        'A fall is a restart. A node without persistence has no vote until its quarantine is over.',
      unit: 's',
      queries: [
        {
          expr: `time() - max by (node) (fencepost_redis_node_start_timestamp_seconds{${S}})`,
          legend: '{{node}}',
        },
      ],
      thresholds: [
        { from: null, color: 'red' },
        { from: 90, color: 'green' },
      ],
    }),
    redis(
      'Memory',
      'Used, and the limit beyond which writes are refused.',
      'bytes',
      [
        [orCollected(`redis_memory_used_bytes{${R}}`, 'memory_used_bytes'), '{{instance}}{{node}} used'],
        [`redis_memory_max_bytes{${R}}`, '{{instance}} max'],
      ],
      NEUTRAL,
      true,
    ),
    redis(
      'Fragmentation',
      'Memory of the process by memory of its data. Means nothing below some 100 MiB.',
      'short',
      [
        [
          orCollected(`redis_mem_fragmentation_ratio{${R}}`, 'memory_fragmentation_ratio'),
          '{{instance}}{{node}}',
        ],
      ],
      upFrom(1.5, 3),
      true,
    ),
    redis(
      'Keys evicted and expired',
      'Evicted must be none: each may be a lock.',
      'cps',
      [
        [
          `rate(redis_evicted_keys_total{${R}}[$__rate_interval]) or max by (node) (deriv(fencepost_redis_node_evicted_keys{${S}}[$__rate_interval]))`,
          '{{instance}}{{node}} evicted',
        ],
        [`rate(redis_expired_keys_total{${R}}[$__rate_interval])`, '{{instance}} expired'],
      ],
      NEUTRAL,
      true,
    ),
    redis('Clients', 'One connection a sidecar; blocked must be none.', 'short', [
      [`redis_connected_clients{${R}}`, '{{instance}} connected'],
      [`redis_blocked_clients{${R}}`, '{{instance}} blocked'],
    ]),
    redis(
      'Slow log',
      'Entries of the slow log.',
      'short',
      [[orCollected(`redis_slowlog_length{${R}}`, 'slowlog_length'), '{{instance}}{{node}}']],
      upFrom(1, 100),
      true,
    ),
    redis(
      'Last write of the append-only file',
      '0: the last write failed.',
      'bool',
      [[`redis_aof_last_write_status{${R}}`, '{{instance}}']],
      UP,
    ),
  ],
}

const leases: Board = {
  uid: 'fencepost-leases',
  title: 'Fencepost / Leases',
  description: 'How long requests hold their records, and whether leases last.',
  panels: [
    series({
      title: 'Leases held',
      description: 'By sidecar, now.',
      unit: 'short',
      queries: [{ expr: `sum by (instance) (fencepost_leases_held{${S}})`, legend: '{{instance}}' }],
      thresholds: NEUTRAL,
    }),
    {
      kind: 'heatmap',
      title: 'How long leases were held',
      description: 'That is how long the application works, plus recording.',
      unit: 's',
      queries: buckets('fencepost_lease_hold_duration_seconds'),
      thresholds: NEUTRAL,
    },
    {
      kind: 'heatmap',
      title: 'What was left of a lease at its end',
      description: 'Near zero leases are too short for the work: the next pause loses one.',
      unit: 's',
      queries: buckets('fencepost_lease_remaining_at_release_seconds'),
      thresholds: NEUTRAL,
    },
    series({
      title: 'How leases ended',
      description:
        'Expired and lost ended before their work was done. Abandoned: nobody knows what became of the work.',
      unit: 'cps',
      stacked: true,
      queries: [{ expr: `sum by (ended) (${rate('fencepost_leases_ended_total')})`, legend: '{{ended}}' }],
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Renewals by result',
      description: 'Two failures in a row are survived.',
      unit: 'cps',
      queries: [
        { expr: `sum by (result) (${rate('fencepost_lease_renewals_total')})`, legend: '{{result}}' },
      ],
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Failed renewals a minute',
      description: 'Above 10 it alerts.',
      unit: 'short',
      queries: [{ expr: 'sum(lease_renewal_failure_rate{job=~"$job"})', legend: 'failed/min' }],
      thresholds: upFrom(1, 10),
    }),
    series({
      title: 'Ended before their work was done',
      description: 'In ten minutes. Each may have had a second holder beside it.',
      unit: 'short',
      queries: [
        {
          expr: `sum(increase(fencepost_leases_expired_before_completion_total{${S}}[10m]))`,
          legend: 'leases',
        },
      ],
      thresholds: NONE_IS_GOOD,
    }),
    series({
      title: 'Releases by result',
      description: 'not_owner: somebody else had it by then.',
      unit: 'cps',
      queries: [{ expr: `sum by (result) (${rate('fencepost_lock_releases_total')})`, legend: '{{result}}' }],
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Retries a claim',
      description: 'Rounds after the first. Contention on few keys, or nodes that do not answer.',
      unit: 'short',
      queries: [
        {
          expr: `sum(${rate('fencepost_lock_acquire_retries_total')}) / (sum(${rate(`${ACQUIRE}_count`)}) > 0)`,
          legend: 'retries',
        },
      ],
      thresholds: upFrom(0.5, 2),
    }),
    series({
      title: 'Waiting for a repair or a decision',
      description:
        'Orphans: claims that lapsed without an outcome. Write-backs: outcomes of the time without a quorum. Quarantine: nodes without a vote. None is good. A sweeper is elected: 1, or nobody looks for orphans; it may be in another namespace on the same nodes, and is then not among these.',
      unit: 'short',
      queries: [
        { expr: `max(fencepost_orphans_open{${S}})`, legend: 'orphans' },
        { expr: `sum(fencepost_write_back_pending{${S}})`, legend: 'write-backs' },
        { expr: `max(fencepost_redis_nodes_quarantined{${S}})`, legend: 'nodes in quarantine' },
        { expr: `max(fencepost_sweeper_elected{${S}})`, legend: 'a sweeper is elected' },
        { expr: `sum(fencepost_sweeper_leading{${S}})`, legend: 'sweepers among these' },
      ],
      thresholds: NEUTRAL,
    }),
  ],
}

const runtime: Board = {
  uid: 'fencepost-runtime',
  title: 'Fencepost / Sidecar runtime',
  description: 'Requests of the proxy by route, and the process itself.',
  panels: [
    series({
      title: 'Requests by route',
      description: 'Answered by the proxy. Beyond the first three routes they are `other`.',
      unit: 'reqps',
      stacked: true,
      queries: [{ expr: `sum by (route) (${rate('fencepost_http_requests_total')})`, legend: '{{route}}' }],
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Errors by route',
      description: 'Share of answers with 5xx, the application’s own included.',
      unit: 'percentunit',
      queries: [
        {
          expr: `sum by (route) (${rate('fencepost_http_requests_total', 'code="5xx"')}) / (sum by (route) (${rate('fencepost_http_requests_total')}) > 0)`,
          legend: '{{route}}',
        },
      ],
      thresholds: upFrom(0.001, 0.01),
    }),
    series({
      title: 'Duration of requests',
      description: 'Head to last byte, the application included.',
      unit: 's',
      queries: [0.5, 0.95, 0.99].map((q) => ({
        expr: quantile(q, 'fencepost_http_request_duration_seconds'),
        legend: `p${q * 100}`,
      })),
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Requests in flight',
      description: 'The limit is `limits.inFlight`, 1024 by default; beyond it the answer is 503.',
      unit: 'short',
      queries: [{ expr: `fencepost_http_requests_in_flight{${S}}`, legend: '{{instance}}' }],
      thresholds: upFrom(768, 1024),
    }),
    series({
      title: 'Event loop lag, p99',
      description: 'How late a turn comes. Above 100 ms renewals are in danger.',
      unit: 's',
      queries: [{ expr: `nodejs_eventloop_lag_p99_seconds{${S}}`, legend: '{{instance}}' }],
      thresholds: upFrom(0.05, 0.1),
    }),
    series({
      title: 'Garbage collection',
      description: 'Share of the time, by kind.',
      unit: 'percentunit',
      queries: [{ expr: `sum by (kind) (${rate('nodejs_gc_duration_seconds_sum')})`, legend: '{{kind}}' }],
      thresholds: upFrom(0.05, 0.2),
    }),
    series({
      title: 'CPU',
      description: 'Cores used by each sidecar.',
      unit: 'short',
      queries: [{ expr: rate('process_cpu_seconds_total'), legend: '{{instance}}' }],
      thresholds: upFrom(0.7, 0.95),
    }),
    series({
      title: 'Memory',
      description: 'Resident memory, and the heap that is used.',
      unit: 'bytes',
      queries: [
        { expr: `process_resident_memory_bytes{${S}}`, legend: '{{instance}} resident' },
        { expr: `nodejs_heap_size_used_bytes{${S}}`, legend: '{{instance}} heap' },
      ],
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Restarts',
      description: 'Starts of each sidecar in an hour.',
      unit: 'short',
      queries: [{ expr: `changes(process_start_time_seconds{${S}}[1h])`, legend: '{{instance}}' }],
      thresholds: upFrom(1, 3),
    }),
    series({
      title: 'Series by sidecar',
      description: 'At most 300 for five nodes.',
      unit: 'short',
      queries: [{ expr: `scrape_samples_scraped{${S}}`, legend: '{{instance}}' }],
      thresholds: upFrom(300, 400),
    }),
  ],
}

export const BOARDS: readonly Board[] = [overview, quorum, leases, runtime, sagas]
