/**
 * NetworkPolicies by what they select: which pods each holds for, and which pods may open which port of it. Decided here by the rules of the
 * API, on the manifests as they are built; whether a network enforces them is up to its plugin.
 *
 * Source: https://kubernetes.io/docs/concepts/services-networking/network-policies
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { kustomized, type Manifest, podOf } from '../support/kubernetes-objects.ts'

type Pod = {
  readonly namespace: string
  readonly labels: Readonly<Record<string, string>>
  /** Names of the ports of its containers, and their numbers. */
  readonly ports: Readonly<Record<string, number>>
}

const built: Record<string, Manifest[]> = {}

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)
beforeAll(async () => {
  const set = 'service.tokenSecret=token,redis.bundled.openToAll=true'
  built.chart = charts.rendered('fencepost', ['--set', set])
  for (const folder of ['nodes', 'example'])
    built[folder] = await kustomized(`${import.meta.dirname}/../../deploy/k8s/${folder}`)
}, FETCH_MS_MAX)

function podsOf(manifests: readonly Manifest[]): Record<string, Pod> {
  const workloads = manifests.filter(({ kind }) => ['Deployment', 'StatefulSet', 'Pod'].includes(kind))
  return Object.fromEntries(
    workloads.map((workload) => {
      const pod = podOf(workload)
      const containers: Manifest[] = [...(pod.initContainers ?? []), ...pod.containers]
      const ports = containers.flatMap(({ ports: of = [] }) => of)
      const { namespace = 'shop' } = workload.metadata
      return [
        `${workload.kind}/${workload.metadata.name}`,
        {
          namespace,
          labels: (workload.kind === 'Pod' ? workload : workload.spec.template).metadata.labels,
          ports: Object.fromEntries(ports.map(({ name, containerPort }) => [name, containerPort])),
        },
      ]
    }),
  )
}

const client = (namespace: string): Pod => ({
  namespace,
  labels: { 'fencepost.dev/client': 'true' },
  ports: {},
})
const stranger = (namespace: string): Pod => ({ namespace, labels: { app: 'stranger' }, ports: {} })

function selects(selector: Manifest, labels: Readonly<Record<string, string>>): boolean {
  if (selector.matchExpressions !== undefined) throw new Error('expressions are not judged here')
  return Object.entries(selector.matchLabels ?? {}).every(([name, value]) => labels[name] === value)
}

function isPeer(peer: Manifest, pod: Pod, own: string): boolean {
  if (peer.ipBlock !== undefined) throw new Error('blocks of addresses are not judged here')
  const named = { 'kubernetes.io/metadata.name': pod.namespace }
  const inNamespace =
    peer.namespaceSelector === undefined ? pod.namespace === own : selects(peer.namespaceSelector, named)
  return inNamespace && (peer.podSelector === undefined || selects(peer.podSelector, pod.labels))
}

/** The ports of `to` that `from` may open under these policies. */
function reached(policies: readonly Manifest[], from: Pod, to: Pod): number[] {
  const holding = policies.filter(
    ({ metadata, spec }) =>
      (metadata.namespace ?? 'shop') === to.namespace &&
      spec.policyTypes.includes('Ingress') &&
      selects(spec.podSelector, to.labels),
  )
  const all = Object.values(to.ports)
  if (holding.length === 0) return all
  const rules = holding.flatMap(({ spec }) => spec.ingress ?? [])
  const open = rules
    .filter(
      ({ from: peers }: Manifest) =>
        peers === undefined || peers.some((peer: Manifest) => isPeer(peer, from, to.namespace)),
    )
    .flatMap(({ ports }: Manifest) => ports?.map(({ port }: Manifest) => to.ports[port] ?? port) ?? all)
  return [...new Set<number>(open)].sort((a, b) => a - b)
}

const policiesOf = (name: string) => built[name]!.filter(({ kind }) => kind === 'NetworkPolicy')

describe.each([
  ['chart', 'StatefulSet/rel-redis'],
  ['nodes', 'StatefulSet/fencepost-redis'],
])('the nodes of %s', (build, name) => {
  const to = () => podsOf(built[build]!)[name]!

  test.each<[string, (namespace: string) => Pod, readonly number[]]>([
    ['a client beside them', () => client(to().namespace), [6379]],
    ['a client of another namespace', () => client('payments'), [6379]],
    ['a pod without the label', () => stranger(to().namespace), []],
    ['a pod of Prometheus', () => stranger('monitoring'), []],
    ['another node', to, []],
  ])('%s reaches the right ports', (_, from, ports) => {
    expect(reached(policiesOf(build), from('shop'), to())).toEqual(ports)
  })

  test('they may open no connection', () => {
    const [policy] = policiesOf(build).filter(({ spec }) => selects(spec.podSelector, to().labels))
    expect(policy.spec).toMatchObject({ policyTypes: ['Ingress', 'Egress'], egress: [] })
  })
})

