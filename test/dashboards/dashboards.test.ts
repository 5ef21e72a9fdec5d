// The dashboards: the committed JSON is the generated one, every panel is explained, every query returns data.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { BOARDS } from '../../dashboards/boards.ts'
import { grafanaJson } from '../../dashboards/grafana.ts'
import { filledIn } from '../../dashboards/query.ts'
import { startMonitoredStack, startSagaTables } from '../support/monitored-stack.ts'

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

test('every query returns data from a real Prometheus that scraped real sidecars under load', async () => {
  await using sagas = await startSagaTables()
  await using stack = await startMonitoredStack(
    join(folder, 'rules/fencepost.rules.yaml'),
    { ...sagas.settings, FENCEPOST_NODE_COLLECTION_INTERVAL: '1s' },
    { probe: true },
  )
  const { prometheus } = stack
  await prometheus.until('fencepost_probe_findings_total{result="ok"} > 0')
  await using _ = stack.load(60, 3)
  await prometheus.until('rate(fencepost_decisions_total{outcome="duplicate_completed"}[4s]) > 0')
  await prometheus.until('fencepost_redis_node_aof_last_write_ok')
  await prometheus.until('fencepost_saga_database_up == 1')
  await prometheus.until('redis_memory_fragmentation_ratio{node="redis-4"}')
  await prometheus.until('namespace_job:fencepost_quorum_failures_per_attempts:ratio_rate3d')
  let empty = BOARDS.flatMap(({ uid, panels }) =>
    panels.flatMap(({ title, queries }) => queries.map(({ expr }) => ({ uid, title, expr }))),
  )
  const isEmpty = async ({ expr }: (typeof empty)[number]) => {
    const result = await prometheus.query(filledIn(expr, '8s'))
    return !result.some(({ values }) => values.some(([, value]) => !Number.isNaN(value)))
  }
  // Queried again for a while: a busy machine misses the scrape of a second, and its samples.
  const untilMs = performance.now() + 40_000
  while (empty.length > 0 && performance.now() < untilMs) {
    const left: typeof empty = []
    for (const one of empty) if (await isEmpty(one)) left.push(one)
    empty = left
    await pause(500)
  }
  expect(empty).toEqual([])
}, 120_000)
