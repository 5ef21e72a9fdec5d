/** What the check does to an API server, by the programs that people use: helm and kubectl. */
import { spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../support/eventually.ts'
import type { Manifest } from '../support/kubernetes-objects.ts'
import type { ApiServer } from './server.ts'

/** The form in which kubectl and helm print warnings of the server, those of Pod Security included. */
const WARNING = /^(W\d{4} .*|Warning: .*)$/gm
const TEST_MS_MAX = 30_000

export class Cluster {
  readonly #server: ApiServer
  readonly #helm: string

  constructor(server: ApiServer, helm: string) {
    this.#server = server
    this.#helm = helm
  }

  /** A namespace that enforces "restricted" on pods and warns about templates of workloads, where it can't. */
  async addNamespace(name: string): Promise<void> {
    const labels = { enforce: 'restricted', warn: 'restricted' }
    const metadata = {
      name,
      labels: Object.fromEntries(
        Object.entries(labels).map(([mode, level]) => [`pod-security.kubernetes.io/${mode}`, level]),
      ),
    }
    await this.#create({ apiVersion: 'v1', kind: 'Namespace', metadata })
    await this.addAccount(name)
  }

  /** In a whole cluster a controller creates it; pods are refused without it. */
  async addAccount(namespace: string): Promise<void> {
    const metadata = { name: 'default', namespace }
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata }
    await this.#kubectl(['apply', '-f', '-'], JSON.stringify(account))
  }

  /** Of the Prometheus operator. */
  async addDefinitions(folder: string): Promise<void> {
    for (const kind of ['podmonitors', 'prometheusrules']) {
      const [file] = globSync(join(folder, `*_${kind}.yaml`))
      await this.#kubectl(['create', '-f', file as string])
      const name = `crd/${kind}.monitoring.coreos.com`
      await this.#kubectl(['wait', '--for=condition=Established', '--timeout=30s', name])
    }
  }

  async dependencies(chart: string): Promise<void> {
    await this.#run(this.#helm, ['dependency', 'build', chart])
  }

  /** A line of a page, as its reader runs it. */
  kubectl(namespace: string, ...args: readonly string[]): Promise<string> {
    return this.#kubectl(['--namespace', namespace, ...args])
  }

  helm(namespace: string, ...args: readonly string[]): Promise<string> {
    return this.#run(this.#helm, ['--namespace', namespace, ...args])
  }

  /** Helm drops unknown fields; here they are errors. */
  async strictly(namespace: string, chart: string, values: readonly string[]): Promise<void> {
    const rendered = await this.helm(
      namespace,
      'template',
      'rel',
      chart,
      '--no-hooks',
      '--validate',
      ...values,
    )
    await this.#kubectl(
      [
        '--namespace',
        namespace,
        'apply',
        '--dry-run=server',
        '--validate=strict',
        '--force-conflicts',
        '--server-side',
        '-f',
        '-',
      ],
      rendered,
    )
  }

  async apply(folder: string): Promise<void> {
    await this.#kubectl(['apply', '--validate=strict', '-k', folder])
  }

  /** A pod from each workload's template, as its controller would create it. */
  async admitsPods(namespace: string): Promise<void> {
    const listed = await this.#kubectl([
      '--namespace',
      namespace,
      'get',
      'deployments,statefulsets',
      '-o',
      'json',
    ])
    const { items } = JSON.parse(listed) as { items: Manifest[] }
    if (items.length === 0) throw new Error(`there is no workload in ${namespace}`)
    for (const { metadata, spec } of items) {
      const { template, volumeClaimTemplates = [] } = spec
      const claims = volumeClaimTemplates.map((claim: Manifest) => ({
        name: claim.metadata.name,
        persistentVolumeClaim: { claimName: `${claim.metadata.name}-${metadata.name}-0` },
      }))
      const volumes = [...(template.spec.volumes ?? []), ...claims]
      await this.#create(
        {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { ...template.metadata, name: `${metadata.name}-0`, namespace },
          spec: { ...template.spec, volumes },
        },
        '--dry-run=server',
      )
    }
  }

  /** The pod of a deployment, as its controller would create it; it stays, and no kubelet runs it. */
  async addPodOf(namespace: string, deployment: string, name: string): Promise<void> {
    const { template } = await this.deployed(namespace, deployment)
    const metadata = { ...template.metadata, name, namespace }
    await this.#create({ apiVersion: 'v1', kind: 'Pod', metadata, spec: template.spec })
  }

  async refusesUnrestricted(namespace: string): Promise<void> {
    const container = { name: 'a', image: 'a' }
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'a', namespace },
      spec: { containers: [container] },
    }
    const told = await this.#create(pod).catch((error: Error) => error.message)
    if (!told.includes('violates PodSecurity "restricted'))
      throw new Error(`the pod was not refused for what it is: ${told}`)
  }

  /** As it is from now on. */
  async put(manifest: Manifest): Promise<void> {
    await this.#kubectl(['apply', '-f', '-'], JSON.stringify(manifest))
  }

  async label(namespace: string, label: string): Promise<void> {
    await this.#kubectl(['label', 'namespace', namespace, label])
  }

  /** What the server makes of a pod, which it does not keep. */
  async admitted(namespace: string, pod: Manifest): Promise<Manifest> {
    const options = ['--namespace', namespace, '--dry-run=server', '--output=json']
    return JSON.parse(await this.#create(pod, ...options)) as Manifest
  }

  async untilAdmitted(namespace: string, pod: Manifest, like: (pod: Manifest) => boolean): Promise<void> {
    await eventually(
      'the pod is admitted as it should be',
      () => this.admitted(namespace, pod).then(like, () => false),
      { withinMs: TEST_MS_MAX },
    )
  }

  async untilRefused(namespace: string, pod: Manifest): Promise<void> {
    const refused = () =>
      this.admitted(namespace, pod).then(
        () => false,
        () => true,
      )
    await eventually('the pod is refused', refused, { withinMs: TEST_MS_MAX })
  }

  async refuses(namespace: string, pod: Manifest, sentence: string): Promise<void> {
    const told = await this.admitted(namespace, pod).then(
      () => 'it was admitted',
      (error: Error) => error.message,
    )
    if (!told.includes(sentence)) throw new Error(`the server did not say: ${sentence}\n${told}`)
  }

  async deployed(namespace: string, name: string): Promise<Manifest> {
    const said = await this.#kubectl(['--namespace', namespace, 'get', `deployment/${name}`, '-o', 'json'])
    return JSON.parse(said).spec
  }

  /** The pod of the test is created for real; no kubelet runs it, so its status is patched to Succeeded. */
  async helmTest(namespace: string, release: string): Promise<void> {
    const test = this.helm(namespace, 'test', release, '--timeout', `${TEST_MS_MAX / 1_000}s`)
    const pod = ['--namespace', namespace, 'wait', '--for=create', '--timeout=20s', `pod/${release}-selftest`]
    const ended = this.#kubectl(pod).then(() =>
      this.#kubectl([
        '--namespace',
        namespace,
        'patch',
        'pod',
        `${release}-selftest`,
        '--subresource=status',
        '--type=merge',
        '--patch',
        '{"status":{"phase":"Succeeded"}}',
      ]),
    )
    await Promise.all([test, ended])
  }

  #create(manifest: Manifest, ...more: readonly string[]): Promise<string> {
    return this.#kubectl(['create', '--validate=strict', ...more, '-f', '-'], JSON.stringify(manifest))
  }

  #kubectl(args: readonly string[], input?: string): Promise<string> {
    return this.#run(this.#server.kubectl, args, input)
  }

  /** @returns what it wrote to stdout; a warning of the server is a failure */
  #run(program: string, args: readonly string[], input = ''): Promise<string> {
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, {
        stdio: ['pipe', 'pipe', 'pipe'],
        env: { ...process.env, KUBECONFIG: this.#server.kubeconfig },
      })
      let answered = ''
      let said = ''
      child.stdout.setEncoding('utf8').on('data', (text) => {
        answered += text
      })
      child.stderr.setEncoding('utf8').on('data', (text) => {
        said += text
      })
      child.stdin.on('error', () => {})
      child.stdin.end(input)
      child.once('error', reject)
      child.once('close', (code) => {
        if (code === 0 && said.match(WARNING) === null) resolve(answered)
        else reject(new Error(`\`${program} ${args.join(' ')}\` ended with ${code}\n${said}`))
      })
    })
  }
}
