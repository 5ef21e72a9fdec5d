/**
 * The programs of a Kubernetes cluster, built from their Go modules into the cache of fetched programs, each by itself, so that
 * a build which is ended keeps what is done.
 *
 * `go install k8s.io/kubernetes/cmd/kube-apiserver@…` is refused, because the module replaces its staging repositories by
 * folders of its own; these are published as modules too, so a module of ours requires both and replaces each by its
 * published version. kube-apiserver and etcd take six minutes of a processor, once; all of them eighteen.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cached, goProgram, isCached, run } from '../support/fetched-programs.ts'

export const KUBERNETES = '1.36.3'
/** The version that this Kubernetes is tested with: in its go.mod. */
const ETCD = 'v3.6.8'
const MODULE = `k8s.io/kubernetes@v${KUBERNETES}`

const PACKAGES = {
  etcd: 'go.etcd.io/etcd/server/v3',
  'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
  'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
  'kube-scheduler': 'k8s.io/kubernetes/cmd/kube-scheduler',
  kubelet: 'k8s.io/kubernetes/cmd/kubelet',
  'kube-proxy': 'k8s.io/kubernetes/cmd/kube-proxy',
} as const

export type KubernetesProgram = keyof typeof PACKAGES
export const KUBERNETES_PROGRAMS = Object.keys(PACKAGES) as KubernetesProgram[]

export type Programs = { readonly apiserver: string; readonly etcd: string }

export async function buildPrograms(): Promise<Programs> {
  return { etcd: await kubernetesProgram('etcd'), apiserver: await kubernetesProgram('kube-apiserver') }
}

/** The absolute path of the program, built where it is not in the cache yet. */
export function kubernetesProgram(name: KubernetesProgram): Promise<string> {
  return cached(versionOf(name), name, (into) => build(name, into))
}

export function isBuilt(name: KubernetesProgram): boolean {
  return isCached(versionOf(name), name)
}

function versionOf(name: KubernetesProgram): string {
  return `kubernetes-${name}-${name === 'etcd' ? ETCD : `v${KUBERNETES}`}`
}

async function build(name: KubernetesProgram, into: string): Promise<void> {
  console.log(`building ${name} of Kubernetes ${KUBERNETES} from its module …`)
  const go = await goProgram()
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-kubernetes-'))
  const inFolder = (...args: string[]) => run(name, go, args, {}, folder)
  try {
    const { GoMod } = JSON.parse(await inFolder('mod', 'download', '-json', MODULE)) as { GoMod: string }
    await writeFile(join(folder, 'go.mod'), moduleFile(await readFile(GoMod, 'utf8')))
    // What `kubectl version` and a chart's kubeVersion see; without it the server calls itself v0.0.0.
    const [major, minor] = KUBERNETES.split('.')
    const told = { gitVersion: `v${KUBERNETES}`, gitMajor: major, gitMinor: minor }
    const flags = Object.entries(told).map(
      ([field, value]) => `-X k8s.io/component-base/version.${field}=${value}`,
    )
    const ldflags = ['-s', '-w', ...flags].join(' ')
    await inFolder('build', '-p', '2', '-o', join(into, name), '-ldflags', ldflags, PACKAGES[name])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** @param theirs the go.mod of Kubernetes: which Go it needs, and which of its modules it replaces */
function moduleFile(theirs: string): string {
  const go = /^go (\S+)/m.exec(theirs)?.[1]
  const staged = [...theirs.matchAll(/^\s*(k8s\.io\/\S+) => \.\/staging\//gm)].map(([, name]) => name)
  // v1.36.3 of Kubernetes is v0.36.3 of each of them.
  const version = KUBERNETES.replace(/^1\./, 'v0.')
  return [
    'module fencepost.test/kubernetes',
    `go ${go}`,
    `require k8s.io/kubernetes v${KUBERNETES}`,
    `require go.etcd.io/etcd/server/v3 ${ETCD}`,
    ...staged.map((name) => `replace ${name} => ${name} ${version}`),
    '',
  ].join('\n')
}
