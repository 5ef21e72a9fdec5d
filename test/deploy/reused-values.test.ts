/** Values that are not those of this version of the chart: of an earlier one (`helm upgrade --reuse-values`), or with sections left empty. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { type Charts, prepareCharts } from '../support/helm-charts.ts'
import { type Manifest, podOf } from '../support/kubernetes-objects.ts'

let charts: Charts
beforeAll(async () => {
  charts = await prepareCharts()
}, FETCH_MS_MAX)
afterAll(() => charts?.[Symbol.dispose]())

const ALL = ['--set', 'service.tokenSecret=token,redis.bundled.openToAll=true,probe.enabled=true']

function images(manifests: readonly Manifest[]): string[] {
  const containers = manifests
    .map(podOf)
    .flatMap((pod) => (pod === undefined ? [] : [...(pod.initContainers ?? []), ...pod.containers]))
  return [...new Set(containers.map(({ image }: Manifest) => image as string))].sort()
}

/**
 * Bug: the version of the image was a default of the values. `--reuse-values` keeps those of the earlier chart, so an upgrade ran the earlier image, and labels and
 * `helm list` named the later version.
 */
test('with the values of an earlier chart the image is that of the later one', () => {
  const later = ['package', 'fencepost', '--version', '0.9.0', '--app-version', '0.9.0']
  expect(charts.helm(...later).status).toBe(0)
  const reused = ['--values', 'fencepost/values.yaml', ...ALL]
  const ours = (args: readonly string[]) =>
    images(charts.rendered('fencepost-0.9.0.tgz', args)).filter((image) => !image.includes('valkey'))
  expect(ours(reused)).toEqual(['ghcr.io/fencepost/fencepost:0.9.0'])
  expect(ours([...reused, '--set', 'image.tag=0.8.7'])).toEqual(['ghcr.io/fencepost/fencepost:0.8.7'])
  const digest = `sha256:${'a'.repeat(64)}`
  expect(ours([...reused, '--set', `image.digest=${digest}`])).toEqual([
    `ghcr.io/fencepost/fencepost@${digest}`,
  ])
})
