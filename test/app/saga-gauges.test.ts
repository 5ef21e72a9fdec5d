// The gauges of messages and sagas: from periodic looks at the database; a scrape never queries it.
import { spawnSync } from 'node:child_process'
import { createServer } from 'node:net'
import { publish } from '@fencepost/saga'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSagas } from '../../src/app/sagas.ts'
import type { Config } from '../../src/config/load.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { eventually } from '../support/eventually.ts'
import { startSagaTables } from '../support/monitored-stack.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { requireProgram } from '../support/programs.ts'
import { testKit } from '../support/saga-kit.ts'
import { scrape, seriesOf } from '../support/series.ts'
import { startSidecar } from '../support/sidecar.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server[Symbol.asyncDispose]())

const configOf = (url: string, schema: string) =>
  ({ sagaDatabase: { content: `${url}\n` }, sagaSchema: schema }) as Config

const SERIES_MAX = 331

test('with them a pod with five nodes and many routes still shows at most 331 series', async () => {
  const metrics = createMetrics({
    version: '1.2.3',
    nodeVersion: '26.0.0',
    nodes: ['redis-0', 'redis-1', 'redis-2', 'redis-3', 'redis-4'],
    required: 3,
    routes: Array.from({ length: 12 }, (_, index) => `route-${index}`),
    sagas: true,
  })
  expect(seriesOf((await metrics.exposition()).text).size).toBeLessThanOrEqual(SERIES_MAX)
})

test('a sidecar with a database shows them, the same series before and after, and promtool accepts them', async () => {
  await using sagas = await startSagaTables()
  const { kit } = sagas
  await kit.transaction((tx) =>
    publish(kit, tx, { aggregateType: 'a', aggregateId: '1', type: 'T', payload: {} }),
  )
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: 'embedded', ...sagas.settings })
  const before = seriesOf(await scrape(sidecar.admin))
  await eventually('a look at the database', async () => {
    return seriesOf(await scrape(sidecar.admin)).get('fencepost_saga_database_up') === 1
  })
  const text = await scrape(sidecar.admin)
  const series = seriesOf(text)
  expect([...series.keys()].sort()).toEqual([...before.keys()].sort())
  expect(series.get('fencepost_outbox_pending')).toBe(1)
  expect(series.get('fencepost_outbox_oldest_age_seconds')).toBeGreaterThan(0)
  const lags = [...series].filter(([name]) => name.startsWith('fencepost_outbox_partition_lag_seconds'))
  expect(lags).toHaveLength(8)
  expect(lags.filter(([, lagS]) => lagS > 0)).toHaveLength(1)
  expect(series.get('fencepost_sagas_open{state="parked"}')).toBe(0)
  expect(series.get('fencepost_dead_letters_open{source="inbox"}')).toBe(0)
  const checked = spawnSync(requireProgram('promtool'), ['check', 'metrics'], {
    input: text,
    encoding: 'utf8',
  })
  expect({ status: checked.status, said: checked.stdout + checked.stderr }).toEqual({ status: 0, said: '' })
})

test('a sidecar without a database has none of them', async () => {
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: 'embedded' })
  const names = [...seriesOf(await scrape(sidecar.admin)).keys()]
  expect(names.filter((name) => /saga|outbox|inbox|dead_letters/.test(name))).toEqual([])
})

test('the database goes away: the next look logs it once, and the first look after its return succeeds', async () => {
  const kit = await testKit(server)
  const clock = new VirtualClock()
  const errors: unknown[] = []
  await using sagas = (await openSagas(configOf(server.url, kit.schemaName), clock, (error) =>
    errors.push(error),
  ))!
  await eventually('the first look', () => sagas.backlog() !== undefined)
  await server.kill()
  await clock.advance(15_000)
  await eventually('a look that failed', () => sagas.backlog() === undefined)
  for (let look = 0; look < 3; look += 1) await clock.advance(15_000)
  await server.start()
  // A look is given up after five seconds of this clock: do not advance it before a look can be answered.
  await eventually(
    'a look that was answered',
    async () => {
      if (sagas.backlog() !== undefined) return true
      await clock.advance(15_000)
      return false
    },
    { everyMs: 500 },
  )
  expect(errors).toHaveLength(1)
})

test('a database that accepts a connection and never answers: the backlog is unknown, no scrape waits', async () => {
  const sockets = new Set<{ destroy(): void }>()
  const silent = createServer((socket) => void sockets.add(socket))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const clock = new VirtualClock()
  const errors: unknown[] = []
  const url = `postgres://nobody@127.0.0.1:${port}/nothing`
  const sagas = (await openSagas(configOf(url, 'fencepost'), clock, (error) => errors.push(error)))!
  await eventually('a connection', () => sockets.size > 0)
  expect(sagas.backlog()).toBeUndefined()
  await clock.advance(5_000)
  expect(errors).toMatchObject([{ message: 'no answer within 5000 ms' }])
  for (const socket of sockets) socket.destroy()
  silent.close()
  await sagas[Symbol.asyncDispose]()
})
