/** Pages about installing: deploy.md with the README of the chart, and the operator listener of one-key.md. */
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eventually } from '../../support/eventually.ts'
import type { Manifest } from '../../support/kubernetes-objects.ts'
import { COMMAND_LINES, tokensFileOfPage, wordsOf } from '../../support/one-key-page.ts'
import { blockOf, lineOf, type PageLine } from '../../support/page-lines.ts'
import { isReady } from '../cluster.ts'
import {
  APPLY_EXAMPLE,
  APPLY_NODES,
  DEFAULT_NAMESPACE,
  DEPLOY,
  EXAMPLE,
  FORWARD_EXAMPLE,
  type Reader,
  ROLLED_OUT_EXAMPLE,
  ROLLED_OUT_NODES,
} from '../reader.ts'
import { nodesPage } from './nodes-pages.ts'
import { mustSee, type PageScenario } from './page-scenario.ts'

const CHART = 'deploy/helm/fencepost/README.md'
const ONE_KEY = 'docs/operations/one-key.md'
const ROLLED_OUT_MS_MAX = 300_000

/** Pods of a release that is called fencepost, by the name of their component. */
async function pods(reader: Reader, namespace: string, name = 'fencepost'): Promise<Manifest[]> {
  const selector = `app.kubernetes.io/instance=fencepost,app.kubernetes.io/name=${name}`
  return (await reader.cluster.get('--namespace', namespace, 'pods', '--selector', selector)).items
}

/** What a reader waits for, where the page has no line for it. */
async function rolledOut(reader: Reader, namespace: string, ...workloads: readonly string[]): Promise<void> {
  for (const workload of workloads)
    await reader.cluster.kubectl(
      ...['--namespace', namespace, 'rollout', 'status', workload, `--timeout=${ROLLED_OUT_MS_MAX / 1_000}s`],
    )
}

async function readDeploy(reader: Reader): Promise<string> {
  // Already done by the reader; a second time changes nothing.
  for (const line of [APPLY_NODES, APPLY_EXAMPLE, ROLLED_OUT_NODES, ROLLED_OUT_EXAMPLE])
    await reader.run(line)
  await using forward = await reader.start(FORWARD_EXAMPLE)
  await forward.line(/Forwarding from 127\.0\.0\.1:8080/)
  const [first = '', second = ''] = EXAMPLE.script.split('\n').filter((line) => line.startsWith('curl '))
  mustSee(await reader.cluster.run('sh', ['-euc', first]), /^HTTP\/1.1 201/m)
  mustSee(
    await reader.cluster.run('sh', ['-euc', second]),
    /^HTTP\/1.1 201/m,
    /^idempotency-status: replayed/im,
  )
  return 'The second answer was the first one again.'
}

const admission = lineOf(DEPLOY, 'kubectl apply -k deploy/k8s/admission')

async function readAdmission(reader: Reader): Promise<string> {
  await reader.run(admission)
  const asked = JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'asked', namespace: 'demanding', labels: { 'fencepost.dev/protected': 'true' } },
    spec: { containers: [{ name: 'application', image: 'example.org/application:1.0.0' }] },
  })
  const open = { 'pod-security.kubernetes.io/enforce': 'baseline' }
  await reader.namespace('demanding', { 'fencepost.dev/demand': 'true', ...open })
  const create = () => reader.cluster.run('kubectl', ['create', '--dry-run=server', '-f', '-'], asked)
  // The server compiles a policy when it sees it: until then it refuses nothing.
  const refusal = () =>
    create().then(
      () => undefined,
      (error: Error) => error.message,
    )
  const told = await eventually('the pod is refused', refusal, { withinMs: 60_000, everyMs: 250 })
  mustSee(told, 'has no native sidecar called fencepost')
  await reader.cluster.kubectl('delete', '-k', join(reader.folder, 'deploy/k8s/admission'))
  await reader.cluster.kubectl('delete', 'namespace', 'demanding')
  return 'A pod without the sidecar was refused.'
}

const GATEWAYS = 'gateways'
const chart = {
  install: blockOf(CHART, 'helm install fencepost deploy/helm/fencepost'),
  logs: lineOf(CHART, 'kubectl logs RELEASE-selftest'),
}
const operator = {
  secret: lineOf(ONE_KEY, 'kubectl create secret generic fencepost-operators'),
  upgrade: lineOf(ONE_KEY, 'helm upgrade …'),
  forward: lineOf(ONE_KEY, 'kubectl port-forward POD 8084'),
  letters: lineOf(ONE_KEY, 'kubectl exec POD'),
}

