// The alerts, played by promtool: each fires, none does without traffic or with nothing but duplicates, each resolves.
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { createMetrics } from '../../src/observe/metrics.ts'
import { requireProgram } from '../support/programs.ts'

const root = join(import.meta.dirname, '../..')
const RULES = join(root, 'dashboards/rules/fencepost.rules.yaml')

type Alert = {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}
type Rule = Alert | { readonly record: string; readonly expr: string }

const rules = (parse(await readFile(RULES, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
)
const alerts = rules.filter((rule): rule is Alert => 'alert' in rule)
const names = [...new Set(alerts.map(({ alert }) => alert))]

/** What a series does, in phases: a counter goes up by so much a minute, a gauge stands at a value. */
type Phases = readonly (readonly [minutes: number, value: number])[]
type Scenario = Readonly<Record<string, Phases>>

const HEALTHY_MINUTES = 120
/** More than the longest a scenario lasts: series that say nothing go on as they were. */
const REST_MINUTES = 700

const POD = 'namespace="shop",job="fencepost",instance="pod-1:9090"'
const at = (name: string, labels = '') => `${name}{${[POD, labels].filter((part) => part !== '').join(',')}}`
const isCounter = (series: string) => /_(total|bucket|count|sum)\{/.test(series)

/** What every sidecar shows while nothing is asked of it. */
const NO_TRAFFIC: Scenario = {
  [at('fencepost_build_info')]: [[1, 1]],
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
  [at('fencepost_decisions_total', 'outcome="fingerprint_mismatch"')]: [[1, 0]],
  [at('fencepost_decisions_total', 'outcome="fail_open"')]: [[1, 0]],
  [at('fencepost_leases_expired_before_completion_total')]: [[1, 0]],
  [at('fencepost_outcomes_damaged_total')]: [[1, 0]],
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
  [at('fencepost_redis_node_up', 'node="redis-0"')]: [[1, 1]],
  [at('fencepost_redis_clock_skew_seconds', 'node="redis-0"')]: [[1, 0.001]],
  [at('fencepost_redis_node_start_timestamp_seconds', 'node="redis-0"')]: [[1, -86_400]],
  [at('fencepost_redis_node_memory_used_ratio', 'node="redis-0"')]: [[1, 0.4]],
  [at('nodejs_eventloop_lag_p99_seconds')]: [[1, 0.011]],
  [at('fencepost_saga_database_up')]: [[1, 1]],
  [at('fencepost_outbox_oldest_age_seconds')]: [[1, 0]],
  [at('fencepost_dead_letters_open', 'source="outbox"')]: [[1, 0]],
  [at('fencepost_dead_letters_open', 'source="inbox"')]: [[1, 0]],
  [at('fencepost_sagas_open', 'state="running"')]: [[1, 0]],
  [at('fencepost_sagas_open', 'state="parked"')]: [[1, 0]],
  [at('fencepost_outbox_dead_rows')]: [[1, 0]],
  [at('fencepost_saga_database_oldest_transaction_seconds')]: [[1, 0]],
  [at('redis_evicted_keys_total')]: [[1, 0]],
  [at('fencepost_redis_node_evicted_keys', 'node="redis-0"')]: [[1, 0]],
  [at('fencepost_redis_node_memory_fragmentation_ratio', 'node="redis-0"')]: [[1, 9]],
  [at('fencepost_redis_node_memory_used_bytes', 'node="redis-0"')]: [[1, 1_000_000]],
  [at('redis_mem_fragmentation_ratio')]: [[1, 1.1]],
  [at('redis_mem_fragmentation_bytes')]: [[1, 1_000]],
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

const USUAL = traffic({
  [at('fencepost_lease_renewals_total', 'result="success"')]: [[1, 100]],
  [at('fencepost_idempotency_lookups_total', 'result="hit"')]: [[1, 540]],
  [at('fencepost_idempotency_lookups_total', 'result="miss"')]: [[1, 60]],
  [at('fencepost_decisions_total', ACQUIRED)]: [[1, 60]],
  [at('fencepost_decisions_total', 'outcome="duplicate_completed"')]: [[1, 540]],
})
/** Sagas run, messages wait for a moment, a report reads the database for an hour while little is deleted. */
const USUAL_SAGAS: Scenario = {
  ...USUAL,
  [at('fencepost_outbox_oldest_age_seconds')]: [[1, 5]],
  [at('fencepost_sagas_open', 'state="running"')]: [[1, 400]],
  [at('fencepost_outbox_dead_rows')]: [[1, 2_000]],
  [at('fencepost_saga_database_oldest_transaction_seconds')]: [[1, 3_600]],
}
const ONLY_DUPLICATES = traffic({
  [at('fencepost_idempotency_lookups_total', 'result="hit"')]: [[1, 600]],
  [at('fencepost_decisions_total', 'outcome="duplicate_completed"')]: [[1, 600]],
})

/** Bad for `minutes` after two healthy hours, then as before. */
type Incident = {
  readonly alert: string
  readonly bad: Readonly<Record<string, number>>
  readonly minutes: number
  /** After which time of bad minutes it is asked whether the alert fires. */
  readonly firesAfter: number
  /** So long after the end it has resolved. */
  readonly resolvedAfter: number
  /** What else rightly fires then. */
  readonly also?: readonly string[]
  readonly absent?: boolean
}

const BURN = 'FencepostQuorumErrorBudgetBurn'
const INCIDENTS: readonly Incident[] = [
  {
    alert: 'FencepostLockAcquireLatencyHigh',
    bad: {
      [at('fencepost_lock_acquire_duration_seconds_bucket', `${ACQUIRED},le="0.025"`)]: 0,
      [at('fencepost_lock_acquire_duration_seconds_bucket', `${ACQUIRED},le="0.05"`)]: 300,
    },
    minutes: 30,
    firesAfter: 18,
    resolvedAfter: 10,
  },
  {
    alert: 'FencepostQuorumSuccessRateLow',
    // 0.3 %: below the objective, above none of the burn rates but the slowest.
    bad: { [at('fencepost_quorum_attempts_total', 'result="failure"')]: 1.8 },
    minutes: 30,
    firesAfter: 12,
    resolvedAfter: 10,
  },
  {
    alert: BURN,
    bad: { [at('fencepost_quorum_attempts_total', 'result="failure"')]: 30 },
    minutes: 60,
    firesAfter: 40,
    resolvedAfter: 600,
    also: ['FencepostQuorumSuccessRateLow'],
  },
  {
    alert: 'FencepostLeaseRenewalFailures',
    bad: { [at('fencepost_lease_renewals_total', 'result="lost"')]: 20 },
    minutes: 20,
    firesAfter: 10,
    resolvedAfter: 10,
  },
  {
    alert: 'FencepostMissRatioSpike',
    bad: {
      [at('fencepost_idempotency_lookups_total', 'result="hit"')]: 60,
      [at('fencepost_idempotency_lookups_total', 'result="miss"')]: 540,
    },
    minutes: 40,
    firesAfter: 30,
    resolvedAfter: 10,
  },
  {
    alert: 'FencepostQuorumLost',
    bad: { [at('fencepost_quorum_reachable_nodes')]: 2 },
    minutes: 5,
    firesAfter: 3,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostQuorumNoSpare',
    bad: { [at('fencepost_quorum_reachable_nodes')]: 3 },
    minutes: 10,
    firesAfter: 8,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostRedisNodeDown',
    bad: { [at('fencepost_redis_node_up', 'node="redis-0"')]: 0 },
    minutes: 10,
    firesAfter: 8,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostRedisNodeRestarted',
    // Started in the first bad minute; seconds since the beginning of the scenario.
    bad: { [at('fencepost_redis_node_start_timestamp_seconds', 'node="redis-0"')]: HEALTHY_MINUTES * 60 },
    minutes: 10,
    firesAfter: 1,
    resolvedAfter: 1,
  },
  {
    alert: 'FencepostRedisEvictions',
    bad: { [at('redis_evicted_keys_total')]: 3 },
    minutes: 10,
    firesAfter: 2,
    resolvedAfter: 15,
  },
  {
    alert: 'FencepostRedisFragmentation',
    bad: { [at('redis_mem_fragmentation_ratio')]: 1.8, [at('redis_mem_fragmentation_bytes')]: 300_000_000 },
    minutes: 40,
    firesAfter: 32,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostRedisEvictions',
    bad: { [at('fencepost_redis_node_evicted_keys', 'node="redis-0"')]: 3 },
    minutes: 10,
    firesAfter: 2,
    resolvedAfter: 15,
  },
  {
    alert: 'FencepostRedisFragmentation',
    bad: {
      [at('fencepost_redis_node_memory_fragmentation_ratio', 'node="redis-0"')]: 1.8,
      [at('fencepost_redis_node_memory_used_bytes', 'node="redis-0"')]: 500_000_000,
    },
    minutes: 40,
    firesAfter: 32,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostRedisNodeMemoryHigh',
    bad: { [at('fencepost_redis_node_memory_used_ratio', 'node="redis-0"')]: 0.85 },
    minutes: 10,
    firesAfter: 7,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostClockSkewHigh',
    bad: { [at('fencepost_redis_clock_skew_seconds', 'node="redis-0"')]: -0.06 },
    minutes: 10,
    firesAfter: 8,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostLeaseExpiredBeforeCompletion',
    bad: { [at('fencepost_leases_expired_before_completion_total')]: 1 },
    minutes: 5,
    firesAfter: 3,
    resolvedAfter: 15,
  },
  {
    alert: 'FencepostFailOpenActive',
    bad: { [at('fencepost_decisions_total', 'outcome="fail_open"')]: 5 },
    minutes: 10,
    firesAfter: 5,
    resolvedAfter: 10,
  },
  {
    alert: 'FencepostFingerprintMismatch',
    bad: { [at('fencepost_decisions_total', 'outcome="fingerprint_mismatch"')]: 100 },
    minutes: 60,
    firesAfter: 40,
    resolvedAfter: 20,
  },
  {
    alert: 'FencepostReadinessGateMass',
    bad: { [at('fencepost_readiness_failing', 'reason="latency"')]: 1 },
    minutes: 6,
    firesAfter: 4,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostEventLoopLag',
    bad: { [at('nodejs_eventloop_lag_p99_seconds')]: 0.2 },
    minutes: 15,
    firesAfter: 12,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostSyntheticProbeFailing',
    bad: { [at('fencepost_synthetic_probe_total', 'result="false_negative"')]: 1 },
    minutes: 5,
    firesAfter: 3,
    resolvedAfter: 15,
  },
  {
    alert: 'FencepostOutcomeDamaged',
    bad: { [at('fencepost_outcomes_damaged_total')]: 1 },
    minutes: 5,
    firesAfter: 3,
    resolvedAfter: 15,
  },
  {
    alert: 'FencepostWriteBackConflict',
    bad: { [at('fencepost_write_backs_total', 'result="conflict"')]: 1 },
    minutes: 5,
    firesAfter: 3,
    resolvedAfter: 15,
  },
  {
    alert: 'FencepostSagaDatabaseDown',
    bad: { [at('fencepost_saga_database_up')]: 0 },
    minutes: 6,
    firesAfter: 4,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostOutboxStalled',
    bad: { [at('fencepost_outbox_oldest_age_seconds')]: 90 },
    minutes: 6,
    firesAfter: 4,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostDeadLettersOpen',
    bad: { [at('fencepost_dead_letters_open', 'source="inbox"')]: 3 },
    minutes: 10,
    firesAfter: 8,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostSagaParked',
    bad: { [at('fencepost_sagas_open', 'state="parked"')]: 1 },
    minutes: 10,
    firesAfter: 8,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostOutboxBloat',
    bad: {
      [at('fencepost_outbox_dead_rows')]: 50_000,
      [at('fencepost_saga_database_oldest_transaction_seconds')]: 900,
    },
    minutes: 20,
    firesAfter: 14,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostRedisNodeQuarantined',
    bad: { [at('fencepost_redis_nodes_quarantined')]: 1 },
    minutes: 25,
    firesAfter: 18,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostClockStepped',
    bad: { [at('fencepost_redis_clock_steps_total')]: 1 },
    minutes: 5,
    firesAfter: 3,
    resolvedAfter: 15,
  },
  {
    alert: 'FencepostCircuitBreakerOpen',
    bad: { [at('fencepost_circuit_breaker_open')]: 1 },
    minutes: 6,
    firesAfter: 4,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostSweeperMissing',
    bad: { [at('fencepost_sweeper_elected')]: 0 },
    minutes: 20,
    firesAfter: 14,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostWriteBackBacklog',
    bad: { [at('fencepost_write_back_pending')]: 12 },
    minutes: 20,
    firesAfter: 14,
    resolvedAfter: 2,
  },
  {
    alert: 'FencepostOrphansOpen',
    bad: { [at('fencepost_orphans_open')]: 2 },
    minutes: 25,
    firesAfter: 18,
    resolvedAfter: 2,
  },
  { alert: 'FencepostTargetsMissing', absent: true, bad: {}, minutes: 30, firesAfter: 20, resolvedAfter: 2 },
]

/** There is one office for all sidecars that share nodes, and it is held in one namespace. */
const SWEEPER_ELSEWHERE: Scenario = {
  ...USUAL,
  [at('fencepost_sweeper_leading')]: [[1, 0]],
}

const OTHER_POD = 'namespace="shop",job="fencepost",instance="pod-2:9090"'
const TWO_CLUSTERS: Scenario = {
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

function seriesOf(
  usual: Scenario,
  { bad, minutes, absent = false }: Pick<Incident, 'bad' | 'minutes' | 'absent'>,
) {
  return Object.entries(usual).map(([series, phases]) => {
    const healthy = phases[0]?.[1] ?? 0
    const then = bad[series] ?? healthy
    const text = absent
      ? `${healthy}x${HEALTHY_MINUTES - 1} stale _x${minutes - 1} ${healthy}x${REST_MINUTES}`
      : values(series, [
          [HEALTHY_MINUTES, healthy],
          [minutes, then],
          [REST_MINUTES, healthy],
        ])
    return { series, values: text }
  })
}

/** Which alerts fire at which minute, by promtool; throws with what it says where it is otherwise. */
async function play(
  inputSeries: { series: string; values: string }[],
  firing: Readonly<Record<number, readonly string[]>>,
) {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-rules-'))
  try {
    const file = join(folder, 'alerts.test.yaml')
    const expectations = Object.entries(firing).map(([minute, expected]) => ({
      expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: `${minute}m`,
      exp_samples: [...expected].sort().map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
    }))
    const test = { interval: '1m', input_series: inputSeries, promql_expr_test: expectations }
    await writeFile(file, stringify({ rule_files: [RULES], evaluation_interval: '1m', tests: [test] }))
    const done = spawnSync(requireProgram('promtool'), ['test', 'rules', file], { encoding: 'utf8' })
    expect(done.stdout + done.stderr).toContain('SUCCESS')
    expect(done.status).toBe(0)
  } finally {
    await rm(folder, { recursive: true })
  }
}

test('promtool accepts the rules', () => {
  const checked = spawnSync(requireProgram('promtool'), ['check', 'rules', RULES], { encoding: 'utf8' })
  expect(checked.stdout).toContain('SUCCESS')
  expect(checked.status).toBe(0)
})

describe('alerts', () => {
  test('every alert has its scenario', () => {
    expect([...new Set(INCIDENTS.map(({ alert }) => alert))].sort()).toEqual([...names].sort())
  })

  test.each(INCIDENTS)('$alert fires, alone, and resolves', async (incident) => {
    const end = HEALTHY_MINUTES + incident.minutes
    const also = incident.also ?? []
    await play(seriesOf(USUAL, incident), {
      [HEALTHY_MINUTES - 1]: [],
      [HEALTHY_MINUTES + incident.firesAfter]: [incident.alert, ...also],
      [end + incident.resolvedAfter]: [],
    })
  })

  test.each([
    ['no traffic', NO_TRAFFIC],
    ['usual traffic', USUAL],
    ['nothing but duplicates', ONLY_DUPLICATES],
    ['usual sagas', USUAL_SAGAS],
    ['sidecars of a namespace whose sweeper is in another one', SWEEPER_ELSEWHERE],
    ['a cluster of three nodes beside one of five', TWO_CLUSTERS],
  ])('%s: nothing fires for hours', async (_, scenario) => {
    const quiet = Object.fromEntries([5, 30, 120, 400].map((minute) => [minute, []]))
    await play(seriesOf(scenario, { bad: {}, minutes: 10 }), quiet)
  })

  test('without a quorum, what that explains by itself is not told besides', async () => {
    const bad = {
      [at('fencepost_quorum_reachable_nodes')]: 2,
      [at('fencepost_circuit_breaker_open')]: 1,
      [at('fencepost_sweeper_elected')]: 0,
      [at('fencepost_write_back_pending')]: 12,
    }
    await play(seriesOf(USUAL, { bad, minutes: 30 }), { [HEALTHY_MINUTES + 25]: ['FencepostQuorumLost'] })
  })

  test('a slow burn is noticed by the longest window, after hours', async () => {
    const burning = (share: number, minutes: number) => ({
      bad: { [at('fencepost_quorum_attempts_total', 'result="failure"')]: 600 * share },
      minutes,
    })
    // 0.15 % is 1.5 times the budget: only the window of three days minds, once it has filled and its three hours are over.
    await play(seriesOf(USUAL, burning(0.0015, 600)), {
      [HEALTHY_MINUTES + 60]: ['FencepostQuorumSuccessRateLow'],
      [HEALTHY_MINUTES + 590]: ['FencepostQuorumSuccessRateLow', BURN],
    })
  })
})

describe('what is written about alerts', () => {
  test.each(alerts)(
    '$alert says what is so, how bad, and where to read on',
    ({ alert, labels, annotations }) => {
      expect(alert).toMatch(/^Fencepost[A-Z][A-Za-z]+$/)
      expect(['critical', 'warning', 'info']).toContain(labels.severity)
      expect(Object.keys(annotations).sort()).toEqual([
        'dashboard_url',
        'description',
        'runbook_url',
        'summary',
      ])
      expect(annotations.runbook_url).toBe(`https://fencepost.dev/runbooks#${alert.toLowerCase()}`)
      expect(annotations.dashboard_url).toMatch(/^\/d\/fencepost-(overview|quorum|leases|runtime|sagas)$/)
    },
  )

  test('the runbook has one section for every alert, in the same order, each with its four parts', async () => {
    const page = await readFile(join(root, 'docs/operations/runbooks.md'), 'utf8')
    const sections = page.split(/^## /m).slice(1)
    expect(sections.map((section) => section.split('\n')[0])).toEqual(names)
    for (const section of sections) {
      const parts = [...section.matchAll(/^\*\*([^*]+)\*\*/gm)].map(([, part]) => part)
      expect(parts).toEqual(['What it means.', 'How to look.', 'What to do.', 'What not to do.'])
    }
  })

  test('every metric of the rules is one of ours, of redis_exporter, or recorded', async () => {
    const { exposition } = createMetrics({
      version: '',
      nodeVersion: '',
      nodes: ['redis-0'],
      required: 1,
      routes: [],
      sagas: true,
      vitals: true,
    })
    const exposed = [...(await exposition()).text.matchAll(/^# TYPE (\S+)/gm)].map(
      ([, name]) => name as string,
    )
    const known = new Set([...exposed, ...rules.flatMap((rule) => ('record' in rule ? [rule.record] : []))])
    const used = rules.flatMap(({ expr }) =>
      [...expr.matchAll(/\b(?:namespace_job:)?(?:fencepost|nodejs|process)_[\w:]+/g)].map(([name]) => name),
    )
    const unknown = used.filter(
      (name) => !known.has(name) && !known.has(name.replace(/_(bucket|sum|count)$/, '')),
    )
    expect(unknown).toEqual([])
  })

  test('the names that were agreed exist', () => {
    const recorded = new Set(rules.flatMap((rule) => ('record' in rule ? [rule.record] : [])))
    expect(
      [
        'lock_acquisition_latency_ms',
        'quorum_success_rate',
        'lease_renewal_failure_rate',
        'idempotency_hit_miss_ratio',
        'redis_memory_fragmentation_ratio',
      ].filter((name) => !recorded.has(name)),
    ).toEqual([])
  })
})
