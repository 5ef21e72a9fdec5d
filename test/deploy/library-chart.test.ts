/** What the parts of the library chart refuse, each with its sentence, and what they do with what they take. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { type Manifest, podOf, restrictedFaults, schemaFaults } from '../support/kubernetes-objects.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

function given(members: Readonly<Record<string, unknown>>): readonly string[] {
  const file = join(charts.folder, 'given.json')
  writeFileSync(file, JSON.stringify({ fencepost: members }))
  return ['--values', file]
}

test.each<[what: string, members: Readonly<Record<string, unknown>>, told: string]>([
  ['an unknown member', { redisPasswordSecrt: 'a' }, 'redisPasswordSecrt is given, which no part takes: '],
  ['variables of its own', { env: [] }, 'env is given, which no part takes: '],
  ['no resources', { resources: null }, 'resources has no requests.memory or no limits.memory'],
  [
    'no limit of memory',
    { resources: { limits: null } },
    'resources has no requests.memory or no limits.memory',
  ],
  ['a limit of the CPU', { resources: { limits: { cpu: '1' } } }, 'resources.limits.cpu is 1: leave it out.'],
  ['no image', { image: { repository: null } }, 'image.repository is empty'],
  ['no tag', { image: { tag: null } }, 'image has neither tag nor digest'],
  ['a tag that is a number', { image: { tag: 1.1 } }, 'image.tag is the number 1.1: put it in quotes'],
  ['the tag latest', { image: { tag: 'latest' } }, 'image.tag is latest: '],
  ['half a digest', { image: { digest: 'sha256:ab' } }, 'image.digest is sha256:ab: '],
  ['a misspelt member of the image', { image: { tagg: 'a' } }, 'image.tagg is given: '],
  ['no nodes', { nodes: null }, 'nodes is empty: name 3, 5, 7 or 9 independent nodes'],
  ['four nodes', { nodes: ['a', 'b', 'c', 'd'].map((host) => `redis://${host}:1`) }, 'nodes has 4 entries: '],
  [
    'a password in a URL',
    { nodes: ['redis://u:p@a:1', 'redis://b:1', 'redis://c:1'] },
    'nodes has an entry that is no redis:// or rediss:// URL without user and password',
  ],
  ['a group of two nodes', { nodes: { north: ['redis://a:1', 'redis://b:1'] } }, 'nodes.north has 2 entries'],
  [
    'nodes twice',
    { nodesFrom: { configMap: 'nodes', key: 'nodes' } },
    'nodes and nodesFrom are both given: leave one of them out.',
  ],
  [
    'nodes from two places',
    { nodes: null, nodesFrom: { configMap: 'a', secret: 'b', key: 'c' } },
    'nodesFrom has configMap,key,secret: it takes configMap or secret, and key.',
  ],
  [
    'another address to listen on',
    { listenHost: '::' },
    'listenHost is "::": it takes 0.0.0.0, or [::] where',
  ],
  ['a user that is no text', { redisUsername: 7 }, 'redisUsername is 7: it takes text.'],
  [
    'a setting that a member gives',
    { settings: { FENCEPOST_UPSTREAM: 'http://127.0.0.1:1' } },
    'settings.FENCEPOST_UPSTREAM is given, and the part sets it already, by upstream: leave it out.',
  ],
  [
    'a setting that the pod gives',
    { settings: { FENCEPOST_INSTANCE: 'a' } },
    'settings.FENCEPOST_INSTANCE is given, and the part sets it already, by the name of the pod',
  ],
  [
    'a file that a member gives',
    { apiTokenSecret: 'a', secretFiles: { FENCEPOST_API_TOKEN_FILE: { secret: 'a', key: 'b' } } },
    'secretFiles.FENCEPOST_API_TOKEN_FILE is given, and the part sets it already, by apiTokenSecret',
  ],
  [
    'a file that no setting names',
    { secretFiles: { FENCEPOST_LEASE: { secret: 'a', key: 'b' } } },
    'secretFiles.FENCEPOST_LEASE is given, and fencepost has no setting of this name that names a file.',
  ],
  [
    'a file without its key',
    { secretFiles: { FENCEPOST_TLS_KEY_FILE: { secret: 'a' } } },
    'secretFiles.FENCEPOST_TLS_KEY_FILE is {"secret":"a"}: it takes secret and key.',
  ],
  [
    'an operator listener without tokens',
    { operator: { tlsSecret: 'a' } },
    'operator.tokensSecret is empty: ',
  ],
  [
    'an unknown member of the operator listener',
    { operator: { tokensSecret: 'a', port: 1 } },
    'operator.port is given: the members are tokensSecret and tlsSecret.',
  ],
  ['an operator listener that is no map', { operator: 'a' }, 'operator is "a": it takes tokensSecret'],
  [
    'a name that is no text',
    { operator: { tokensSecret: 7 } },
    'operator.tokensSecret is 7: it takes the name',
  ],
  [
    'an operator listener on embedded nodes',
    { nodes: ['embedded'], operator: { tokensSecret: 'a' } },
    'operator is given with embedded nodes, which keep no audit log',
  ],
  [
    'a setting that the operator listener gives',
    { operator: { tokensSecret: 'a' }, settings: { FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:1' } },
    'settings.FENCEPOST_OPERATOR_LISTEN is given, and the part sets it already, by operator: leave it out.',
  ],
  [
    'a certificate beside that of the operator listener',
    {
      operator: { tokensSecret: 'a', tlsSecret: 'b' },
      secretFiles: { FENCEPOST_TLS_CERT_FILE: { secret: 'c', key: 'd' } },
    },
    'secretFiles.FENCEPOST_TLS_CERT_FILE is given, and the part sets it already, by operator.tlsSecret: leave it out.',
  ],
  [
    'a wrong setting',
    { settings: { FENCEPOST_LEASE: 'banana' } },
    'settings.FENCEPOST_LEASE is "banana": accepted is a duration with its unit, such as 500ms, 30s, 5m or 24h, from 100ms to 1h.',
  ],
])('%s is refused', (_, members, told) => {
  expect(charts.refusal('example', given(members))).toContain(told)
})

test('nodes stand in a ConfigMap or a Secret of somebody else', async () => {
  for (const [kind, ref] of [
    ['configMap', 'configMapKeyRef'],
    ['secret', 'secretKeyRef'],
  ] as const) {
    const manifests = charts.rendered(
      'example',
      given({ nodes: null, nodesFrom: { [kind]: 'nodes', key: 'all' } }),
    )
    const [sidecar] = podOf(manifests[0]).initContainers
    const variable = sidecar.env.find(({ name }: Manifest) => name === 'FENCEPOST_REDIS_NODES')
    expect(variable).toEqual({
      name: 'FENCEPOST_REDIS_NODES',
      valueFrom: { [ref]: { name: 'nodes', key: 'all' } },
    })
    expect(await schemaFaults(manifests, 'v1.37.0')).toEqual([])
  }
})

test('no variable of the sidecar is given twice, whatever members there are', () => {
  const [manifest] = charts.rendered(
    'example',
    given({
      redisUsername: 'a',
      redisPasswordSecret: 'b',
      redisCaSecret: 'c',
      redisCertSecret: 'j',
      apiTokenSecret: 'd',
      configMap: 'e',
      operator: { tokensSecret: 'f', tlsSecret: 'g' },
      settings: { FENCEPOST_LEASE: '60s', OTEL_SERVICE_NAME: 'payments' },
      secretFiles: { FENCEPOST_TLS_CLIENT_CA_FILE: { secret: 'h', key: 'i' } },
    }),
  )
  const names = podOf(manifest).initContainers[0].env.map(({ name }: Manifest) => name)
  expect(names).toEqual([...new Set(names)])
})

test('the security context and the times of the probes are members; on OpenShift no user is named', () => {
  const { securityContext } = podOf(charts.rendered('example', [])[0]).initContainers[0]
  const { runAsUser: _, runAsGroup: __, ...anyUser } = securityContext
  const [manifest] = charts.rendered(
    'example',
    given({ securityContext: anyUser, probes: { startup: { failureThreshold: 60 } } }),
  )
  const [sidecar] = podOf(manifest).initContainers
  expect(sidecar.securityContext).toEqual(anyUser)
  expect(sidecar.startupProbe).toMatchObject({ failureThreshold: 60, periodSeconds: 1 })
  expect(restrictedFaults(manifest)).toEqual([])
})

test('when its pod is to end the sidecar sends its clients to another one, while the application still works', () => {
  const [sidecar] = podOf(charts.rendered('example', [])[0]).initContainers
  expect(sidecar.lifecycle).toEqual({
    preStop: { exec: { command: ['/nodejs/bin/node', '--eval', "process.kill(1, 'SIGUSR2')"] } },
  })
})

test('the example waits for its endpoints before it ends, and is asked for its health through fencepost', () => {
  const pod = podOf(charts.rendered('example', [])[0])
  const [application] = pod.containers
  expect(application.lifecycle).toEqual({ preStop: { sleep: { seconds: 5 } } })
  const [sidecar] = pod.initContainers
  const { port } = application.readinessProbe.httpGet
  expect(sidecar.ports).toContainEqual({ name: 'fencepost', containerPort: port })
})

test.each([
  ['alone, where it has no certificate', {}, '127.0.0.1:8084', false],
  ['and beyond it, where it has one', { tlsSecret: 'certificate' }, '0.0.0.0:8084', true],
])('the operator listener opens in the pod %s', async (_, tls, listen, isPort) => {
  const manifests = charts.rendered('example', given({ operator: { tokensSecret: 'people', ...tls } }))
  const pod = podOf(manifests[0])
  const [sidecar] = pod.initContainers
  const settings = Object.fromEntries(sidecar.env.map(({ name, value }: Manifest) => [name, value]))
  const path = '/etc/fencepost/operator/tokens'
  expect(settings).toMatchObject({ FENCEPOST_OPERATOR_LISTEN: listen, FENCEPOST_OPERATOR_TOKENS_FILE: path })
  expect(settings.FENCEPOST_TLS_LISTENERS).toBe(isPort ? 'operator' : undefined)
  expect(sidecar.ports.some(({ name }: Manifest) => name === 'fp-operator')).toBe(isPort)
  const secrets = pod.volumes.map(({ secret }: Manifest) => secret?.secretName)
  expect(secrets).toContain('people')
  expect(secrets.includes('certificate')).toBe(isPort)
  expect(await schemaFaults(manifests, 'v1.37.0')).toEqual([])
})

/** The listeners that are reached from beyond the pod, by where each listens. */
function listensIn(container: Manifest): Record<string, string> {
  const entries = container.env
    .filter(({ name, value }: Manifest) => name.endsWith('_LISTEN') && !['off', undefined].includes(value))
    .map(({ name, value }: Manifest) => [name, value])
  return Object.fromEntries(entries)
}