/** Two cores carry one release at a time. */
async function removed(reader: Reader, namespace: string): Promise<AsyncDisposable> {
  await reader.namespace(namespace)
  return {
    [Symbol.asyncDispose]: async () => {
      await reader.cluster.helm(
        '--namespace',
        namespace,
        'uninstall',
        'fencepost',
        '--wait',
        '--ignore-not-found',
      )
    },
  }
}

/** The block ends with `helm test`. */
async function installed(reader: Reader, namespace: string): Promise<void> {
  mustSee(await reader.run(chart.install, {}, { namespace }), /^Phase: +Succeeded/m)
}

async function readChart(reader: Reader): Promise<string> {
  await using _ = await removed(reader, GATEWAYS)
  await installed(reader, GATEWAYS)
  const scaled = (replicas: number) =>
    reader.cluster.kubectl(
      ...['--namespace', GATEWAYS, 'scale', 'statefulset/fencepost-redis', `--replicas=${replicas}`],
    )
  await scaled(2)
  const two = async () => (await pods(reader, GATEWAYS, 'fencepost-redis')).length === 2
  await eventually('two nodes are left', two, { withinMs: ROLLED_OUT_MS_MAX, everyMs: 250 })
  const [test] = chart.install.lines.filter(({ text }) => text.startsWith('helm test'))
  const failed = await reader
    .run(test as PageLine, {}, { namespace: GATEWAYS })
    .catch((error: Error) => error.message)
  mustSee(failed, 'pod fencepost-selftest failed')
  const logs = await reader.run(chart.logs, { RELEASE: 'fencepost' }, { namespace: GATEWAYS })
  mustSee(logs, /^failed +quorum +2 of 5 nodes vote/m)
  await scaled(5)
  await rolledOut(reader, GATEWAYS, 'statefulset/fencepost-redis', 'deployment/fencepost')
  return '`helm test` succeeded. With two of five nodes it failed, and the log of the doctor says why.'
}

async function readOneKey(reader: Reader): Promise<string> {
  const namespace = 'operators'
  const options = { namespace }
  await using _ = await removed(reader, namespace)
  await installed(reader, namespace)
  const { content, tokenOf } = tokensFileOfPage()
  await writeFile(join(reader.folder, 'operators'), content)
  await reader.run(operator.secret, {}, options)
  await reader.run(
    operator.upgrade,
    { '…': 'fencepost deploy/helm/fencepost --reuse-values --wait' },
    options,
  )
  const POD = await readyPod(reader, namespace)
  await using forward = await reader.start(operator.forward, { POD }, namespace)
  await forward.line(/Forwarding from 127\.0\.0\.1:8084/)
  await writeFile(join(reader.folder, '.fencepost-token'), tokenOf('bob'))
  const home = { ...process.env, HOME: reader.folder } as Record<string, string>
  const [list = ''] = COMMAND_LINES.filter((line) => line.startsWith('fencepost records list $O live'))
  const forwarded = (script: string) => script.replace('http://127.0.0.1:8083', 'http://127.0.0.1:8084')
  // A list with no line ends with 1.
  const live = await reader
    .fencepost(...wordsOf(list, home, forwarded))
    .catch((error: Error) => error.message)
  mustSee(live, /^nothing$/m)
  await reader.run(operator.letters, { POD }, options)
  return 'The listener answered through the forwarded port, and the command in the pod.'
}

const shared = blockOf(DEPLOY, "cat > nodes.yaml <<'END'")

async function readShared(reader: Reader): Promise<string> {
  const namespace = 'sharing'
  await using _ = await removed(reader, namespace)
  await tokenSecret(reader, namespace)
  await reader.run(shared, {}, { namespace })
  const clusters: (string | undefined)[] = []
  for (const [own, POD] of [
    [namespace, await readyPod(reader, namespace)],
    [DEFAULT_NAMESPACE, await reader.pod()],
  ] as const) {
    const told = await reader.run(nodesPage.status, { POD }, { namespace: own })
    clusters.push(/^cluster (\w+): 5 of 5 nodes vote/m.exec(told)?.[1])
  }
  if (clusters[0] === undefined || clusters[0] !== clusters[1])
    throw new Error(`the service and the sidecars see different clusters: ${clusters.join(' and ')}`)
  return 'The service and the sidecars of the example see one cluster.'
}

