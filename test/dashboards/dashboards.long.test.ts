// Every query of the dashboards returns data. A slice of it, that Prometheus can read each, is in dashboards.test.ts.
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { BOARDS } from '../../dashboards/boards.ts'
import { filledIn } from '../../dashboards/query.ts'
import { startMonitoredStack, startSagaTables } from '../support/monitored-stack.ts'
import { RULES } from './promtool.ts'

test('every query returns data from a real Prometheus that scraped real sidecars under load', async () => {
  await using sagas = await startSagaTables()
  await using stack = await startMonitoredStack(
    RULES,
    { FENCEPOST_NODE_COLLECTION_INTERVAL: '1s' },
    { probe: true, sagas: sagas.metrics },
  )
  const { prometheus } = stack
  await prometheus.until('fencepost_probe_findings_total{result="ok"} > 0')
  await using _ = stack.load(60, 3)
  await prometheus.until('rate(fencepost_decisions_total{outcome="duplicate_completed"}[4s]) > 0')
  await prometheus.until('fencepost_redis_node_aof_last_write_ok')
  await prometheus.until('fencepost_saga_database_up == 1')
  await prometheus.until(`redis_memory_fragmentation_ratio{node="${stack.servers.names[4]}"}`)
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
})