/**
 * Bug: every listener was on 0.0.0.0, and the charts refused another address. In a cluster whose pods have IPv6 addresses the kubelet asks
 * one of these: no startup probe was ever answered.
 */
test('where pods have IPv6 addresses the sidecar, the service and the probe listen on them', async () => {
  const operator = { tokensSecret: 'people', tlsSecret: 'certificate' }
  const [example] = charts.rendered('example', given({ listenHost: '[::]', operator }))
  expect(listensIn(podOf(example).initContainers[0])).toEqual({
    FENCEPOST_ADMIN_LISTEN: '[::]:9090',
    FENCEPOST_PROXY_LISTEN: '[::]:8080',
    FENCEPOST_OPERATOR_LISTEN: '[::]:8084',
  })
  const values =
    'listenHost=[::],service.tokenSecret=token,redis.bundled.openToAll=true,probe.enabled=true,injection.enabled=true'
  const manifests = charts.rendered('fencepost', ['--set', values])
  const podNamed = (name: string) =>
    podOf(manifests.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === name))
  expect(listensIn(podNamed('rel').containers[0])).toEqual({
    FENCEPOST_ADMIN_LISTEN: '[::]:9090',
    FENCEPOST_API_LISTEN: '[::]:8081',
    FENCEPOST_GATEWAY_LISTEN: '[::]:8082',
    FENCEPOST_GATEWAY_GRPC_LISTEN: '[::]:8083',
  })
  const probe = podNamed('rel-probe')
  expect(listensIn(probe.initContainers[0])).toMatchObject({
    FENCEPOST_ADMIN_LISTEN: '[::]:9090',
    FENCEPOST_PROXY_LISTEN: '127.0.0.1:8080',
  })
  expect(probe.containers[0].args).toContain('--prometheus=[::]:9464')
  const policy = manifests.find(({ kind }) => kind === 'MutatingAdmissionPolicy')
  expect(policy.spec.variables).toContainEqual({ name: 'listenHost', expression: '"[::]"' })
  expect(await schemaFaults(manifests, 'v1.37.0')).toEqual([])
})
