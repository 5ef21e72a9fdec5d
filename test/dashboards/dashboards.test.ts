// The dashboards: the committed JSON is the generated one, every panel is explained, every query can be read and names
// metrics that there are. That each returns data: dashboards.long.test.ts.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { stringify } from 'yaml'
import { BOARDS } from '../../dashboards/boards.ts'
import { grafanaJson } from '../../dashboards/grafana.ts'
import { filledIn } from '../../dashboards/query.ts'
import { promtool } from './promtool.ts'

const folder = join(import.meta.dirname, '../../dashboards')

test.each(BOARDS)(
  '$uid: the committed JSON is what its source makes (npm run generate -- dashboards)',
  async (board) => {
    expect(await readFile(join(folder, `${board.uid}.json`), 'utf8')).toBe(grafanaJson(board))
  },
)

test.each(BOARDS)('$uid: every panel has a description, a unit, thresholds and a query', ({ panels }) => {
  for (const { title, description, unit, thresholds, queries } of panels) {
    expect(description, title).toMatch(/\.$/)
    expect(unit, title).not.toBe('')
    expect(thresholds[0], title).toMatchObject({ from: null })
    expect(queries.length, title).toBeGreaterThan(0)
    for (const { expr } of queries) {
      // A counter means something only as a rate.
      const bare = expr.replaceAll(/(rate|increase)\([^)]*\)/g, '')
      expect(bare, title).not.toMatch(/_total\b/)
    }
  }
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length)
})

test('no legend is a raw address where the name of a pod or a node says it', () => {
  const legends = BOARDS.flatMap(({ panels }) =>
    panels.flatMap(({ queries }) => queries.map((q) => q.legend)),
  )
  expect(
    legends.filter((legend) => /\{\{instance\}\}/.test(legend) && !legend.startsWith('{{pod}} ')),
  ).toEqual([])
})

// Bug: as time series each firing alert was a frame of its own, of which the table shows one; and the panel promised links to runbooks.
test('a table shows all series of its query as rows, and no panel promises a link that it has not', () => {
  const panels = BOARDS.flatMap(
    (board) =>
      (JSON.parse(grafanaJson(board)) as { panels: { type: string; targets: { format?: string }[] }[] })
        .panels,
  )
  const tables = panels.filter(({ type }) => type === 'table')
  expect(tables.map(({ targets }) => targets.map(({ format }) => format))).toEqual([['table']])
  const promised = panels.filter((panel) => /\blinks? to\b/.test(JSON.stringify(panel)))
  expect(promised.filter((panel) => !/"links":\[\{/.test(JSON.stringify(panel)))).toEqual([])
})

test('the errors that clients get stand first', () => {
  expect(BOARDS[0]?.panels[0]?.title).toBe('Errors to clients, by application')
})

test('every dashboard is narrowed by cluster, namespace, job and instance, and every series of ours by the first three', () => {
  for (const board of BOARDS) {
    const { templating } = JSON.parse(grafanaJson(board)) as { templating: { list: { name: string }[] } }
    expect(templating.list.map(({ name }) => name)).toEqual([
      'datasource',
      'cluster',
      'namespace',
      'job',
      'instance',
    ])
    for (const { title, queries } of board.panels)
      for (const { expr } of queries)
        for (const [, matchers] of expr.matchAll(
          /(?:fencepost|nodejs|process|namespace_job)[\w:]*\{([^}]*)\}/g,
        ))
          expect(matchers, title).toMatch(/^cluster=~"\$cluster",namespace=~"\$namespace",job=~"\$job"/)
  }
})

test('Prometheus reads every query, in every dashboard', async () => {
  const rules = BOARDS.flatMap(({ uid, panels }) =>
    panels.flatMap(({ queries }, panel) =>
      queries.map(({ expr }, query) => ({
        record: `${uid.replaceAll('-', '_')}:${panel}:${query}`,
        expr: filledIn(expr, '8s'),
      })),
    ),
  )
  expect(rules.length).toBeGreaterThan(80)
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-dashboards-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'queries.rules.yaml')
  await writeFile(file, stringify({ groups: [{ name: 'queries', rules }] }))
  expect(await promtool('check', 'rules', file)).toContain(`SUCCESS: ${rules.length} rules found`)
})

// Bug: it asked for changes of a series, and the series of a pod that replaces another begins with its start: no rollout was marked.
test('the annotation marks a pod that replaces another, at its start', async () => {
  const { annotations } = JSON.parse(grafanaJson(BOARDS[0]!)) as {
    annotations: { list: { name: string; expr: string }[] }
  }
  const [started] = annotations.list.filter(({ name }) => name === 'Sidecars started')
  const of = (pod: string) => `namespace="shop",job="fencepost",instance="${pod}:9090",pod="${pod}"`
  const marked = (minute: number, samples: object[]) => ({
    expr: `count by (pod) (${filledIn(started?.expr ?? '', '1m')})`,
    eval_time: `${minute}m`,
    exp_samples: samples,
  })
  const test = {
    interval: '1m',
    input_series: [
      { series: `fencepost_build_info{${of('before')}}`, values: '1x30 stale' },
      { series: `process_start_time_seconds{${of('before')}}`, values: '-3600x30 stale' },
      { series: `fencepost_build_info{${of('after')}}`, values: '_x29 1x30' },
      { series: `process_start_time_seconds{${of('after')}}`, values: `_x29 ${30 * 60 - 10}x30` },
    ],
    promql_expr_test: [marked(20, []), marked(31, [{ labels: '{pod="after"}', value: 1 }]), marked(40, [])],
  }
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-annotation-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'annotation.test.yaml')
  await writeFile(file, stringify({ rule_files: [], evaluation_interval: '1m', tests: [test] }))
  expect(await promtool('test', 'rules', file)).toContain('SUCCESS')
})
