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

test('every query returns data from a real Prometheus that scraped real sidecars under load', async () => {
  await using sagas = await startSagaTables()
  await using stack = await startMonitoredStack(join(folder, 'rules/fencepost.rules.yaml'), {
    ...sagas.settings,
    FENCEPOST_NODE_COLLECTION_INTERVAL: '1s',
  })
  const { prometheus } = stack
  await using _ = stack.load(60, 3)
  await prometheus.until('rate(fencepost_decisions_total{outcome="duplicate_completed"}[4s]) > 0')
  await prometheus.until('redis_aof_last_write_status')
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
