/**
 * kube-apiserver and etcd, built from their Go modules into the cache of fetched programs.
 *
 * `go install k8s.io/kubernetes/cmd/kube-apiserver@…` is refused, because the module replaces its staging repositories by
 * folders of its own; these are published as modules too, so a module of ours requires both and replaces each by its
 * published version. Building takes six minutes of a processor, once.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { cached, goProgram, run } from '../support/fetched-programs.ts'

export const KUBERNETES = '1.36.3'
/** The version that this Kubernetes is tested with: in its go.mod. */
const ETCD = 'v3.6.8'
const MODULE = `k8s.io/kubernetes@v${KUBERNETES}`

export type Programs = { readonly apiserver: string; readonly etcd: string }

export async function buildPrograms(): Promise<Programs> {
  const apiserver = await cached(`kube-apiserver-v${KUBERNETES}-etcd-${ETCD}`, 'kube-apiserver', build)
  return { apiserver, etcd: join(dirname(apiserver), 'etcd') }
}

async function build(into: string): Promise<void> {
  console.log(`building kube-apiserver ${KUBERNETES} and etcd ${ETCD} from their modules …`)
  const go = await goProgram()
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-apiserver-'))
  const inFolder = (...args: string[]) => run('kube-apiserver', go, args, {}, folder)
  try {
    const { GoMod } = JSON.parse(await inFolder('mod', 'download', '-json', MODULE)) as { GoMod: string }
    await writeFile(join(folder, 'go.mod'), moduleFile(await readFile(GoMod, 'utf8')))
    // What `kubectl version` and a chart's kubeVersion see; without it the server calls itself v0.0.0.
    const [major, minor] = KUBERNETES.split('.')
    const told = { gitVersion: `v${KUBERNETES}`, gitMajor: major, gitMinor: minor }
    const flags = Object.entries(told).map(
      ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
    )
    const ldflags = ['-s', '-w', ...flags].join(' ')
    const to = (name: string) => ['-o', join(into, name), '-ldflags', ldflags]
    await inFolder('build', '-p', '2', ...to('etcd'), 'go.etcd.io/etcd/server/v3')
    await inFolder('build', '-p', '2', ...to('kube-apiserver'), 'k8s.io/kubernetes/cmd/kube-apiserver')
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
    'module fencepost.test/apiserver',
    `go ${go}`,
    `require k8s.io/kubernetes v${KUBERNETES}`,
    `require go.etcd.io/etcd/server/v3 ${ETCD}`,
    ...staged.map((name) => `replace ${name} => ${name} ${version}`),
    '',
  ].join('\n')
}
