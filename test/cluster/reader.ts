/**
 * A reader of the documents: a shell in a clone of the repository, whose kubectl has a namespace by default, and which runs lines of
 * the pages as they stand, with the reader's own names in place of POD and the like.
 */
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { blockOf, lineOf, type PageLine } from '../support/page-lines.ts'
import type { TestProcess } from '../support/processes.ts'
import { type Cluster, isReady } from './cluster.ts'
import { allowOneMachine } from './one-machine.ts'
import type { Patience } from './release.ts'

const root = join(import.meta.dirname, '../..')
export const DEPLOY = 'docs/operations/deploy.md'
export const DEFAULT_NAMESPACE = 'payments'
/** No line takes longer; a drill waits for four minutes at most, and for several quarantines. */
const LINE_S_MAX = 1_200

export type Block = { readonly script: string; readonly lines: readonly PageLine[] }
export type Names = Readonly<Record<string, string>>

export const APPLY_NODES = lineOf(DEPLOY, 'kubectl apply -k deploy/k8s/nodes')
export const ROLLED_OUT_NODES = lineOf(DEPLOY, 'kubectl -n fencepost rollout status')
export const EXAMPLE = blockOf(DEPLOY, 'kubectl apply -k deploy/k8s/example')
export const [APPLY_EXAMPLE, ROLLED_OUT_EXAMPLE, FORWARD_EXAMPLE] = EXAMPLE.lines as [
  PageLine,
  PageLine,
  PageLine,
]

export class Reader {
  readonly cluster: Cluster
  /** Where the reader's clone is. */
  readonly folder: string
  /** Texts of the lines that were run. */
  readonly ran = new Set<string>()
  readonly #patience: Patience
  #installed: Promise<void> | undefined

  constructor(cluster: Cluster, patience: Patience) {
    this.cluster = cluster
    this.folder = join(cluster.machine.folder, 'reader')
    this.#patience = patience
  }

  /** Five nodes and the example, by the lines of deploy.md: what the other pages presuppose. Once. */
  installed(): Promise<void> {
    this.#installed ??= this.#install()
    return this.#installed
  }

  async #install(): Promise<void> {
    await mkdir(this.folder)
    await cp(join(root, 'deploy'), join(this.folder, 'deploy'), { recursive: true, dereference: true })
    await allowOneMachine(this.cluster, this.#patience)
    for (const line of [APPLY_NODES, APPLY_EXAMPLE, ROLLED_OUT_NODES, ROLLED_OUT_EXAMPLE])
      await this.run(line)
  }

  /** A shell with this namespace by default, as `kubectl config set-context --current --namespace` leaves it. */
  async #script(script: string, namespace: string): Promise<string> {
    const kubeconfig = join(this.folder, `kubeconfig-${namespace}`)
    const config = JSON.parse(
      await this.cluster.kubectl('config', 'view', '--raw', '--flatten', '-o', 'json'),
    )
    config.contexts[0].context.namespace = namespace
    await writeFile(kubeconfig, JSON.stringify(config))
    return `export KUBECONFIG='${kubeconfig}'; cd '${this.folder}'; exec 2>&1\n${script}`
  }

  /** @returns what was written to stdout and stderr */
  async run(what: PageLine | Block, names: Names = {}, options: ShellOptions = {}): Promise<string> {
    const { namespace = DEFAULT_NAMESPACE, input, before = '', after = '' } = options
    const script = await this.#script([before, this.#filled(what, names), after].join('\n'), namespace)
    return this.cluster.run('timeout', [String(LINE_S_MAX), 'sh', '-euc', script], input)
  }

  /** A line that goes on until it is ended: `await using`. */
  async start(line: PageLine, names: Names = {}, namespace = DEFAULT_NAMESPACE): Promise<TestProcess> {
    const command = this.#filled(line, names).replace(/ &$/, '')
    return this.cluster.start('sh', ['-euc', await this.#script(`exec ${command}`, namespace)])
  }

  #filled(what: PageLine | Block, names: Names): string {
    const lines = 'lines' in what ? what.lines : [what]
    for (const { text } of lines) this.ran.add(text)
    return filled('script' in what ? what.script : what.text, names)
  }

  /** One that the reader has already, as strict as that of the example. */
  async namespace(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const metadata = { name, labels: { 'pod-security.kubernetes.io/enforce': 'restricted', ...labels } }
    await this.cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata })
  }

  /** The program of the package, on the reader's machine. */
  fencepost(...args: readonly string[]): Promise<string> {
    return this.cluster.run(process.execPath, [MAIN_PROGRAM, ...args])
  }

  /** A pod of the example, with its sidecar. */
  async pod(): Promise<string> {
    const { items } = await this.cluster.get(
      ...['--namespace', DEFAULT_NAMESPACE, 'pods', '--selector', 'app.kubernetes.io/name=payments'],
    )
    const pod = items.find(
      ({ metadata, status }: (typeof items)[0]) =>
        metadata.deletionTimestamp === undefined && status.conditions?.some(isReady),
    )
    if (pod === undefined) throw new Error('no pod of the example is ready')
    return pod.metadata.name
  }
}

export type ShellOptions = {
  /** The reader's namespace. Default: that of the example. */
  readonly namespace?: string
  readonly input?: string
  /** What the reader's shell has done before, and does afterwards. */
  readonly before?: string
  readonly after?: string
}

/** @throws where a name does not stand there */
export function filled(text: string, names: Names): string {
  let own = text
  for (const [name, value] of Object.entries(names)) {
    if (!own.includes(name)) throw new Error(`\`${text}\` has no ${name}`)
    own = own.replaceAll(name, () => value)
  }
  return own
}
