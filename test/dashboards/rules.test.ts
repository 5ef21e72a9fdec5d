// The rules: promtool accepts them, the pages that alerts name exist, and the alerts it plays fire, alone, and resolve.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { gaugesText } from '../../packages/saga/src/operations/gauges.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { createTally } from '../../src/probe/tally.ts'
import { firesAloneAndResolves, play, podsNamedIn, promtool, RULES } from './promtool.ts'
import {
  AFTERWARDS,
  at,
  BETWEEN_PODS,
  HEALTHY_MINUTES,
  INCIDENTS,
  identityOf,
  inSlice,
  NO_TRAFFIC,
  OVER_DAYS,
  seriesOf,
  UNRELATED_REDIS,
  USUAL,
} from './scenarios.ts'

const root = join(import.meta.dirname, '../..')

type Alert = {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}
type Rule = Alert | { readonly record: string; readonly expr: string }

const files = await Promise.all(RULES.map((file) => readFile(file, 'utf8')))
const rules = files.flatMap((file) =>
  (parse(file) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules),
)
const alerts = rules.filter((rule): rule is Alert => 'alert' in rule)
const names = [...new Set(alerts.map(({ alert }) => alert))]

test('promtool accepts the rules', async () => {
  expect(await promtool('check', 'rules', ...RULES)).toContain('SUCCESS')
})

