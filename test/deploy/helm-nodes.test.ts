/** The bundled nodes of the chart: their readiness, rollout and security, and the values that change these. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { type Manifest, podOf, restrictedFaults, schemaFaults } from '../support/kubernetes-objects.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const TOKEN = ['--set', 'service.tokenSecret=token']
const OPEN = ['--set', 'redis.bundled.openToAll=true']

function nodesOf(args: readonly string[]): { set: Manifest; node: Manifest; config: Manifest } {
  const manifests = charts.rendered('fencepost', [...TOKEN, ...args])
  const set = manifests.find(({ kind }) => kind === 'StatefulSet')
  const named = ({ kind, metadata }: Manifest) => kind === 'ConfigMap' && metadata.name === set.metadata.name
  return { set, node: podOf(set).containers[0], config: manifests.find(named) }
}

test('a node is ready while it votes, by the script of deploy/k8s', () => {
  const { set, node, config } = nodesOf(OPEN)
  expect(node.readinessProbe.exec.command).toEqual(['sh', '/etc/valkey/votes.sh'])
  const shipped = join(import.meta.dirname, '../../deploy/k8s/nodes/votes.sh')
  expect(config.data['votes.sh'].trimEnd()).toBe(readFileSync(shipped, 'utf8').trimEnd())
  expect(set.spec).toMatchObject({
    podManagementPolicy: 'Parallel',
    minReadySeconds: 10,
    updateStrategy: { type: 'RollingUpdate' },
  })
})

// The chart and the manifests are two ways to the same nodes.
test.each([
  ['', 'nodes', OPEN],
  [' with TLS and users', 'nodes-tls-acl', ['--values', 'fencepost/ci/bundled-tls-acl-values.yaml']],
])('nodes%s are configured as those of deploy/k8s/%s', (_, folder, args) => {
  const linesOf = (text: string) => text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  const shipped = join(import.meta.dirname, '../../deploy/k8s', folder, 'valkey.conf')
  const { config } = nodesOf(args)
  expect(linesOf(config.data['valkey.conf']).sort()).toEqual(linesOf(readFileSync(shipped, 'utf8')).sort())
})

test('with TLS and users the probe speaks TLS and logs in as the user of fencepost', () => {
  const { set, node } = nodesOf(['--values', 'fencepost/ci/bundled-tls-acl-values.yaml'])
  expect(node.readinessProbe.exec.command).toEqual([
    'sh',
    '/etc/valkey/votes.sh',
    '--tls',
    '--cacert',
    '/etc/valkey-tls/ca.crt',
    '--user',
    'fencepost',
  ])
  const login = podOf(set).volumes.find(({ name }: Manifest) => name === 'login')
  expect(login.secret).toMatchObject({
    secretName: 'fencepost-redis-password',
    items: [{ key: 'password', path: 'password' }],
  })
})

test('nodes that demand a certificate are probed with their own, and the others stay as they were', () => {
  const tls = ['--values', 'fencepost/ci/bundled-tls-acl-values.yaml']
  const of = (...values: readonly string[]) =>
    nodesOf([...tls, ...values.flatMap((value) => ['--set', value])])
  const [before, given, demanding] = [
    of(),
    of('redis.certSecret=client'),
    of('redis.certSecret=client', 'redis.bundled.demandCertificates=true'),
  ]
  expect(given.set).toEqual(before.set)
  expect(given.config).toEqual(before.config)
  const { config, node, set } = demanding
  expect(config.data['valkey.conf']).toContain('tls-auth-clients yes\n')
  expect(node.readinessProbe.exec.command.join(' ')).toContain(
    '--cacert /etc/valkey-tls/ca.crt --cert /etc/valkey-tls/tls.crt --key /etc/valkey-tls/tls.key --user',
  )
  // The nodes read their configuration when they start.
  const stated = ({ spec }: Manifest) => spec.template.metadata.annotations['checksum/config']
  expect(stated(set)).not.toBe(stated(before.set))
})

test('probes, rollout and users are values', () => {
  const { set, node } = nodesOf([
    ...OPEN,
    '--set',
    'redis.bundled.minReadySeconds=3,redis.bundled.updateStrategy.type=OnDelete',
    '--set',
    'redis.bundled.probes.readiness.periodSeconds=1,redis.bundled.probes.startup.failureThreshold=9',
    '--set',
    'redis.bundled.podSecurityContext.runAsUser=null,redis.bundled.podSecurityContext.runAsGroup=null,redis.bundled.podSecurityContext.fsGroup=null',
  ])
  expect(set.spec).toMatchObject({ minReadySeconds: 3, updateStrategy: { type: 'OnDelete' } })
  expect([node.readinessProbe.periodSeconds, node.startupProbe.failureThreshold]).toEqual([1, 9])
  const { securityContext } = podOf(set)
  expect(Object.keys(securityContext).sort()).toEqual([
    'fsGroupChangePolicy',
    'runAsNonRoot',
    'seccompProfile',
  ])
  expect(restrictedFaults(set)).toEqual([])
})

test('the policies of injection are what an API server of 1.37 takes, and there are none without the value', async () => {
  const secured = ['--values', 'fencepost/ci/bundled-tls-acl-values.yaml']
  const policies = (args: readonly string[]) =>
    charts
      .rendered('fencepost', [...secured, ...args])
      .filter(({ apiVersion, kind }) => /admissionregistration/.test(apiVersion) || kind === 'ConfigMap')
  const injecting = policies(['--set', 'injection.enabled=true'])
  expect(
    injecting
      .map(({ kind }) => kind)
      .filter((kind) => kind !== 'ConfigMap')
      .sort(),
  ).toEqual([
    'MutatingAdmissionPolicy',
    'MutatingAdmissionPolicyBinding',
    'ValidatingAdmissionPolicy',
    'ValidatingAdmissionPolicyBinding',
  ])
  expect(await schemaFaults(injecting, 'v1.37.0')).toEqual([])
  expect(policies([]).every(({ kind }) => kind === 'ConfigMap')).toBe(true)
})

/**
 * Bug: what the sidecar is given was a ConfigMap, the parameter of the policy. Where an API server doesn't find it, as after `helm uninstall` and `helm install`, it
 * refuses every pod of the cluster, with and without the annotations.
 */
test('the policies of injection look nothing up in the cluster', () => {
  const policies = charts
    .rendered('fencepost', [...TOKEN, ...OPEN, '--set', 'injection.enabled=true'])
    .filter(({ apiVersion }) => /admissionregistration/.test(apiVersion))
  for (const { spec } of policies) expect([spec.paramKind, spec.paramRef]).toEqual([undefined, undefined])
})
