/** What `helm upgrade` does when a Secret has changed: the pods that read it at their start are replaced. Helm looks it up in a cluster, here a stand-in. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FETCH_MS_MAX, fetchProgram } from '../support/fetched-programs.ts'
import { type Charts, HELM_ENV, prepareCharts } from '../support/helm-charts.ts'
import { manifestsIn } from '../support/kubernetes-objects.ts'

let charts: Charts
let helm: string
beforeAll(async () => {
  charts = await prepareCharts()
  helm = await fetchProgram('helm')
}, FETCH_MS_MAX)
afterAll(() => charts?.[Symbol.dispose]())

/** As much of an API server as `lookup` asks for. */
async function startApi(secrets: Readonly<Record<string, Readonly<Record<string, string>>>>) {
  const kinds = ['Secret', 'ConfigMap'].map((kind) => {
    return { name: `${kind.toLowerCase()}s`, singularName: '', namespaced: true, kind, verbs: ['get'] }
  })
  const answers: Record<string, object> = {
    '/version': { major: '1', minor: '37', gitVersion: 'v1.37.0' },
    '/api': { kind: 'APIVersions', versions: ['v1'] },
    '/apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: [] },
    '/api/v1': { kind: 'APIResourceList', groupVersion: 'v1', resources: kinds },
  }
  for (const [name, data] of Object.entries(secrets))
    answers[`/api/v1/namespaces/shop/secrets/${name}`] = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: 'shop' },
      data,
    }
  const missing = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 }
  const server = createServer((request, response) => {
    const answer = answers[new URL(request.url ?? '', 'http://api').pathname]
    response
      .writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
      .end(JSON.stringify(answer ?? missing))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const kubeconfig = join(charts.folder, 'kubeconfig')
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'here', cluster: { server: `http://127.0.0.1:${port}` } }],
      contexts: [{ name: 'here', context: { cluster: 'here', user: 'me' } }],
      users: [{ name: 'me', user: {} }],
      'current-context': 'here',
    }),
  )
  return {
    kubeconfig,
    [Symbol.dispose]: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** The annotations of the pods of each Deployment, with these Secrets in the cluster. */
async function podAnnotations(chart: string, set: string, secrets: Parameters<typeof startApi>[0]) {
  using api = await startApi(secrets)
  const as = ['--namespace', 'shop', '--kube-version', '1.37.0', '--dry-run=server']
  const args = ['template', 'rel', chart, ...as, '--set', set]
  const { stdout } = await promisify(execFile)(helm, args, {
    cwd: charts.folder,
    env: { ...HELM_ENV, KUBECONFIG: api.kubeconfig },
    maxBuffer: 64 * 1024 * 1024,
  })
  return manifestsIn(stdout)
    .filter(({ kind }) => kind === 'Deployment')
    .map(({ metadata, spec }) => [metadata.name, spec.template.metadata.annotations])
}

const RING = 'secretFiles.FENCEPOST_KEY_RING_FILE.secret=ring,secretFiles.FENCEPOST_KEY_RING_FILE.key=keys'
const SERVICE = `service.tokenSecret=token,redis.bundled.openToAll=true,probe.enabled=true,${RING}`
const EXAMPLE = RING.replaceAll('secretFiles', 'fencepost.secretFiles')

/**
 * Bug: a Secret of `secretFiles` was in no checksum. After `helm upgrade` old pods went on with the old key ring, and could not read what new
 * ones wrote with the new one.
 */
test.each([
  ['example', EXAMPLE],
  ['fencepost', SERVICE],
])(
  'the pods of the chart %s are replaced when a file of secretFiles has changed, and not otherwise',
  async (chart, set) => {
    const before = await podAnnotations(chart, set, { ring: { keys: 'b2xk', other: 'YQ==' } })
    expect(await podAnnotations(chart, set, { ring: { keys: 'b2xk', other: 'Yg==' } })).toEqual(before)
    const after = await podAnnotations(chart, set, { ring: { keys: 'bmV3', other: 'YQ==' } })
    expect(before.length).toBeGreaterThan(0)
    for (const [index, [name, annotations]] of after.entries())
      expect([name, annotations]).not.toEqual([name, before[index]?.[1]])
  },
)

test('a token, which is read again while the pod runs, replaces none', async () => {
  const before = await podAnnotations('fencepost', SERVICE, { token: { token: 'b2xk' } })
  expect(await podAnnotations('fencepost', SERVICE, { token: { token: 'bmV3' } })).toEqual(before)
})
