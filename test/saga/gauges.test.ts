// The gauges of messages and sagas: from periodic looks at the database; a scrape never queries it.
import { spawnSync } from 'node:child_process'
import { createServer } from 'node:net'
import { createSagaKit, publish } from '@fencepost/saga'
import { sagaGauges } from '@fencepost/saga/admin'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { requireProgram } from '../support/programs.ts'
import { testKit } from '../support/saga-kit.ts'
import { seriesOf } from '../support/series.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const server = duringTests(() => startPostgres())

const up = (gauges: { text(): string }) => seriesOf(gauges.text()).get('fencepost_saga_database_up') === 1

test('the same series before a look and after it, and promtool accepts them', async () => {
  const kit = await testKit(server)
  await kit.transaction((tx) =>
    publish(kit, tx, { aggregateType: 'a', aggregateId: '1', type: 'T', payload: {} }),
  )
  using gauges = sagaGauges(kit)
  const before = seriesOf(gauges.text())
  expect([before.get('fencepost_saga_database_up'), before.get('fencepost_outbox_pending')]).toEqual([
    0,
    Number.NaN,
  ])
  await eventually('a look at the database', () => up(gauges))
  const text = gauges.text()
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

test('the database goes away: the next look reports it once, and the first look after its return succeeds', async () => {
  const clock = new VirtualClock()
  const kit = await testKit(server, { clock })
  using gauges = sagaGauges(kit)
  await eventually('the first look', () => up(gauges))
  await server.kill()
  await clock.advance(15_000)
  await eventually('a look that failed', () => !up(gauges))
  for (let look = 0; look < 3; look += 1) await clock.advance(15_000)
  await server.start()
  // A look is given up after five seconds of this clock: do not advance it before a look can be answered.
  await eventually(
    'a look that was answered',
    async () => {
      if (up(gauges)) return true
      await clock.advance(15_000)
      return false
    },
    { everyMs: 500 },
  )
  expect(kit.seenOf('saga_error')).toHaveLength(1)
})

test('a database that accepts a connection and never answers: the backlog is unknown, no scrape waits', async () => {
  const sockets = new Set<{ destroy(): void }>()
  const silent = createServer((socket) => void sockets.add(socket))
  const { port } = await listening(silent)
  const clock = new VirtualClock()
  const errors: unknown[] = []
  const pool = new pg.Pool({ connectionString: `postgres://nobody@127.0.0.1:${port}/nothing` })
  onTestFinished(() => pool.end())
  const kit = createSagaKit({
    pool,
    clock,
    events: (event) => void (event.kind === 'saga_error' && errors.push(event.error)),
  })
  const gauges = sagaGauges(kit)
  await eventually('a connection', () => sockets.size > 0)
  expect(up(gauges)).toBe(false)
  await clock.advance(5_000)
  expect(errors).toMatchObject([{ message: 'no answer within 5000 ms' }])
  for (const socket of sockets) socket.destroy()
  silent.close()
  gauges[Symbol.dispose]()
})
