/** A chart that was fetched without its links: in the repository some of its files are links, and not everything that fetches it follows them. */
import { cpSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const SET = ['--set', 'service.tokenSecret=token,redis.bundled.openToAll=true']

/** A copy of the chart in which the links are what `left` makes of them. */
function chartWith(left: (link: string) => void): string {
  const chart = join(charts.folder, 'fetched')
  rmSync(chart, { recursive: true, force: true })
  cpSync(join(charts.folder, 'fencepost'), chart, { recursive: true })
  for (const link of ['votes.sh', 'dashboards']) {
    rmSync(join(chart, 'files', link), { recursive: true })
    left(join(chart, 'files', link))
  }
  return 'fetched'
}

/**
 * Bug: Flux leaves links out of what it fetches from a GitRepository. The probe of the nodes was then an empty script, which succeeds: every node was
 * ready whether it voted or not, and neither a drain nor a rollout waited for a vote.
 */
test.each<[what: string, left: (link: string) => void]>([
  ['are left out, as Flux does', () => {}],
  [
    'are files that name their target, as Git writes them on Windows',
    (link) => writeFileSync(link, '../../x'),
  ],
])('a chart whose links %s is refused, and the message says what is missing', (_, left) => {
  const chart = chartWith(left)
  expect(charts.refusal(chart, SET)).toMatch(
    /the chart has no files\/votes\.sh: .*every node would count as ready.*npm run release -- charts/s,
  )
  const external = [...SET, '--set', 'redis.mode=external,redis.nodes={redis://a,redis://b,redis://c}']
  expect(charts.rendered(chart, external).length).toBeGreaterThan(0)
  for (const [value, file] of [
    ['prometheusRule', 'files/dashboards/rules/fencepost.rules.yaml'],
    ['dashboards', 'files/dashboards/*.json'],
  ])
    expect(charts.refusal(chart, [...external, '--set', `${value}.enabled=true`])).toContain(
      `the chart has no ${file}: `,
    )
})
