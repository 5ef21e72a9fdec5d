/** Names and versions that are valid, and that a label or YAML would take for something else. */
import { rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FETCH_MS_MAX, fetchProgram } from '../support/fetched-programs.ts'
import { type Charts, prepareCharts } from '../support/helm-charts.ts'

let charts: Charts
beforeAll(async () => {
  charts = await prepareCharts()
  await fetchProgram('kubernetesSchemas')
}, FETCH_MS_MAX)
afterAll(() => charts?.[Symbol.dispose]())

const OPEN = 'service.tokenSecret=token,redis.bundled.openToAll=true'

/**
 * Bug: what packs a chart may put the commit behind its version, as Flux does (`reconcileStrategy: Revision`): 0.1.0+4a5b6c7d8e9f. A label takes no `+`, and an API
 * server refused every object.
 */
test('a version with the commit behind it is a label', () => {
  const version = `0.1.0+${'4a5b6c7d8e9f.'.repeat(4)}1`
  const { stdout } = charts.helm('package', 'fencepost', '--version', version, '--app-version', version)
  const packed = basename(stdout.trim())
  for (const { kind, metadata } of charts.rendered(packed, ['--set', `${OPEN},dashboards.enabled=true`]))
    for (const [label, value] of Object.entries(metadata.labels as Record<string, string>))
      expect([kind, label, value]).toEqual([
        kind,
        label,
        expect.stringMatching(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/),
      ])
  rmSync(join(charts.folder, packed))
})
