/** What `helm upgrade` does when a Secret has changed: the pods that read it at their start are replaced. Helm looks it up in a cluster, here a stand-in. */
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { renderedAmong } from '../support/lookup-api.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

/** The annotations of the pods of each Deployment, or of each workload of another kind, with these Secrets in the cluster. */
async function podAnnotations(
  chart: string,
  set: string,
  secrets: Readonly<Record<string, Readonly<Record<string, string>>>>,
  of = 'Deployment',
) {
  const objects = Object.entries(secrets).map(([name, data]) => {
    return { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'shop' }, data }
  })
  const manifests = await renderedAmong(objects, charts.folder, chart, ['--set', set])
  return manifests
    .filter(({ kind }) => kind === of)
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

test('a node is replaced when its users or its certificate have changed, also where one Secret has both', async () => {
  const login = 'service.tokenSecret=token,redis.username=fencepost,redis.passwordSecret=p,redis.caSecret=tls'
  const nodes = (
    tls: string,
    users: string,
    secrets: Readonly<Record<string, Readonly<Record<string, string>>>>,
  ) =>
    podAnnotations(
      'fencepost',
      `${login},redis.bundled.tlsSecret=${tls},redis.bundled.usersSecret=${users}`,
      secrets,
      'StatefulSet',
    )
  const before = await nodes('tls', 'users', { tls: { 'tls.crt': 'YQ==' }, users: { 'users.acl': 'YQ==' } })
  const others = [
    { tls: { 'tls.crt': 'Yg==' }, users: { 'users.acl': 'YQ==' } },
    { tls: { 'tls.crt': 'YQ==' }, users: { 'users.acl': 'Yg==' } },
  ]
  for (const secrets of others) expect(await nodes('tls', 'users', secrets)).not.toEqual(before)
  const both = await nodes('all', 'all', { all: { 'tls.crt': 'YQ==', 'users.acl': 'YQ==' } })
  const changed = { all: { 'tls.crt': 'YQ==', 'users.acl': 'Yg==' } }
  expect(await nodes('all', 'all', changed)).not.toEqual(both)
})
