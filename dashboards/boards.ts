/** The dashboards: overview with the objective, quorum and nodes, leases, runtime of the sidecars, and the sagas. */

import {
  type Board,
  BY_JOB,
  buckets,
  J,
  JOB,
  NEUTRAL,
  NONE_IS_GOOD,
  quantile,
  rate,
  S,
  SIDECAR,
  series,
  upFrom,
} from './board.ts'
import { quorum } from './quorum-board.ts'
import { sagas } from './sagas-board.ts'

const ACQUIRE = 'fencepost_lock_acquire_duration_seconds'
const FAILURES = 'namespace_job:fencepost_quorum_failures_per_attempts:ratio_rate'

const overview: Board = {
  uid: 'fencepost-overview',
  title: 'Fencepost / Overview (SLO)',
  description: 'Whether requests are deduplicated, how fast, and how much of the error budget is left.',
  panels: [
    series({
      title: 'Errors to clients, by application',
      description:
        'Share of the requests that were answered with 5xx, the application’s own errors among them. Above 5 % it pages.',
      unit: 'percentunit',
      queries: [
        { expr: `namespace_job:fencepost_client_errors_per_requests:ratio_rate5m{${J}}`, legend: JOB },
      ],
      thresholds: upFrom(0.01, 0.05),
    }),
    series({
      title: 'Errors to clients, by cause',
      description:
        'A second. Refused without a quorum, refused at a limit, and all answers with 5xx of the proxy: what these have more is the application’s.',
      unit: 'reqps',
      queries: [
        {
          expr: `sum(${rate('fencepost_decisions_total', 'outcome="quorum_unavailable"')})`,
          legend: 'no quorum',
        },
        { expr: `sum(${rate('fencepost_decisions_total', 'outcome="overloaded"')})`, legend: 'at a limit' },
        {
          expr: `sum(${rate('fencepost_http_requests_total', 'code="5xx"')})`,
          legend: 'all 5xx of the proxy',
        },
      ],
      thresholds: NONE_IS_GOOD,
    }),
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
      queries: [{ expr: `min by (${BY_JOB}) (quorum_success_rate{${J}})`, legend: JOB }],
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
      title: 'Burn rates of the error budget',
      description:
        'The budget: 0.1 % of the claim rounds of 30 days may get no answer of a majority. The burn rate says how many times faster than that it is used up: 1 lasts 30 days, 14.4 lasts two. Over four windows; 14.4 over an hour and 6 over six hours wake a person.',
      unit: 'short',
      queries: ['1h', '6h', '1d', '3d'].map((window) => ({
        expr: `max(${FAILURES}${window}{${J}}) / 0.001`,
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
    series({
      title: 'Synthetic requests by what they proved',
      description:
        'Of `fencepost probe`, by entry point. Anything but ok is a duplicate that was executed, a request that was not, or no answer.',
      unit: 'cps',
      queries: [
        {
          expr: `sum by (entrypoint, result) (${rate('fencepost_probe_findings_total')})`,
          legend: '{{entrypoint}} {{result}}',
        },
      ],
      thresholds: NEUTRAL,
    }),
    {
      kind: 'alerts',
      title: 'Firing alerts',
      description:
        'Alerts of dashboards/rules, a row each; what to do is in the section of docs/operations/runbooks.md with its name. A single row with 0: none fires.',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (alertname, severity) (ALERTS{alertname=~"Fencepost.*",alertstate="firing",cluster=~"$cluster",namespace=~"$namespace|"}) or on () vector(0)',
          legend: '{{alertname}}',
        },
      ],
      thresholds: NONE_IS_GOOD,
    },
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
      queries: [{ expr: `sum by (pod, instance) (fencepost_leases_held{${S}})`, legend: SIDECAR }],
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
      title: 'Leases and what they should be, by route',
      description:
        'The lease of the route, the shortest that suits the p99 of the application, and that p99. A lease below the suggested one lets a stalled holder lose its record.',
      unit: 's',
      queries: [
        { expr: `max by (route) (fencepost_lease_configured_seconds{${S}})`, legend: '{{route}}: lease' },
        { expr: `max by (route) (fencepost_lease_suggested_seconds{${S}})`, legend: '{{route}}: suggested' },
        { expr: `max by (route) (fencepost_application_p99_seconds{${S}})`, legend: '{{route}}: p99' },
      ],
      thresholds: NEUTRAL,
    }),
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
      queries: [{ expr: `sum(lease_renewal_failure_rate{${J}})`, legend: 'failed/min' }],
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
      title: 'Conflicts',
      description:
        'Of the requests that claimed a record, the share that met another one at work on it and got 409. Above 20 % it alerts.',
      unit: 'percentunit',
      queries: [
        {
          expr: `sum by (${BY_JOB}) (${rate('fencepost_decisions_total', 'outcome="duplicate_in_flight"')}) / (sum by (${BY_JOB}) (${rate('fencepost_decisions_total', 'outcome=~"acquired|duplicate_.*|fingerprint_mismatch"')}) > 0)`,
          legend: JOB,
        },
      ],
      thresholds: upFrom(0.1, 0.2),
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
        'Orphans: claims that expired without an outcome. Write-backs: outcomes of the time without a quorum. Quarantine: nodes without a vote. None is good. A sweeper is elected: 1, or nobody looks for orphans; it may be in another namespace on the same nodes, and is then not among these.',
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
      queries: [{ expr: `fencepost_http_requests_in_flight{${S}}`, legend: SIDECAR }],
      thresholds: upFrom(768, 1024),
    }),
    series({
      title: 'Event loop lag, p99',
      description: 'How late a turn comes. Above 100 ms renewals are in danger.',
      unit: 's',
      queries: [{ expr: `nodejs_eventloop_lag_p99_seconds{${S}}`, legend: SIDECAR }],
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
      queries: [{ expr: rate('process_cpu_seconds_total'), legend: SIDECAR }],
      thresholds: upFrom(0.7, 0.95),
    }),
    series({
      title: 'Memory',
      description: 'Resident memory, and the heap that is used.',
      unit: 'bytes',
      queries: [
        { expr: `process_resident_memory_bytes{${S}}`, legend: `${SIDECAR} resident` },
        { expr: `nodejs_heap_size_used_bytes{${S}}`, legend: `${SIDECAR} heap` },
      ],
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Restarts',
      description: 'Starts of each sidecar in an hour.',
      unit: 'short',
      queries: [{ expr: `changes(process_start_time_seconds{${S}}[1h])`, legend: SIDECAR }],
      thresholds: upFrom(1, 3),
    }),
    series({
      title: 'Series by sidecar',
      description: 'At most 310 for five nodes, and 38 more where a route observes.',
      unit: 'short',
      queries: [{ expr: `scrape_samples_scraped{${S}}`, legend: SIDECAR }],
      thresholds: upFrom(350, 400),
    }),
    series({
      title: 'Observed: what would have been',
      description:
        'Requests a second of routes in mode observe, all of them executed, by what protecting them would have done. `fencepost observe report` says it by route.',
      unit: 'reqps',
      stacked: true,
      queries: [
        {
          // Without such a route there are no series.
          expr: `sum by (would) (${rate('fencepost_observed_total')}) or vector(0)`,
          legend: '{{would}}',
        },
      ],
      thresholds: NEUTRAL,
    }),
    series({
      title: 'Near misses by route',
      description:
        'Pairs a second of requests without a key that were both executed, and equal but for some headers or cookies. `fencepost doctor` names these.',
      unit: 'reqps',
      queries: [{ expr: `sum by (route) (${rate('fencepost_near_misses_total')})`, legend: '{{route}}' }],
      thresholds: NEUTRAL,
    }),
  ],
}

export const BOARDS: readonly Board[] = [overview, quorum, leases, runtime, sagas]