describe('the service of the chart', () => {
  const to = () => podsOf(built.chart!)['Deployment/rel']!
  test.each<[string, Pod, readonly number[]]>([
    ['any caller, who shows a token', stranger('elsewhere'), [8081, 8082, 8083]],
    ['Prometheus', stranger('monitoring'), [8081, 8082, 8083, 9090]],
    ['a client of its namespace', client('shop'), [8081, 8082, 8083, 9090]],
    ['a client of another namespace', client('elsewhere'), [8081, 8082, 8083]],
  ])('%s reaches the right ports', (_, from, ports) => {
    expect(reached(policiesOf('chart'), from, to())).toEqual(ports)
  })

  test('it and the pod of `helm test` reach the nodes', () => {
    const pods = podsOf(built.chart!)
    for (const name of ['Deployment/rel', 'Pod/rel-selftest'])
      expect([
        name,
        reached(policiesOf('chart'), pods[name] as Pod, pods['StatefulSet/rel-redis'] as Pod),
      ]).toEqual([name, [6379]])
  })
})

describe('the application of the example', () => {
  const to = () => podsOf(built.example!)['Deployment/payments']!

  test.each<[string, Pod, readonly number[]]>([
    ['any caller reaches fencepost, and never the application behind it', stranger('elsewhere'), [8080]],
    ['Prometheus reaches the metrics', stranger('monitoring'), [8080, 9090]],
  ])('%s', (_, from, ports) => {
    expect(reached(policiesOf('example'), from, to())).toEqual(ports)
  })

  test('it may reach the nodes of the other build and name servers, and nothing else', () => {
    const [{ spec }] = policiesOf('example')
    const [nodes, names, ...others] = spec.egress
    const target = podsOf(built.nodes!)['StatefulSet/fencepost-redis'] as Pod
    const peers = nodes.to as Manifest[]
    expect(peers.map((peer) => isPeer(peer, target, to().namespace))).toEqual([true])
    expect(peers.some((peer) => isPeer(peer, stranger(target.namespace), to().namespace))).toBe(false)
    expect(nodes.ports).toEqual([{ protocol: 'TCP', port: 6379 }])
    expect(names.ports.map(({ protocol, port }: Manifest) => `${protocol} ${port}`)).toEqual([
      'UDP 53',
      'TCP 53',
      // Bug: OpenShift's name servers listen on this port behind their Service, and the sidecar found no node there.
      'UDP 5353',
      'TCP 5353',
    ])
    expect(others).toEqual([])
    expect(reached(policiesOf('nodes'), to(), target)).toEqual([6379])
  })
})

test('every policy holds for a workload of its build, and names ports that this has', () => {
  for (const [build, manifests] of Object.entries(built)) {
    const pods = Object.values(podsOf(manifests))
    for (const { metadata, spec } of policiesOf(build)) {
      const held = pods.filter(({ labels }) => selects(spec.podSelector, labels))
      expect([build, metadata.name, held.length]).toEqual([build, metadata.name, 1])
      const named = (spec.ingress as Manifest[]).flatMap(({ ports }) => ports).map(({ port }) => port)
      const has = Object.entries(held[0]!.ports).flat()
      for (const port of named) expect(has).toContain(port)
    }
  }
})

/**
 * Bug: the Service and the policy of the example named the sidecar's ports. Up to Kubernetes 1.32 a Service has no endpoint for such a
 * name, and network plug-ins of that time let nothing through.
 *
 * Source: https://github.com/kubernetes/kubernetes/pull/128850, https://github.com/projectcalico/calico/issues/8881
 */
test('no Service and no policy asks for a port of a native sidecar by its name', () => {
  const probed = charts.rendered('fencepost', [
    '--set',
    'service.tokenSecret=token,redis.bundled.openToAll=true,probe.enabled=true',
  ])
  for (const [build, manifests] of Object.entries({ ...built, probed })) {
    const workloads = manifests.filter((manifest) => podOf(manifest) !== undefined)
    for (const { kind, metadata, spec } of manifests) {
      if (kind !== 'Service' && kind !== 'NetworkPolicy') continue
      const selector = kind === 'Service' ? { matchLabels: spec.selector } : spec.podSelector
      const asked: unknown[] =
        kind === 'Service'
          ? spec.ports.map(({ targetPort }: Manifest) => targetPort)
          : (spec.ingress ?? []).flatMap(({ ports = [] }: Manifest) =>
              ports.map(({ port }: Manifest) => port),
            )
      const pods = workloads.filter(({ metadata: own, spec: of }) =>
        selects(selector, of.template?.metadata.labels ?? own.labels),
      )
      const named = pods.flatMap((workload) =>
        (podOf(workload).initContainers ?? []).flatMap(({ ports = [] }: Manifest) =>
          ports.map(({ name }: Manifest) => name),
        ),
      )
      expect([build, kind, metadata.name, asked.filter((port) => named.includes(port))]).toEqual([
        build,
        kind,
        metadata.name,
        [],
      ])
    }
  }
})
