/**
 * The `helm` and `kubectl` lines of docs/operations/one-key.md, held to what the chart renders: the Secret that a line makes is the one
 * that the pods read, and the container, the port and the program that a line names are there. `npm run campaign -- apiserver` runs
 * them on a real API server.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { parseOperatorTokens } from '../src/core/operator/operator-tokens.ts'
import { duringTests } from './support/during-tests.ts'
import { FETCH_MS_MAX } from './support/fetched-programs.ts'
import { prepareCharts } from './support/helm-charts.ts'
import { type Manifest, podOf } from './support/kubernetes-objects.ts'
import { CLUSTER_LINES, COMMAND_LINES, ONE_KEY_PAGE, tokensFileOfPage } from './support/one-key-page.ts'

let manifests: readonly Manifest[]
/** Of the shared service, as the line of the page opens it. */
let pod: Manifest
let container: Manifest
const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)
beforeAll(() => {
  // `…` stands for the release, the chart and the values that the reader has.
  const [, given = ''] = /^helm upgrade … (.*)$/.exec(lineOf('helm upgrade')) ?? []
  const own = ['--set', 'service.tokenSecret=token', '--set', 'redis.bundled.openToAll=true']
  manifests = charts.rendered('fencepost', [...own, ...given.split(' ')])
  pod = podOf(manifests.find(({ kind }) => kind === 'Deployment'))
  ;[container] = pod.containers
}, FETCH_MS_MAX)

function lineOf(start: string): string {
  const line = CLUSTER_LINES.find((one) => one.startsWith(start))
  if (line === undefined) throw new Error(`the page has no line ${start}`)
  return line
}

const settingOf = (name: string): string | undefined =>
  container.env.find((one: Manifest) => one.name === name)?.value

test('the page has these lines, and no other', () => {
  expect(CLUSTER_LINES.map((line) => line.split(' ').slice(0, 2).join(' '))).toEqual([
    'kubectl create',
    'helm upgrade',
    'kubectl port-forward',
    'kubectl exec',
  ])
})

test('the Secret that is made of the file with tokens is the one that the pods read, under the key that they read', () => {
  const [, secret, key, file] =
    /^kubectl create secret generic (\S+) --from-file=(\w+)=(\w+)$/.exec(lineOf('kubectl create')) ?? []
  // The file as the page shows it is one that the sidecar takes.
  expect(ONE_KEY_PAGE).toContain(`/run/secrets/${file}`)
  expect(parseOperatorTokens(tokensFileOfPage().content).kind).toBe('tokens')
  const volume = pod.volumes.find((one: Manifest) => one.secret?.secretName === secret)
  expect(volume.secret.items).toEqual([{ key, path: key }])
  const { mountPath } = container.volumeMounts.find(({ name }: Manifest) => name === volume.name)
  expect(settingOf('FENCEPOST_OPERATOR_TOKENS_FILE')).toBe(`${mountPath}/${key}`)
})

test('the port that is forwarded is that of the listener in the pod, and the address beside it', () => {
  const [, port] = /^kubectl port-forward POD (\d+)$/.exec(lineOf('kubectl port-forward')) ?? []
  // What listens on the loopback of a pod is reached by port-forward, and by nothing else.
  expect(settingOf('FENCEPOST_OPERATOR_LISTEN')).toBe(`127.0.0.1:${port}`)
  expect(ONE_KEY_PAGE).toMatch(
    new RegExp(`kubectl port-forward POD ${port} +# then --operator http://127\\.0\\.0\\.1:${port}$`, 'm'),
  )
})

test('the program that is run in a pod is that of the image, in a container that is there, with its nodes in its settings', () => {
  const [, name, program, args] =
    /^kubectl exec POD --container (\S+) -- (\S+ \S+) (.*)$/.exec(lineOf('kubectl exec')) ?? []
  expect(container.name).toBe(name)
  const dockerfile = readFileSync(join(import.meta.dirname, '../Dockerfile'), 'utf8')
  const entry = JSON.parse(/^ENTRYPOINT (\[.*\])$/m.exec(dockerfile)?.[1] ?? '[]') as string[]
  expect([program, container.command]).toEqual([entry.join(' '), undefined])
  // The same command is run by one-key-page.test.ts.
  expect(COMMAND_LINES).toContain(`fencepost ${args}`)
  expect(settingOf('FENCEPOST_REDIS_NODES')).toMatch(/^rediss?:/)
})
