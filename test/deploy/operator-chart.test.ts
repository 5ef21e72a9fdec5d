/** The operator listener in the chart: off by default, opened with its Secret, behind an Ingress, and linked from alerts. */
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { type Manifest, podOf } from '../support/kubernetes-objects.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const set = (...values: readonly string[]) => values.flatMap((value) => ['--set', value])
const BASE = set('service.tokenSecret=token', 'redis.bundled.openToAll=true')
const ON = [...BASE, ...set('operator.enabled=true', 'operator.tokensSecret=people')]
const TLS = [...ON, ...set('operator.tlsSecret=certificate')]
const INGRESS = [
  ...TLS,
  ...set(
    'operator.ingress.enabled=true',
    'operator.ingress.host=op.example',
    'operator.ingress.tlsSecret=name',
  ),
]

const rendered = (args: readonly string[]) => charts.rendered('fencepost', args)
const of = (manifests: readonly Manifest[], kind: string) => manifests.find((one) => one.kind === kind)
const servicePorts = (manifests: readonly Manifest[]) =>
  manifests
    .find(({ kind, spec }) => kind === 'Service' && spec.ports.some(({ name }: Manifest) => name === 'api'))
    .spec.ports.map(({ name, port }: Manifest) => [name, port])

/** Where the listener can be reached, by what is given. */
test.each([
  ['nothing', () => BASE, { listens: undefined, port: false, ingress: false }],
  ['tokens', () => ON, { listens: '127.0.0.1:8084', port: false, ingress: false }],
  ['tokens and a certificate', () => TLS, { listens: '0.0.0.0:8084', port: true, ingress: false }],
  ['an Ingress, too', () => INGRESS, { listens: '0.0.0.0:8084', port: true, ingress: true }],
])('with %s', (_, args, { listens, port, ingress }) => {
  const manifests = rendered(args())
  const [container] = podOf(of(manifests, 'Deployment')).containers
  const listen = container.env.find(({ name }: Manifest) => name === 'FENCEPOST_OPERATOR_LISTEN')
  expect(listen?.value).toBe(listens)
  const ports = servicePorts(manifests)
  if (port) expect(ports).toContainEqual(['operator', 8084])
  else expect(ports.map(([name]: [string]) => name)).not.toContain('operator')
  expect(of(manifests, 'Ingress') !== undefined).toBe(ingress)
})

// Bug: the page linked to fencepost.dev, also where the alerts linked to the runbooks of the operators.
test('the page links to the runbooks that the alerts link to', () => {
  const linkedBy = (...values: readonly string[]) => {
    const [container] = podOf(of(rendered([...ON, ...set(...values)]), 'Deployment')).containers
    return container.env.find(({ name }: Manifest) => name === 'FENCEPOST_RUNBOOK_URL')?.value
  }
  const ours = 'prometheusRule.runbookUrl=https://wiki.example.com/fp'
  expect(linkedBy(ours)).toBe('https://wiki.example.com/fp')
  expect(linkedBy(ours, 'settings.FENCEPOST_RUNBOOK_URL=https://a.example')).toBe('https://a.example')
  expect(linkedBy()).toBe('https://fencepost.dev/runbooks')
})

test('the Ingress speaks TLS on both sides, to the port of operators and no other', () => {
  const ingress = of(rendered(INGRESS), 'Ingress')
  expect(ingress.spec.tls).toEqual([{ hosts: ['op.example'], secretName: 'name' }])
  const [{ host, http }] = ingress.spec.rules
  expect([host, http.paths.map(({ backend }: Manifest) => backend.service.port.name)]).toEqual([
    'op.example',
    ['operator'],
  ])
  expect(ingress.metadata.annotations).toEqual({ 'nginx.ingress.kubernetes.io/backend-protocol': 'HTTPS' })
})

test('the network policy lets only the named namespace reach operators, and everybody where none is named', () => {
  const rule = (args: readonly string[]) =>
    rendered(args)
      .filter(({ kind }) => kind === 'NetworkPolicy')
      .flatMap(({ spec }) => spec.ingress)
      .find(({ ports }: Manifest) => ports?.some(({ port }: Manifest) => port === 'fp-operator'))
  const from = [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ingress' } } }]
  expect(rule([...TLS, ...set('operator.fromNamespace=ingress')]).from).toEqual(from)
  expect(rule(TLS).from).toBeUndefined()
  expect(rule(ON)).toBeUndefined()
})

const alertsOf = (args: readonly string[]): readonly Manifest[] =>
  of(rendered([...args, ...set('prometheusRule.enabled=true')]), 'PrometheusRule')
    .spec.groups.flatMap(({ rules }: Manifest) => rules)
    .filter(({ alert }: Manifest) => alert !== undefined)

test.each([
  ['none, where no address is known', () => TLS, undefined],
  ['that of the Ingress', () => INGRESS, 'https://op.example'],
  [
    'the one that is given',
    () => [...INGRESS, ...set('prometheusRule.operatorUrl=https://a.example/x')],
    'https://a.example/x',
  ],
  // Bug: `$1` was taken for a part of the template.
  [
    'the one that is given, with a dollar sign',
    () => [...INGRESS, ...set('prometheusRule.operatorUrl=https://a.example/$1/x')],
    'https://a.example/$1/x',
  ],
])('every alert links to the address of operators: %s', (_, args, url) => {
  const alerts = alertsOf(args())
  expect(alerts.length).toBeGreaterThan(10)
  expect(new Set(alerts.map(({ annotations }) => annotations.operator_url))).toEqual(new Set([url]))
  expect(alerts.filter(({ annotations }) => !annotations.dashboard_url.startsWith('/d/'))).toEqual([])
})

test.each([
  [
    'no tokens',
    () => [...BASE, ...set('operator.enabled=true')],
    'operator.tokensSecret is empty: name a Secret',
  ],
  [
    'tokens and no listener',
    () => [...BASE, ...set('operator.tokensSecret=a')],
    'operator.enabled is false, and another',
  ],
  [
    'embedded nodes',
    () => [
      ...set(
        'service.tokenSecret=a',
        'redis.mode=embedded',
        'operator.enabled=true',
        'operator.tokensSecret=a',
      ),
    ],
    'operator.enabled is true with redis.mode embedded',
  ],
  [
    'no service',
    () => [...ON, ...set('service.enabled=false')],
    'operator.enabled is true with service.enabled false',
  ],
  [
    'an Ingress without a certificate of the pods',
    () => [...ON, ...set('operator.ingress.enabled=true')],
    'operator.tlsSecret is empty',
  ],
  [
    'an Ingress without a name',
    () => [...TLS, ...set('operator.ingress.enabled=true', 'operator.ingress.tlsSecret=a')],
    'operator.ingress.enabled is true without operator.ingress.host',
  ],
  [
    'an Ingress in clear text',
    () => [...TLS, ...set('operator.ingress.enabled=true', 'operator.ingress.host=a')],
    'because tokens are never sent in clear text',
  ],
  [
    'a namespace without a port',
    () => [...ON, ...set('operator.fromNamespace=a')],
    'operator.fromNamespace is a',
  ],
  ['an unknown value', () => [...ON, ...set('operator.port=1')], 'port'],
  ['an address in clear text', () => [...BASE, ...set('prometheusRule.operatorUrl=http://a')], 'operatorUrl'],
])('%s is refused', (_, args, told) => {
  expect(charts.refusal('fencepost', args())).toContain(told)
})
