/** Values that are not those of this version of the chart: of an earlier one (`helm upgrade --reuse-values`), or with sections left empty. */
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { type Manifest, podOf } from '../support/kubernetes-objects.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const ALL = ['--set', 'service.tokenSecret=token,redis.bundled.openToAll=true,probe.enabled=true']

function images(manifests: readonly Manifest[]): string[] {
  const containers = manifests
    .map(podOf)
    .flatMap((pod) => (pod === undefined ? [] : [...(pod.initContainers ?? []), ...pod.containers]))
  return [...new Set(containers.map(({ image }: Manifest) => image as string))].sort()
}

/**
 * Bug: the version of the image was a default of the values. `--reuse-values` keeps those of the earlier chart, so an upgrade ran the earlier image, and labels and
 * `helm list` named the later version.
 */
test('with the values of an earlier chart the image is that of the later one', () => {
  const later = ['package', 'fencepost', '--version', '0.9.0', '--app-version', '0.9.0']
  expect(charts.helm(...later).status).toBe(0)
  const reused = ['--values', 'fencepost/values.yaml', ...ALL]
  const ours = (args: readonly string[]) =>
    images(charts.rendered('fencepost-0.9.0.tgz', args)).filter((image) => !image.includes('valkey'))
  expect(ours(reused)).toEqual(['ghcr.io/fencepost/fencepost:0.9.0'])
  expect(ours([...reused, '--set', 'image.tag=0.8.7'])).toEqual(['ghcr.io/fencepost/fencepost:0.8.7'])
  const digest = `sha256:${'a'.repeat(64)}`
  expect(ours([...reused, '--set', `image.digest=${digest}`])).toEqual([
    `ghcr.io/fencepost/fencepost@${digest}`,
  ])
})

/** The values that a file sets to null where it has a section with all of its lines commented out. */
const emptied = (...paths: readonly string[]) => ['--set', paths.map((path) => `${path}=null`).join(',')]

// Bug: a section with nothing in it ended in `nil pointer evaluating interface {}` or `interface conversion`.
test.each([
  ['config', 'settings', 'secretFiles'],
  ['redis.nodes', 'redis.groups', 'redis.nodesFrom'],
  ['service.updateStrategy', 'service.probes'],
  ['podAnnotations', 'podLabels', 'podSecurityContext', 'nodeSelector', 'tolerations', 'commonLabels'],
  ['redis.bundled.affinity', 'redis.bundled.nodeSelector', 'redis.bundled.podAnnotations'],
  ['image.tag', 'image.registry', 'image.pullSecrets'],
])('an empty %s is none', (...paths) => {
  const usual = charts.rendered('fencepost', ALL)
  const without = charts.rendered('fencepost', [...ALL, ...emptied(...paths)])
  expect(without.map(({ kind, metadata }) => [kind, metadata.name])).toEqual(
    usual.map(({ kind, metadata }) => [kind, metadata.name]),
  )
})

test.each(['tls', 'listen', 'limits', 'redis'])(
  'an empty section %s of the file of settings is none',
  (section) => {
    const config = JSON.stringify({ [section]: null, logs: { level: 'warn' } })
    expect(charts.rendered('fencepost', [...ALL, '--set-json', `config=${config}`]).length).toBeGreaterThan(0)
  },
)

/**
 * Bug: `redis.bundled.readiness: null` made a node ready while its port answers, and `networkPolicy: {enabled: null}` left out the policies; other values that a
 * template needs ended in `nil pointer evaluating interface {}`, with `--reuse-values` of a chart that had no such section, too.
 */
test.each([
  ['image', 'redis', 'networkPolicy', 'dashboards'],
  ['service.autoscaling', 'redis.bundled', 'operator', 'probe', 'podMonitor', 'prometheusRule'],
  ['redis.bundled.storage', 'redis.bundled.readiness', 'redis.bundled.probes.startup', 'operator.ingress'],
  ['service.enabled', 'failureMode', 'probe.rate', 'networkPolicy.enabled', 'prometheusRule.runbookUrl'],
  // Bug: it ended in `wrong type for value; expected bool`, also by --reuse-values of a chart from before there was this value.
  ['redis.bundled.demandCertificates'],
])('without %s and others the chart is refused, and the message names them', (...paths) => {
  const told = charts.refusal('fencepost', [...ALL, ...emptied(...paths)])
  const [, named] = /: ([\w., ]+): a value that the chart needs is missing/.exec(told) ?? []
  expect(named?.split(', ').sort(), told).toEqual([...paths].sort())
})

// Bug: the refusal itself ended in `error calling len: len of nil pointer`.
test('an empty list of external nodes is refused with a sentence', () => {
  const told = charts.refusal('fencepost', [
    '--set',
    'service.tokenSecret=token,redis.mode=external,redis.nodes=null',
  ])
  expect(told).toContain('redis.nodes has 0 entries with redis.mode external: ')
})
