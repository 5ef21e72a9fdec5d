/** Names and versions that are valid, and that a label or YAML would take for something else. */
import { rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX, fetchProgram } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { schemaFaults } from '../support/kubernetes-objects.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)
beforeAll(() => fetchProgram('kubernetesSchemas'), FETCH_MS_MAX)

const OPEN = 'service.tokenSecret=token,redis.bundled.openToAll=true'

/**
 * Bug: what packs a chart may put the commit behind its version, as Flux does (`reconcileStrategy: Revision`): 0.1.0+4a5b6c7d8e9f. A label takes no `+`, and an API
 * server refused every object.
 */
test('a version with the commit behind it is a label', () => {
  const version = `0.1.0+${'4a5b6c7d8e9f.'.repeat(4)}1`
  const { stdout } = charts.helm('package', 'fencepost', '--version', version, '--app-version', version)
  const packed = basename(stdout.trim())
  for (const { kind, metadata } of charts.rendered(packed, ['--set', `${OPEN},dashboards.enabled=true`]))
    for (const [label, value] of Object.entries(metadata.labels as Record<string, string>))
      expect([kind, label, value]).toEqual([
        kind,
        label,
        expect.stringMatching(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/),
      ])
  rmSync(join(charts.folder, packed))
})

/** Every name of somebody else's object that the chart takes, called after a number. */
const NUMBERED = {
  image: { pullSecrets: ['1'] },
  service: { tokenSecret: '2' },
  redis: {
    username: '3',
    passwordSecret: '4',
    caSecret: '5',
    certSecret: '20',
    bundled: { tlsSecret: '6', usersSecret: '7', storageClass: '8' },
  },
  operator: {
    enabled: true,
    tokensSecret: '9',
    tlsSecret: '10',
    fromNamespace: '11',
    ingress: { enabled: true, className: '12', host: '13', tlsSecret: '14' },
  },
  secretFiles: { FENCEPOST_KEY_RING_FILE: { secret: '15', key: '16' } },
  injection: { enabled: true },
  probe: { enabled: true, tenant: '17' },
  networkPolicy: { monitoringNamespace: '18' },
  podMonitor: { enabled: true },
  priorityClassName: '19',
}
const ELSEWHERE = {
  service: { tokenSecret: '2' },
  redis: { mode: 'external', nodesFrom: { configMap: '3', key: '4' } },
}

// Bug: names of digits, such as a commit or a customer's number, became numbers, and an API server refused the object.
test.each<[what: string, values: object]>([
  ['of Secrets and namespaces', NUMBERED],
  ['of a ConfigMap with the nodes', ELSEWHERE],
])('names %s may be all digits', async (_, values) => {
  const file = join(charts.folder, 'numbered.json')
  writeFileSync(file, JSON.stringify(values))
  const manifests = charts.rendered('fencepost', ['--namespace', '1234567', '--values', file])
  expect(await schemaFaults(manifests, 'v1.37.0')).toEqual([])
  rmSync(file)
})

/** Without a service and nodes of its own a release may have any name that Helm takes. */
const MONITORING = [
  '--set',
  'service.enabled=false,redis.mode=external,podMonitor.enabled=true,prometheusRule.enabled=true',
  '--set',
  'redis.nodes={redis://a:6379,redis://b:6379,redis://c:6379}',
]

// Bug: the name of the release stood without quotes, so that names and labels were true, null or 1000, and an API server refused every object.
test.each([
  ['fencepost', 'on', ['--set', `${OPEN},probe.enabled=true,podMonitor.enabled=true`]],
  ['fencepost', 'null', ['--set', `${OPEN},service.autoscaling.enabled=true`]],
  ['fencepost', '1e3', MONITORING],
  ['example', 'no', []],
  ['example', '1e3', []],
])('the chart %s may be released as %s', async (chart, name, args) => {
  const { status, stdout } = charts.helm('template', name, chart, '--kube-version', '1.37.0', ...args)
  expect(status).toBe(0)
  // Helm and kubectl read YAML 1.1.
  const manifests = parseAllDocuments(stdout, { version: '1.1' }).map((document) => document.toJS())
  const ours = manifests.filter((manifest) => manifest !== null)
  expect(await schemaFaults(ours, 'v1.37.0')).toEqual([])
  const text = JSON.stringify(
    ours.map(({ metadata, spec }) => [metadata, spec?.selector, spec?.template?.metadata]),
  )
  expect(text).not.toMatch(/"(name|app\.kubernetes\.io\/\w+)":[^"{]/)
})

// Bug: an annotation of the nodes' pods was named after the Secret, and such a name has at most 63 characters.
test('a Secret of the nodes may have a long name', () => {
  const name = `payments-${'x'.repeat(200)}`
  const set = `redis.bundled.usersSecret=${name},redis.username=a,redis.passwordSecret=b`
  const manifests = charts.rendered('fencepost', ['--set', `service.tokenSecret=token,${set}`])
  const { annotations } = manifests.find(({ kind }) => kind === 'StatefulSet').spec.template.metadata
  for (const key of Object.keys(annotations)) expect(key).toMatch(/^([a-z.-]+\/)?[A-Za-z0-9._-]{1,63}$/)
})