const growing = lineOf(DEPLOY, 'kubectl scale deployment/fencepost --replicas=0')

/** From three nodes to five, as the page describes it between its lines. */
async function readGrowing(reader: Reader): Promise<string> {
  const namespace = 'growing'
  const options = { namespace }
  const release = [...['fencepost', join(reader.folder, 'deploy/helm/fencepost'), '--namespace', namespace]]
  await using _ = await removed(reader, namespace)
  await tokenSecret(reader, namespace)
  const set = 'service.tokenSecret=fencepost-token,redis.bundled.openToAll=true,redis.bundled.count=3'
  await reader.cluster.helm('install', ...release, '--set', set, '--wait')
  await reader.run(growing, {}, options)
  const gone = async () => (await pods(reader, namespace)).length === 0
  await eventually('the pods of the service are gone', gone, { withinMs: ROLLED_OUT_MS_MAX, everyMs: 250 })
  await reader.cluster.helm('upgrade', ...release, '--reuse-values', '--set', 'redis.bundled.count=5')
  const refused = async () =>
    (await pods(reader, namespace)).find(({ status }) => {
      const { state, lastState } = status.containerStatuses?.[0] ?? {}
      return [state, lastState].some((one) => one?.terminated?.exitCode === 78)
    })
  await eventually('a new pod ends with 78', refused, { withinMs: ROLLED_OUT_MS_MAX, everyMs: 250 })
  const five = [0, 1, 2, 3, 4]
    .map((number) => `redis://fencepost-redis-${number}.fencepost-redis.${namespace}.svc:6379`)
    .join(',')
  const asked = await reader
    .run(nodesPage.changeMembers, { 'redis://…': five }, options)
    .catch((error: Error) => error.message)
  const [, confirm = ''] = /repeat the command with (--confirm \w+)/.exec(mustSee(asked, '--confirm')) ?? []
  const names = { 'redis://…': five, 'change-members': `change-members ${confirm}` }
  mustSee(await reader.run(nodesPage.changeMembers, names, options), 'changed the nodes of the cluster on')
  await rolledOut(reader, namespace, 'statefulset/fencepost-redis', 'deployment/fencepost')
  const told = await reader.run(nodesPage.status, { POD: await readyPod(reader, namespace) }, options)
  mustSee(told, '5 of 5 nodes vote')
  return 'The new pods ended with 78 until the command was run; then five nodes voted.'
}

async function tokenSecret(reader: Reader, namespace: string): Promise<void> {
  const metadata = { name: 'fencepost-token', namespace }
  await reader.cluster.apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    stringData: { token: randomUUID() },
  })
}

async function readyPod(reader: Reader, namespace: string): Promise<string> {
  const found = (await pods(reader, namespace)).find(
    ({ metadata, status }) => metadata.deletionTimestamp === undefined && status.conditions?.some(isReady),
  )
  if (found === undefined) throw new Error(`no pod of the service in ${namespace} is ready`)
  return found.metadata.name
}

export const INSTALLATION_PAGES: readonly PageScenario[] = [
  {
    name: 'page-deploy',
    what: 'deploy.md: five nodes, and the example with its sidecar.',
    lines: [APPLY_NODES, ROLLED_OUT_NODES, ...EXAMPLE.lines],
    read: readDeploy,
  },
  {
    name: 'page-admission',
    what: 'deploy.md: what a namespace can demand of its pods.',
    lines: [admission],
    read: readAdmission,
  },
  {
    name: 'page-chart',
    what: 'The README of the chart and deploy.md: the service with five nodes of its own.',
    lines: [...chart.install.lines, chart.logs],
    read: readChart,
  },
  {
    name: 'page-one-key',
    what: 'one-key.md: the operator listener of such a release.',
    lines: Object.values(operator),
    read: readOneKey,
  },
  {
    name: 'page-shared-nodes',
    what: 'deploy.md: a release without nodes, on those of the sidecars.',
    lines: shared.lines,
    read: readShared,
  },
  {
    name: 'page-growing',
    what: 'deploy.md: from three nodes of the chart to five.',
    lines: [growing],
    read: readGrowing,
  },
]
