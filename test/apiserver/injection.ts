/** Injection by annotation, on the API server that does it: what a pod becomes, and with which sentence a wrong one is refused. */
import { deepStrictEqual } from 'node:assert'
import type { Manifest } from '../support/kubernetes-objects.ts'
import { podOf } from '../support/kubernetes-objects.ts'
import type { Cluster } from './cluster.ts'

type Check = (sentence: string, of: () => Promise<unknown>) => Promise<void>

export const RESTRICTED = {
  allowPrivilegeEscalation: false,
  runAsNonRoot: true,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
}

function pod(annotations: Readonly<Record<string, string>>, spec: object = {}): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'payments', annotations },
    spec: {
      containers: [{ name: 'application', image: 'application:1', securityContext: RESTRICTED }],
      ...spec,
    },
  }
}

const ASKS = { 'fencepost.dev/inject': 'true', 'fencepost.dev/upstream-port': '3000' }
const own = { name: 'migrations', image: 'application:1', securityContext: RESTRICTED }

const REFUSED: readonly (readonly [what: string, annotations: Record<string, string>, sentence: string])[] = [
  [
    'another word than true',
    { ...ASKS, 'fencepost.dev/inject': 'yes' },
    'fencepost.dev/inject is "yes": it takes "true" or "false".',
  ],
  [
    'no port',
    { 'fencepost.dev/inject': 'true' },
    'fencepost.dev/upstream-port is "": it takes the port of the application in the pod, 1 to 65535.',
  ],
  [
    'a port that is none',
    { ...ASKS, 'fencepost.dev/upstream-port': '70000' },
    'fencepost.dev/upstream-port is "70000": it takes the port',
  ],
  [
    'the port of fencepost',
    { ...ASKS, 'fencepost.dev/upstream-port': '8080' },
    'fencepost.dev/upstream-port is "8080", which fencepost itself listens on',
  ],
  [
    'a ConfigMap of no name',
    { ...ASKS, 'fencepost.dev/config': 'Settings!' },
    'fencepost.dev/config is "Settings!": it takes the name of a ConfigMap',
  ],
  ['a port, and no wish', { 'fencepost.dev/upstream-port': '3000' }, 'fencepost.dev/inject is "": it takes'],
]

