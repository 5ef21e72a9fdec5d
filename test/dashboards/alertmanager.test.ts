// The example for the Alertmanager: amtool accepts it, and every alert of the rules goes where its severity says.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { requireProgram } from '../support/programs.ts'
import { RULES } from './promtool.ts'

const root = join(import.meta.dirname, '../..')
const CONFIG = join(root, 'deploy/k8s/monitoring/alertmanager.yaml')

function amtool(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(requireProgram('amtool'), args, { encoding: 'utf8' })
  // It warns that it reads the file and asks no server, whether or not one is named.
  const said = stderr.replace(/^Warning: --config\.file flag overrides the --alertmanager\.url\.\n/, '')
  expect([status, said]).toEqual([0, ''])
  return stdout.trim()
}

const receiverOf = (labels: Readonly<Record<string, string>>) =>
  amtool(
    'config',
    'routes',
    'test',
    `--config.file=${CONFIG}`,
    ...Object.entries(labels).map(([name, value]) => `${name}=${value}`),
  )

type Rule = { readonly alert?: string; readonly labels?: Readonly<Record<string, string>> }
const alerts = RULES.flatMap(
  (file) => (parse(readFileSync(file, 'utf8')) as { groups: { rules: Rule[] }[] }).groups,
)
  .flatMap(({ rules }) => rules)
  .flatMap(({ alert, labels }) => (alert === undefined || labels === undefined ? [] : [{ alert, labels }]))

test('amtool accepts it', () => {
  expect(amtool('check-config', CONFIG)).toContain('SUCCESS')
})

test.each([
  ['critical', undefined, 'page-pagerduty'],
  ['critical', 'opsgenie', 'page-opsgenie'],
  ['warning', undefined, 'ticket-pagerduty'],
  ['warning', 'opsgenie', 'ticket-opsgenie'],
  ['info', undefined, 'dashboards-only'],
  ['info', 'opsgenie', 'dashboards-only'],
])('%s, with the pager %s: %s', (severity, pager, receiver) => {
  const labels = { alertname: 'FencepostAny', severity, ...(pager === undefined ? {} : { pager }) }
  expect(receiverOf(labels)).toBe(receiver)
})

test('an alert of another program goes elsewhere', () => {
  expect(receiverOf({ alertname: 'NodeDown', severity: 'critical' })).toBe('elsewhere')
})

test('no alert of the rules is left to the receiver of others', () => {
  for (const { alert, labels } of alerts)
    expect(receiverOf({ alertname: alert, ...labels }), alert).not.toBe('elsewhere')
})

type Receiver = Readonly<Record<string, unknown>> & { readonly name: string }
type Sent = { readonly details?: Readonly<Record<string, string>> }

test('whoever is told of an alert gets the addresses of its runbook and of the page for operators', () => {
  const { receivers } = parse(readFileSync(CONFIG, 'utf8')) as { receivers: readonly Receiver[] }
  const sent = receivers.flatMap(({ name, ...ways }) =>
    Object.values(ways).flatMap((all) =>
      (all as readonly Sent[]).map(({ details }) => [name, details] as const),
    ),
  )
  expect(sent.map(([name]) => name)).toEqual([
    'page-pagerduty',
    'ticket-pagerduty',
    'page-opsgenie',
    'ticket-opsgenie',
  ])
  for (const [name, details] of sent)
    expect([name, details]).toEqual([
      name,
      expect.objectContaining({
        runbook: '{{ .CommonAnnotations.runbook_url }}',
        operators: '{{ .CommonAnnotations.operator_url }}',
      }),
    ])
})

type Inhibit = { readonly source_matchers: readonly string[]; readonly target_matchers: readonly string[] }

// Bug: full nodes paged three people, for the claims that got no majority, too, and said that claims were slow. All of them fired for one cause.
test.each(['FencepostQuorumLost', 'FencepostRedisNodesFull'])(
  '%s silences what follows from claims that are refused',
  (source) => {
    const { inhibit_rules: rules } = parse(readFileSync(CONFIG, 'utf8')) as { inhibit_rules: Inhibit[] }
    const [targets = ''] =
      rules.find(({ source_matchers: [of] }) => of?.includes(source))?.target_matchers ?? []
    for (const follows of [
      'FencepostQuorumSuccessRateLow',
      'FencepostQuorumErrorBudgetBurn',
      'FencepostClientErrors',
      'FencepostLockAcquireLatencyHigh',
    ])
      expect(targets).toContain(follows)
  },
)

test('every alert that it names is one of the rules', () => {
  const known = new Set(alerts.map(({ alert }) => alert))
  const named = [...readFileSync(CONFIG, 'utf8').matchAll(/\bFencepost[A-Z]\w+/g)].map(([name]) => name)
  expect(named.filter((name) => !known.has(name))).toEqual([])
  expect(named.length).toBeGreaterThan(5)
})
