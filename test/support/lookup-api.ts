/** As much of an API server as the function `lookup` of Helm asks for: `helm template --dry-run=server` renders against it. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fetchProgram } from './fetched-programs.ts'
import { HELM_ENV } from './helm-charts.ts'
import { type Manifest, manifestsIn } from './kubernetes-objects.ts'
import { listening } from './listening.ts'

const GROUPS: Readonly<Record<string, readonly string[]>> = {
  '/api/v1': ['Secret', 'ConfigMap'],
  '/apis/apps/v1': ['StatefulSet', 'Deployment'],
}
const MISSING = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 }

/** The answer of every path, with these objects in the namespace `shop`. */
function answersOf(objects: readonly Manifest[]): Map<string, object> {
  const answers = new Map<string, object>([
    ['/version', { major: '1', minor: '37', gitVersion: 'v1.37.0' }],
    ['/api', { kind: 'APIVersions', versions: ['v1'] }],
    ['/apis', { kind: 'APIGroupList', apiVersion: 'v1', groups: [] }],
  ])
  for (const [path, kinds] of Object.entries(GROUPS)) {
    const groupVersion = path.replace(/^\/apis?\//, '')
    const resources = kinds.map((kind) => {
      const verbs = ['get', 'list']
      return { name: `${kind.toLowerCase()}s`, singularName: '', namespaced: true, kind, verbs }
    })
    answers.set(path, { kind: 'APIResourceList', groupVersion, resources })
    for (const { name, kind } of resources) {
      const items = objects.filter((object) => object.kind === kind)
      const folder = `${path}/namespaces/shop/${name}`
      answers.set(folder, { apiVersion: groupVersion, kind: `${kind}List`, metadata: {}, items })
      for (const item of items) answers.set(`${folder}/${item.metadata.name}`, item)
    }
  }
  return answers
}

async function startApi(objects: readonly Manifest[], kubeconfig: string): Promise<Disposable> {
  const answers = answersOf(objects)
  const server = createServer((request, response) => {
    const answer = answers.get(new URL(request.url ?? '', 'http://api').pathname)
    response
      .writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
      .end(JSON.stringify(answer ?? MISSING))
  })
  const { port } = await listening(server)
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'here', cluster: { server: `http://127.0.0.1:${port}` } }],
    contexts: [{ name: 'here', context: { cluster: 'here', user: 'me' } }],
    users: [{ name: 'me', user: {} }],
    'current-context': 'here',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  return {
    [Symbol.dispose]: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

/**
 * A chart as release `rel` in the namespace `shop`, in which these objects are. Rejects with what Helm says where it refuses.
 *
 * @param folder of the charts, prepared
 */
export async function renderedAmong(
  objects: readonly Manifest[],
  folder: string,
  chart: string,
  args: readonly string[],
): Promise<Manifest[]> {
  const helm = await fetchProgram('helm')
  const own = mkdtempSync(join(tmpdir(), 'fencepost-lookup-'))
  const kubeconfig = join(own, 'kubeconfig')
  try {
    using _api = await startApi(objects, kubeconfig)
    const as = ['--namespace', 'shop', '--kube-version', '1.37.0', '--dry-run=server']
    const { stdout } = await promisify(execFile)(helm, ['template', 'rel', chart, ...as, ...args], {
      cwd: folder,
      env: { ...HELM_ENV, KUBECONFIG: kubeconfig },
      maxBuffer: 64 * 1024 * 1024,
    })
    return manifestsIn(stdout)
  } finally {
    rmSync(own, { recursive: true, force: true })
  }
}