/** @param chart a folder with the chart, its library beside it */
export async function checkInjection(cluster: Cluster, chart: string, values: string, check: Check) {
  await cluster.addNamespace('injection')
  await cluster.addNamespace('injected')
  await check('injection: helm install', () =>
    cluster.helm(
      'injection',
      'install',
      'rel',
      chart,
      '--values',
      values,
      '--set',
      'injection.enabled=true,redis.certSecret=fencepost-client',
    ),
  )
  // The server compiles a policy when it sees it: until then it adds nothing, and what follows would be about that.
  await check('injection: the policies are in force', () =>
    cluster.untilAdmitted('injected', pod(ASKS), isInjected),
  )
  // Bug: an API server of 1.36 did not find the parameter of the policy again, and no pod of the cluster could be created any more.
  await check('injection: helm uninstall and helm install', async () => {
    await cluster.helm('injection', 'uninstall', 'rel')
    await cluster.untilAdmitted('injected', pod(ASKS), (admitted) => !isInjected(admitted))
    const given = ['--values', values, '--set', 'injection.enabled=true,redis.certSecret=fencepost-client']
    await cluster.helm('injection', 'install', 'rel', chart, ...given)
    await cluster.untilAdmitted('injected', pod(ASKS), isInjected)
    await cluster.admitted('injected', pod({}))
  })
  await check('injection: the sidecar is what the library chart adds, under "restricted"', async () => {
    const admitted = await cluster.admitted('injected', pod(ASKS))
    const service = await cluster.deployed('injection', 'rel')
    deepStrictEqual(
      without(admitted),
      without({ metadata: service.template.metadata, spec: podOf({ kind: 'Deployment', spec: service }) }),
    )
  })
  await check(
    'injection: when its pod is to end it sends its clients away, as the library’s does',
    async () => {
      const { spec } = await cluster.admitted('injected', pod(ASKS))
      const command = ['/nodejs/bin/node', '--eval', "process.kill(1, 'SIGUSR2')"]
      deepStrictEqual(spec.initContainers[0].lifecycle, { preStop: { exec: { command } } })
    },
  )
  await check('injection: it comes before the init containers of the application', async () => {
    const { spec } = await cluster.admitted('injected', pod(ASKS, { initContainers: [own] }))
    deepStrictEqual(namesOf(spec.initContainers), ['fencepost', 'migrations'])
  })
  await check('injection: settings of the namespace are read', async () => {
    const { spec } = await cluster.admitted('injected', pod({ ...ASKS, 'fencepost.dev/config': 'settings' }))
    deepStrictEqual(spec.initContainers[0].envFrom, [{ configMapRef: { name: 'settings' } }])
  })
  await check('injection: a pod that has the sidecar is left as it is', async () => {
    const first = await cluster.admitted('injected', pod(ASKS))
    const again = await cluster.admitted('injected', pod(ASKS, first.spec))
    deepStrictEqual(again.spec, first.spec)
  })
  for (const annotations of [{}, { 'fencepost.dev/inject': 'false' }])
    await check(`injection: a pod with ${JSON.stringify(annotations)} is left as it is`, async () => {
      const { spec, metadata } = await cluster.admitted('injected', pod(annotations))
      deepStrictEqual([spec.initContainers, metadata.labels], [undefined, undefined])
    })
  for (const [what, annotations, sentence] of REFUSED)
    await check(`injection: ${what} is refused with its sentence`, () =>
      cluster.refuses('injected', pod(annotations), sentence),
    )
  // Bug: it was given a second container of this name, and the server said only that the name is a duplicate.
  await check('injection: a container of the same name that is no native sidecar is refused', () =>
    cluster.refuses(
      'injected',
      pod(ASKS, { containers: [{ ...own, name: 'fencepost' }] }),
      'the pod asks for fencepost and has no native sidecar of this name.',
    ),
  )
  await check('injection: an init container of the same name is refused', () =>
    cluster.refuses(
      'injected',
      pod(ASKS, { initContainers: [{ ...own, name: 'fencepost' }] }),
      'the pod asks for fencepost and has no native sidecar of this name.',
    ),
  )
}

function isInjected({ spec }: Manifest): boolean {
  return namesOf(spec.initContainers ?? []).includes('fencepost')
}

const namesOf = (containers: readonly Manifest[]) => containers.map(({ name }) => name)

/** What both ways have in common: all but the listeners of the service, which no sidecar opens. */
function without({ metadata, spec }: Manifest) {
  const [sidecar] = [...(spec.initContainers ?? []), ...spec.containers].filter(
    ({ name }) => name === 'fencepost',
  )
  const { image, startupProbe, readinessProbe, livenessProbe, securityContext, env } = sidecar
  const shared = [
    'FENCEPOST_INSTANCE',
    'FENCEPOST_REDIS_NODES',
    'FENCEPOST_REDIS_USERNAME',
    'FENCEPOST_REDIS_PASSWORD_FILE',
    'FENCEPOST_REDIS_CA_FILE',
    'FENCEPOST_REDIS_CERT_FILE',
    'FENCEPOST_REDIS_KEY_FILE',
  ]
  const mounts = (sidecar.volumeMounts ?? []).filter(({ name }: Manifest) =>
    name.startsWith('fencepost-redis'),
  )
  return {
    client: metadata.labels['fencepost.dev/client'],
    image,
    startupProbe,
    readinessProbe,
    livenessProbe,
    securityContext,
    env: env.filter(({ name }: Manifest) => shared.includes(name)),
    mounts: mounts.map(({ name, mountPath }: Manifest) => [name, mountPath]),
    volumes: (spec.volumes ?? []).filter(({ name }: Manifest) => name.startsWith('fencepost-redis')),
  }
}