describe('alerts', () => {
  test('every alert has its scenario', () => {
    expect(
      [...new Set([AFTERWARDS, BETWEEN_PODS, OVER_DAYS, ...INCIDENTS.map(({ alert }) => alert)])].sort(),
    ).toEqual([...names].sort())
  })

  test.each(inSlice)('$alert fires, alone, and resolves', firesAloneAndResolves)

  // Bug: half an hour of pages followed a lost quorum that was over, because nothing was left to silence them by.
  test('what still sees a lost quorum that is over can be silenced for as long as it does, and no longer', async () => {
    const [lost, failed] = [
      at('fencepost_quorum_reachable_nodes'),
      at('fencepost_quorum_attempts_total', 'result="failure"'),
    ] as const
    const outage = { bad: { [lost]: 2, [failed]: 600 }, minutes: 6 }
    const later = (minutes: number) => HEALTHY_MINUTES + outage.minutes + minutes
    await play(seriesOf(USUAL, outage), {
      [later(2)]: ['FencepostQuorumErrorBudgetBurn', 'FencepostQuorumSuccessRateLow', AFTERWARDS],
      [later(25)]: ['FencepostQuorumErrorBudgetBurn', AFTERWARDS],
      [later(32)]: [AFTERWARDS],
      [later(40)]: [],
    })
  })

  // Bug: a new installation told of each of its nodes that it "was started again".
  test('the first start of a node is no alert, the next one is', async () => {
    const node = at('fencepost_redis_node_start_timestamp_seconds', 'node="redis-0"')
    const [build] = Object.entries(NO_TRAFFIC).filter(([series]) => series.includes('build_info'))
    await play(
      [
        { series: build?.[0] ?? '', values: '1x60' },
        // Started with the second minute, seen with the third, and away for five minutes before it was started again.
        { series: node, values: '_x1 60x20 NaN NaN NaN NaN 1620x30' },
      ],
      { 2: [], 3: [], 10: [], 28: ['FencepostRedisNodeRestarted'], 30: [] },
    )
  })

  // Bug: one request without an answer of a majority, in a night of thirty requests an hour, paged two people.
  test('one failed request in a quiet night pages nobody', async () => {
    const [failed, succeeded] = ['failure', 'success'].map((result) =>
      at('fencepost_quorum_attempts_total', `result="${result}"`),
    ) as [string, string]
    const night = { ...NO_TRAFFIC, [succeeded]: [[1, 0.5]] } as const
    // Its rounds, until its budget was used up.
    const bad = { [failed]: 6 }
    const minutes = [1, 2, 3, 5, 10, 20, 30, 50].map((minute) => [HEALTHY_MINUTES + minute, []])
    await play(seriesOf(night, { bad, minutes: 1 }), Object.fromEntries(minutes))
  })

  // Bug: the series of a sidecar that stands still end, so nothing was left that an alert could be about. One that was removed is no target.
  test('a sidecar that stands still for hours is an alert, one that was removed is none', async () => {
    const of = (pod: string) => `namespace="shop",job="fencepost",instance="${pod}:9090",pod="${pod}"`
    const seen = '1x59 stale _x150'
    await play(
      [
        { series: `fencepost_build_info{${of('pod-1')}}`, values: '1x220' },
        { series: `up{${of('pod-1')}}`, values: '1x220' },
        { series: `fencepost_build_info{${of('stands-still')}}`, values: seen },
        { series: `up{${of('stands-still')}}`, values: '1x59 0x150' },
        { series: `fencepost_build_info{${of('removed')}}`, values: seen },
        { series: `up{${of('removed')}}`, values: seen },
        // Another program on the same port name, which never was a sidecar.
        { series: `up{namespace="shop",job="fencepost",instance="pod-1:8080"}`, values: '0x220' },
      ],
      { 62: [], 70: ['FencepostTargetDown'], 200: ['FencepostTargetDown'] },
    )
  })

  // Bug: with another FENCEPOST_ENV on one pod, or other nodes, each duplicate that came to it was executed again, and no alert but one at
  // `info` about the share of new requests could fire.
  test.each([
    ['another environment', { env: 'staging' }],
    ['other routes', { rules: 'ffffffffffff' }],
    ['other nodes', { nodes: '22' }],
  ])(
    '%s on one of three pods pages, and a pod that has not seen its nodes yet does not',
    async (_, other) => {
      const wrong = identityOf('pod-3', other)
      await play(
        [
          { series: identityOf('pod-1'), values: '1x60' },
          { series: identityOf('pod-2'), values: '1x60' },
          { series: identityOf('pod-4', { nodes: '' }), values: '1x60' },
          // Another application has its own rules.
          {
            series: identityOf('pod-5', { rules: '000000000000' }).replace('job="fencepost"', 'job="other"'),
            values: '1x60',
          },
          { series: wrong, values: '_x9 1x20 stale' },
          { series: at('fencepost_build_info'), values: '1x60' },
        ],
        { 8: [], 12: [], 20: [BETWEEN_PODS], 35: [] },
      )
      const usual = Object.fromEntries(
        [identityOf('pod-1'), identityOf('pod-2'), wrong].map((series) => [series, [[1, 1]] as const]),
      )
      const named = await podsNamedIn(
        [{ alert: BETWEEN_PODS, bad: {}, minutes: 10, firesAfter: 8, resolvedAfter: 2 }],
        usual,
      )
      expect(named.get(BETWEEN_PODS)).toBe('pod-3')
    },
  )

  test.each([
    ['usual traffic', USUAL],
    ['an unrelated Redis that evicts and is fragmented', UNRELATED_REDIS],
  ])('%s: no alert fires', async (_, scenario) => {
    await play(seriesOf(scenario, { bad: {}, minutes: 10 }), { 5: [], 30: [], 120: [] })
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
        ...(labels.severity === 'critical' ? ['pod'] : []),
        'runbook_url',
        'summary',
      ])
      expect(annotations.runbook_url).toBe(`https://fencepost.dev/runbooks#${alert.toLowerCase()}`)
      expect(annotations.dashboard_url).toMatch(/^\/d\/fencepost-(overview|quorum|leases|runtime|sagas)$/)
    },
  )

  // Bug: Prometheus reaches from its samples to the ends of a window, and an alert said that 1.019 leases ran out.
  test('what is counted is told in whole numbers', () => {
    const counts = alerts.filter(
      ({ expr, annotations }) => expr.includes('increase(') && annotations.description?.includes('$value'),
    )
    expect(counts.length).toBeGreaterThan(4)
    for (const { alert, annotations } of counts)
      expect(annotations.description, alert).toContain('{{ $value | printf "%.0f" }}')
  })

  // Bug: vmalert filled in `%!q(<nil>)` for the label `cluster` of a Prometheus of one cluster, the query failed, and no page ever fired.
  test('a query of an annotation is given a text for every label that an installation may lack', () => {
    const given = alerts.flatMap(({ annotations }) =>
      Object.values(annotations).flatMap((text) =>
        [...text.matchAll(/query \(printf `[^`]*` ([^}]*)\)/g)].map(([, labels]) => labels),
      ),
    )
    expect(given.length).toBeGreaterThan(10)
    expect(new Set(given)).toEqual(new Set(['(or $labels.cluster "") (or $labels.namespace "") $labels.job']))
  })

  test('the runbook has one section for every alert, in the same order, each with its four parts', async () => {
    const page = await readFile(join(root, 'docs/operations/runbooks.md'), 'utf8')
    const sections = page.split(/^## /m).slice(1)
    expect(sections.map((section) => section.split('\n')[0])).toEqual(names)
    for (const section of sections) {
      const parts = [...section.matchAll(/^\*\*([^*]+)\*\*/gm)].map(([, part]) => part)
      expect(parts).toEqual(['What it means.', 'How to look.', 'What to do.', 'What not to do.'])
    }
  })

  test('every metric of the rules is one of ours, or recorded', async () => {
    const { exposition } = createMetrics({
      version: '',
      nodeVersion: '',
      nodes: ['redis-0'],
      required: 1,
      routes: [],
      nodeStats: true,
    })
    const shown = `${(await exposition()).text}\n${createTally(2, ['api']).exposition()}\n${gaugesText(undefined)}`
    const exposed = [...shown.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name as string)
    const known = new Set([...exposed, ...rules.flatMap((rule) => ('record' in rule ? [rule.record] : []))])
    const used = rules.flatMap(({ expr }) =>
      // Names and what stands before a selector; not functions, labels and keywords.
      [...expr.matchAll(/\b(?:namespace_job:)?(?:fencepost|nodejs|process|redis)_[\w:]+/g)].map(
        ([name]) => name,
      ),
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
