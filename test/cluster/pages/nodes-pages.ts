/** Pages about the nodes, on those of deploy/k8s/nodes: runbooks.md, nodes.md, draining.md and drills.md. */

import { DRILL_STEPS, type DrillStep, KUBERNETES_STEPS, missingIn } from '../../support/drills-page.ts'
import { eventually } from '../../support/eventually.ts'
import { blockOf, codeBehind, lineOf } from '../../support/page-lines.ts'
import { isReady } from '../cluster.ts'
import { type Block, DEFAULT_NAMESPACE, type Reader } from '../reader.ts'
import { mustSee, type PageScenario } from './page-scenario.ts'
import { COMMAND_ON_NODE } from './tls-page.ts'

const RUNBOOKS = 'docs/operations/runbooks.md'
const NODES = 'docs/operations/nodes.md'
const DRAINING = 'docs/operations/draining.md'
const DRILLS = 'docs/operations/drills.md'

const SELECTED = ['--namespace', 'fencepost', 'pods', '--selector', 'app.kubernetes.io/name=fencepost-redis']
const DRAINED_MS_MAX = 600_000
const QUARANTINED_MS_MAX = 180_000

const runbooks = {
  status: lineOf(RUNBOOKS, 'kubectl exec POD'),
  forward: lineOf(RUNBOOKS, 'kubectl port-forward POD 9090'),
  onNode: lineOf(RUNBOOKS, 'kubectl -n fencepost exec fencepost-redis-0'),
}
const READYZ = codeBehind(RUNBOOKS, '`kubectl port-forward POD 9090`, then ')

async function readRunbooks(reader: Reader): Promise<string> {
  const POD = await reader.pod()
  mustSee(await reader.run(runbooks.status, { POD }), '5 of 5 nodes vote')
  await using forward = await reader.start(runbooks.forward, { POD })
  await forward.line(/Forwarding from 127\.0\.0\.1:9090/)
  const readyz = await reader.cluster.run('sh', ['-euc', READYZ])
  const voting = readyz.match(/"state":"voting"/g) ?? []
  if (voting.length !== 5) throw new Error(`/readyz named ${voting.length} nodes that vote: ${readyz}`)
  mustSee(await reader.run(runbooks.onNode, {}, { input: `PING\n${COMMAND_ON_NODE}\n` }), 'PONG')
  return 'Five nodes vote; a node took a command.'
}

export const nodesPage = {
  status: lineOf(NODES, 'kubectl exec POD'),
  changeMembers: lineOf(NODES, 'kubectl run fencepost-nodes'),
}

async function readNodes(reader: Reader): Promise<string> {
  mustSee(await reader.run(nodesPage.status, { POD: await reader.pod() }), '5 of 5 nodes vote')
  const five = [0, 1, 2, 3, 4].map(
    (number) => `redis://fencepost-redis-${number}.fencepost-redis.fencepost.svc:6379`,
  )
  const told = await reader.run(nodesPage.changeMembers, { 'redis://…': five.join(',') })
  mustSee(told, 'Nothing to change: the nodes are')
  return 'The command in a pod of its own found the five nodes.'
}

const draining = {
  drain: lineOf(DRAINING, 'kubectl drain MACHINE'),
  watch: lineOf(DRAINING, 'kubectl -n fencepost get pods --watch'),
  uncordon: lineOf(DRAINING, 'kubectl uncordon MACHINE'),
  /** The machine never comes back. */
  gone: blockOf(DRAINING, 'kubectl -n fencepost delete pvc'),
  describe: lineOf(DRAINING, 'kubectl -n fencepost describe pod'),
  rolledOut: lineOf(DRAINING, 'kubectl -n fencepost rollout status'),
}

async function nodePods(reader: Reader) {
  const { items } = await reader.cluster.get(...SELECTED)
  return (items as { metadata: { uid: string }; status: { conditions?: [] } }[]).map(
    ({ metadata, status }) => ({ uid: metadata.uid, ready: status.conditions?.some(isReady) === true }),
  )
}

