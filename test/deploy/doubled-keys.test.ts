/** Labels and annotations that a user gives beside those of the chart: no mapping has a key twice, and nothing of the chart is replaced unseen. */
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const OPEN = ['--set', 'service.tokenSecret=token,redis.bundled.openToAll=true']

/**
 * Bug: the key stood there twice. Helm 3 takes the last one; what passes the manifests through Kustomize, as Flux does, refuses them:
 * `mapping key "team" already defined`.
 */
test.each([
  ['podMonitor', 'PodMonitor'],
  ['prometheusRule', 'PrometheusRule'],
  ['dashboards', 'ConfigMap'],
])('a label of all objects may also be one of %s, whose value it then has', (value, kind) => {
  const labels = `commonLabels.team=all,${value}.enabled=true,${value}.labels.team=monitoring`
  const manifests = charts.rendered('fencepost', [...OPEN, '--set', labels])
  const teams = (of: string) =>
    manifests.filter((one) => one.kind === of).map((one) => one.metadata.labels.team)
  expect(teams(kind)).toContain('monitoring')
  expect(teams('StatefulSet')).toEqual(['all'])
})

// Bug: with one of these the pods stayed as they were when what they are given had changed, and with the label the guard of a release's nodes did not know them.
test.each([
  ['podAnnotations', 'checksum/config'],
  ['podAnnotations', 'fencepost.dev/given'],
  ['redis.bundled.podAnnotations', 'checksum/config'],
  ['redis.bundled.podAnnotations', 'checksum/secrets'],
  ['commonLabels', 'helm.sh/chart'],
])('%s may not have %s, which the chart sets', (value, key) => {
  const told = charts.refusal('fencepost', [...OPEN, '--set', `${value}.${key.replaceAll('.', '\\.')}=mine`])
  expect(told).toContain(`at '/${value.replaceAll('.', '/')}`)
  expect(told).toContain(key.replace('/', '~1'))
})
