/** The lines of the documents, page by page, run by a reader who has what the page presupposes. */
import { lineOf, type PageLine, readPage } from '../support/page-lines.ts'
import type { Reader } from './reader.ts'
import type { Scenario } from './scenario.ts'

const RUNBOOKS = 'docs/operations/runbooks.md'
const NODES = 'docs/operations/nodes.md'

type PageScenario = Pick<Scenario, 'name' | 'what'> & {
  /** What it runs; less than that is a fault. */
  readonly lines: readonly PageLine[]
  readonly read: (reader: Reader) => Promise<string>
}

export function mustSee(output: string, ...wanted: readonly (string | RegExp)[]): void {
  for (const one of wanted)
    if (typeof one === 'string' ? !output.includes(one) : !one.test(output))
      throw new Error(`${one} was to be seen in:\n${output}`)
}

const runbooks = {
  status: lineOf(RUNBOOKS, 'kubectl exec POD'),
  forward: lineOf(RUNBOOKS, 'kubectl port-forward POD 9090'),
  onNode: lineOf(RUNBOOKS, 'kubectl -n fencepost exec fencepost-redis-0'),
}

async function readRunbooks(reader: Reader): Promise<string> {
  const POD = await reader.pod()
  mustSee(await reader.run(runbooks.status, { POD }), '5 of 5 nodes vote')
  await using forward = await reader.start(runbooks.forward, { POD })
  await forward.line(/Forwarding from 127\.0\.0\.1:9090/)
  const [, curl = ''] = /`(curl http:\S+\/readyz)`/.exec(readPage(RUNBOOKS)) ?? []
  const readyz = await reader.cluster.run('sh', ['-euc', curl])
  const voting = readyz.match(/"state":"voting"/g) ?? []
  if (voting.length !== 5) throw new Error(`/readyz named ${voting.length} nodes that vote: ${readyz}`)
  const [, command = ''] = /To run a command on a node \(`(.*?)`\)/.exec(readPage(RUNBOOKS)) ?? []
  mustSee(await reader.run(runbooks.onNode, {}, { input: `PING\n${command}\n` }), 'PONG')
  return 'Five nodes vote; a node took a command.'
}

const nodes = {
  status: lineOf(NODES, 'kubectl exec POD'),
  changeMembers: lineOf(NODES, 'kubectl run fencepost-nodes'),
}

async function readNodes(reader: Reader): Promise<string> {
  mustSee(await reader.run(nodes.status, { POD: await reader.pod() }), '5 of 5 nodes vote')
  const five = [0, 1, 2, 3, 4].map(
    (number) => `redis://fencepost-redis-${number}.fencepost-redis.fencepost.svc:6379`,
  )
  const told = await reader.run(nodes.changeMembers, { 'redis://…': five.join(',') })
  mustSee(told, 'Nothing to change: the nodes are')
  return 'The command in a pod of its own found the five nodes.'
}

const PAGES: readonly PageScenario[] = [
  {
    name: 'page-runbooks',
    what: 'runbooks.md: the lines before its sections.',
    lines: Object.values(runbooks),
    read: readRunbooks,
  },
  {
    name: 'page-nodes',
    what: 'nodes.md: the commands in the pod of a sidecar, and in one of their own.',
    lines: Object.values(nodes),
    read: readNodes,
  },
]

/** What each runs, for the test that no line is left out. */
export const LINES_OF_PAGES: readonly PageLine[] = PAGES.flatMap(({ lines }) => lines)

export const PAGE_SCENARIOS: readonly Scenario[] = PAGES.map(({ name, what, lines, read }) => ({
  name,
  what,
  failedMax: 0,
  quiet: true,
  onPages: true,
  run: async ({ reader }) => {
    await reader.installed()
    const found = await read(reader)
    const left = lines.filter(({ text }) => !reader.ran.has(text))
    if (left.length > 0) throw new Error(`not run: ${left.map(({ text }) => text).join('; ')}`)
    return found
  },
}))
