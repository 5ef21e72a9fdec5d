/** A Kubernetes cluster of one node on this machine, and what a test does to it by kubectl and helm. */
import { execFile } from 'node:child_process'
import { cp, mkdir } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { eventually } from '../support/eventually.ts'
import { fetchProgram } from '../support/fetched-programs.ts'
import type { Manifest } from '../support/kubernetes-objects.ts'
import { TestProcess } from '../support/processes.ts'
import { startControlPlane } from './control-plane.ts'
import { buildImages } from './images.ts'
import { type Machine, startMachine } from './machine.ts'
import { containerdSocket, startNode } from './node.ts'
import { clusterProgram } from './requirements.ts'

const root = join(import.meta.dirname, '../..')
const READY_MS_MAX = 300_000
/** Each is used once: a claim that is deleted leaves its data behind. */
const VOLUMES = 40

export class Cluster implements AsyncDisposable {
  readonly machine: Machine
  /** A copy of deploy/helm, with what its charts depend on. */
  readonly charts: string
  readonly kubeconfig: string
  readonly #env: Readonly<Record<string, string | undefined>>
  readonly #helm: string
  readonly #kubectl = clusterProgram('kubectl')

  constructor(machine: Machine, kubeconfig: string, helm: string) {
    this.machine = machine
    this.charts = join(machine.folder, 'charts')
    this.kubeconfig = kubeconfig
    this.#helm = helm
    // A script finds both programs by their names.
    const path = [dirname(helm), dirname(this.#kubectl), process.env.PATH].join(delimiter)
    this.#env = { ...process.env, KUBECONFIG: kubeconfig, PATH: path }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.machine[Symbol.asyncDispose]()
  }

  async prepare(): Promise<void> {
    const { name, folder } = this.machine
    const ready = async () => (await this.get('node', name)).status.conditions.some(isReady)
    await eventually('the node is Ready', ready, { withinMs: READY_MS_MAX, everyMs: 250 })
    await this.apply(
      ...(await Promise.all(Array.from({ length: VOLUMES }, (_, index) => volume(folder, name, index)))),
    )
    await cp(join(root, 'deploy/helm'), this.charts, { recursive: true, dereference: true })
    for (const chart of ['fencepost', 'example'])
      await this.helm('dependency', 'build', join(this.charts, chart))
  }

  kubectl(...args: readonly string[]): Promise<string> {
    return this.run(this.#kubectl, args)
  }

  helm(...args: readonly string[]): Promise<string> {
    return this.run(this.#helm, args)
  }

  async apply(...objects: readonly object[]): Promise<void> {
    const list = { apiVersion: 'v1', kind: 'List', items: objects }
    await this.run(this.#kubectl, ['apply', '-f', '-'], JSON.stringify(list))
  }

  async get(...args: readonly string[]): Promise<Manifest> {
    return JSON.parse(await this.kubectl('get', ...args, '-o', 'json'))
  }

  /** A call of the API that kubectl has no command for. */
  async create(path: string, object: object): Promise<void> {
    await this.run(this.#kubectl, ['create', '--raw', path, '-f', '-'], JSON.stringify(object))
  }

  /** Process 1 of a container gets SIGKILL, which it could not be sent from inside. */
  async kill(container: string): Promise<void> {
    const socket = containerdSocket(this.machine)
    const args = [
      '--address',
      socket,
      '--namespace',
      'k8s.io',
      'tasks',
      'kill',
      '--signal',
      'SIGKILL',
      container,
    ]
    const { code } = await this.machine.start(clusterProgram('ctr'), args).exited
    if (code !== 0) throw new Error(`the container ${container} could not be killed`)
  }

  /**
   * While a Service gets its first endpoint, kube-proxy's tables change one after the other, and a connection may be neither refused
   * nor led to a pod. The kernel remembers for two minutes that it was not, and leads astray whoever uses the port of that client again.
   */
  async forgetUnansweredConnections(): Promise<void> {
    // Ends with 1 where there is none.
    await this.run('conntrack', ['-D', '-p', 'tcp', '--state', 'SYN_SENT']).catch((error: Error) => {
      if (!error.message.includes('0 flow entries have been deleted')) throw error
    })
  }

  /** A program in the network of the machine, which goes on. */
  start(program: string, args: readonly string[]): TestProcess {
    const [nsenter, ...inside] = this.machine.inNetwork
    return new TestProcess(nsenter, [...inside, program, ...args], { name: program, env: this.#env })
  }

  /** @returns what it wrote to stdout */
  async run(program: string, args: readonly string[], input?: string, cwd = root): Promise<string> {
    const [nsenter, ...inside] = this.machine.inNetwork
    const options = { env: this.#env, maxBuffer: 64 * 1024 * 1024, cwd }
    const running = promisify(execFile)(nsenter, [...inside, program, ...args], options)
    running.child.stdin?.on('error', () => {})
    running.child.stdin?.end(input ?? '')
    try {
      return (await running).stdout
    } catch (cause) {
      const { stdout, stderr } = cause as { stdout: string; stderr: string }
      throw new Error(`\`${program} ${args.join(' ')}\` failed\n${stdout}${stderr}`, { cause })
    }
  }
}

export async function startCluster(tell: (line: string) => void): Promise<Cluster> {
  const fromMs = performance.now()
  const say = (what: string) => tell(`${((performance.now() - fromMs) / 1_000).toFixed(1)} s  ${what}`)
  const machine = await startMachine('node-a')
  try {
    const folder = join(machine.folder, 'images')
    await mkdir(folder)
    const [images, kubeconfig] = await Promise.all([buildImages(folder), startControlPlane(machine)])
    say('control plane and images')
    await startNode(machine, kubeconfig, images)
    const cluster = new Cluster(machine, kubeconfig, await fetchProgram('helm'))
    await cluster.prepare()
    say('the node is Ready')
    return cluster
  } catch (cause) {
    await machine[Symbol.asyncDispose]()
    throw cause
  }
}

export function isReady({ type, status }: { type: string; status: string }): boolean {
  return type === 'Ready' && status === 'True'
}

/** On the disk of the machine; there is no provisioner. */
async function volume(folder: string, node: string, index: number): Promise<object> {
  const path = join(folder, 'volumes', String(index))
  await mkdir(path, { recursive: true })
  const here = { key: 'kubernetes.io/hostname', operator: 'In', values: [node] }
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: `volume-${index}` },
    spec: {
      capacity: { storage: '4Gi' },
      accessModes: ['ReadWriteOnce'],
      persistentVolumeReclaimPolicy: 'Retain',
      local: { path },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [here] }] } },
    },
  }
}
