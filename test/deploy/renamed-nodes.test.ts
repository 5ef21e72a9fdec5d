/** `helm upgrade` of a release that would go on without its nodes, or with others of another name: refused, because they have all of its records. */
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import type { Manifest } from '../support/kubernetes-objects.ts'
import { renderedAmong } from '../support/lookup-api.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const SET = 'service.tokenSecret=token,redis.bundled.openToAll=true'

const nodes = (
  name: string,
  { release = 'rel', chart = 'fencepost-0.1.0', app = 'fencepost-redis', replicas = 5 } = {},
) => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: {
    name,
    namespace: 'shop',
    annotations: { 'meta.helm.sh/release-name': release, 'meta.helm.sh/release-namespace': 'shop' },
    labels: { 'helm.sh/chart': chart, 'app.kubernetes.io/name': app },
  },
  spec: { replicas },
})
const upgraded = (objects: readonly Manifest[], set = SET, ...more: string[]) =>
  renderedAmong(objects, charts.folder, 'fencepost', ['--is-upgrade', '--set', set, ...more])

// Bug: fullnameOverride at an upgrade put five empty nodes in the place of those with all records. Every retry was executed again.
test('an upgrade that would put other nodes in the place of those of the release is refused', async () => {
  await expect(upgraded([nodes('rel-redis')], `${SET},fullnameOverride=other`)).rejects.toThrow(
    /the nodes of this release are called rel-redis, and would be called other-redis.*set fullnameOverride to rel\b/s,
  )
  await expect(upgraded([nodes('other-redis', { chart: 'fencepost-0.0.9-rc.1' })])).rejects.toThrow(
    /called other-redis, and would be called rel-redis/,
  )
})

// Bug: the nodes with all records were deleted, and the sidecars went on with others that know none. Every retry was executed again.
test.each([
  'redis.mode=external,redis.nodes={redis://a,redis://b,redis://c}',
  'redis.mode=embedded,service.replicas=1',
])('an upgrade with %s is refused while the release has nodes', async (mode) => {
  await expect(upgraded([nodes('rel-redis')], `${SET},${mode}`)).rejects.toThrow(
    /this release has the nodes rel-redis, and redis\.mode (external|embedded) would delete them.*uninstall the release first/s,
  )
})

const service = (variable: object) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'rel', namespace: 'shop' },
  spec: {
    template: {
      spec: { containers: [{ name: 'fencepost', env: [{ name: 'FENCEPOST_REDIS_NODES', ...variable }] }] },
    },
  },
})
const EXTERNAL = 'service.tokenSecret=token,redis.mode=external,redis.nodes={redis://a,redis://b,redis://c}'
const OTHERS = EXTERNAL.replace(/\{.*\}/, '{redis://x,redis://y,redis://z}')
const THREE = service({ value: 'redis://a:6379,redis://b:6379,redis://c:6379' })
const TWO_GROUPS = service({
  value: 'n=redis://a:1,redis://b:1,redis://c:1;s=redis://d:1,redis://e:1,redis://f:1',
})
const ELSEWHERE = service({ valueFrom: { configMapKeyRef: { name: 'nodes', key: 'urls' } } })

// Bug: of all changes of nodes only those that took bundled ones away were refused. The pods went over to empty nodes one after another.
test.each<[from: string, to: string, before: Manifest, set: string]>([
  ['nodes of their own', 'bundled ones', THREE, SET],
  ['two groups', 'bundled ones', TWO_GROUPS, SET],
  ['nodes that a ConfigMap names', 'bundled ones', ELSEWHERE, SET],
  ['nodes of their own', 'embedded ones', THREE, `${SET},redis.mode=embedded,service.replicas=1`],
  ['nodes of their own', 'others', THREE, OTHERS],
])('an upgrade from %s to %s is refused where none of them stays', async (_, __, before, set) => {
  await expect(upgraded([before], set)).rejects.toThrow(
    /the pods of this release use .*, and none of these nodes is among .*executed again.*uninstall the release first/s,
  )
})

// Bug: two of five nodes ended at once, under sidecars that need three of five. `fencepost nodes change-members` refuses the same.
test('an upgrade to fewer nodes than the release has is refused', async () => {
  await expect(upgraded([nodes('rel-redis')], `${SET},redis.bundled.count=3`)).rejects.toThrow(
    /this release has 5 nodes, and redis\.bundled\.count 3 would end the others at once.*uninstall the release first/s,
  )
})

test.each<[what: string, objects: readonly Manifest[], set: string]>([
  ['more nodes', [nodes('rel-redis', { replicas: 3 })], SET],
  ['the only three nodes', [nodes('rel-redis', { replicas: 3 })], `${SET},redis.bundled.count=3`],
  ['the nodes that there are', [nodes('rel-redis')], SET],
  ['no node yet', [], SET],
  ['the nodes of before, with TLS', [THREE], EXTERNAL.replaceAll('redis://', 'rediss://')],
  ['nodes of which one stays', [THREE], EXTERNAL.replace('redis://b,redis://c', 'redis://x,redis://y')],
  ['other addresses of nodes with names', [THREE], `${OTHERS},settings.FENCEPOST_REDIS_NODE_NAMES=a\\,b\\,c`],
  ['a list in the place of that of a ConfigMap', [ELSEWHERE], EXTERNAL],
  ['nodes in the place of embedded ones', [service({ value: 'embedded' })], SET],
  [
    'its nodes, whose StatefulSet was taken away for larger volumes',
    [service({ value: 'redis://rel-redis-0.rel-redis.shop.svc:6379' })],
    SET,
  ],
  ['nodes of another release', [nodes('other-redis', { release: 'other' })], SET],
  ['nodes of another part of the release', [nodes('other-redis', { chart: 'fencepost-two-0.1.0' })], SET],
  ['another program of the release', [nodes('database', { app: 'postgres' })], SET],
  ['nodes of somebody else', [nodes('fencepost-redis', { release: 'other' })], EXTERNAL],
])('an upgrade with %s is rendered', async (_, objects, set) => {
  expect((await upgraded(objects, set)).length).toBeGreaterThan(0)
})