/** The volumes belong to the only machine: the second eviction waits until that one is back. */
async function readDraining(reader: Reader): Promise<string> {
  const MACHINE = reader.cluster.machine.name
  const before = await nodePods(reader)
  await using watch = await reader.start(draining.watch)
  await using drain = await reader.start(draining.drain, { MACHINE })
  await drain.line(/would violate the pod's disruption budget/, { withinMs: DRAINED_MS_MAX })
  const ready = (await nodePods(reader)).filter((pod) => pod.ready)
  if (ready.length < 4) throw new Error(`${ready.length} nodes were ready while the machine was drained`)
  await reader.run(draining.uncordon, { MACHINE })
  await drain.until('the end of the drain', () => !drain.running, { withinMs: DRAINED_MS_MAX, everyMs: 250 })
  if ((await drain.exited).code !== 0) throw new Error(drain.output)
  mustSee(drain.output, `node/${MACHINE} drained`)
  await reader.run(draining.rolledOut)
  mustSee(watch.output, /fencepost-redis-\d +0\/1 +Pending/, /fencepost-redis-\d +1\/1 +Running/)
  const kept = (await nodePods(reader)).filter(({ uid }) => before.some((pod) => pod.uid === uid))
  if (kept.length > 0) throw new Error(`${kept.length} pods of nodes were not replaced`)

  await reader.run(draining.gone)
  const told = async () =>
    (await reader.run(draining.describe)).includes('it has no incarnation: it waits, or no sidecar')
  await eventually('the probe says why the node waits', told, {
    withinMs: QUARANTINED_MS_MAX,
    everyMs: 1_000,
  })
  await reader.run(draining.rolledOut)
  return 'The budget let go of the second node when the first was back, and every node was replaced; the one without its volume voted after its quarantine.'
}

const KUBERNETES = KUBERNETES_STEPS.map(({ commands }) => commands).join('')
const drills = {
  forward: lineOf(DRILLS, 'kubectl port-forward POD 8081 9090'),
  functions: blockOf(DRILLS, "FENCEPOST='kubectl exec POD"),
}
const marked = (index: number) => `=== step ${index} ends`

/** Those for processes on this machine are replaced. */
const STEPS: readonly DrillStep[] = DRILL_STEPS.filter(
  ({ heading }) => heading !== 'Nodes that are processes on this machine',
)

async function readDrills(reader: Reader): Promise<string> {
  const POD = await reader.pod()
  await using forward = await reader.start(drills.forward, { POD })
  await forward.line(/Forwarding from 127\.0\.0\.1:9090/)
  const all: Block = {
    script: [KUBERNETES, ...STEPS.map(({ commands }, index) => `${commands}echo '${marked(index)}'\n`)].join(
      '',
    ),
    lines: drills.functions.lines,
  }
  const before = 'export API=http://127.0.0.1:8081 ADMIN=http://127.0.0.1:9090'
  let rest: string
  try {
    rest = await reader.run(all, { POD }, { before })
  } finally {
    // As the page asks: the probe goes on in that pod.
    await reader.cluster.kubectl('--namespace', DEFAULT_NAMESPACE, 'delete', 'pod', POD, '--wait=false')
  }
  for (const [index, step] of STEPS.entries()) {
    const [own = '', ...after] = rest.split(`${marked(index)}\n`)
    const missing = missingIn(own, step)
    if (missing.length > 0)
      throw new Error(`${step.heading}: ${missing.join('; ')} was to be seen after\n${step.commands}\n${own}`)
    rest = after.join(`${marked(index)}\n`)
  }
  return 'All of its drills ended as it says; a probe saw no wrong answer meanwhile.'
}

export const NODES_PAGES: readonly PageScenario[] = [
  {
    name: 'page-runbooks',
    what: 'runbooks.md: the lines before its sections.',
    lines: Object.values(runbooks),
    read: readRunbooks,
  },
  {
    name: 'page-nodes',
    what: 'nodes.md: the commands in the pod of a sidecar, and in one of their own.',
    lines: Object.values(nodesPage),
    read: readNodes,
  },
  {
    name: 'page-draining',
    what: 'draining.md: the only machine is drained and comes back; then a node loses its volume.',
    lines: [...Object.values(draining).flatMap((one) => ('lines' in one ? one.lines : [one]))],
    read: readDraining,
  },
  {
    name: 'page-drills',
    what: 'drills.md: every drill, with the functions for Kubernetes.',
    lines: [drills.forward, ...drills.functions.lines],
    read: readDrills,
  },
]
