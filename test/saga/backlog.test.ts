// The backlog of messages and sagas in the database.
import { expect, test } from 'vitest'
import { sagaBacklog } from '../../packages/saga/src/backlog.ts'
import { publish } from '../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { defineSaga } from '../../packages/saga/src/saga-definition.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { testKit } from '../support/saga-kit.ts'

const server = duringTests(() => startPostgres())

const LONG_ENOUGH_MS = 5_000

test('in an empty database no message or saga waits', async () => {
  const kit = await testKit(server)
  expect(await sagaBacklog(kit, LONG_ENOUGH_MS)).toMatchObject({
    outboxPending: 0,
    outboxParked: 0,
    oldestPendingAgeMs: 0,
    partitionAgesMs: new Map(),
    inboxOpen: 0,
    openDeadLetters: { outbox: 0, inbox: 0 },
    sagas: { running: 0, compensating: 0, parked: 0 },
  })
})

test('the backlog counts messages by partition with the age of the oldest, parked ones and dead letters', async () => {
  const kit = await testKit(server)
  const send = (aggregateId: string) =>
    kit.transaction((tx) => publish(kit, tx, { aggregateType: 'a', aggregateId, type: 'T', payload: {} }))
  await send('dead')
  const publisher = new RecordingPublisher()
  publisher.react = () => 'refuse'
  await using relay = createOutboxRelay({ kit, publisher, retry: { maxAttempts: 1 } })
  await relay.drainOnce()
  await send('dead')
  for (const aggregateId of ['b', 'c', 'd']) await send(aggregateId)
  await kit.pool.query(
    `UPDATE ${kit.schema}.outbox SET partition = CASE aggregate_id WHEN 'b' THEN 3 WHEN 'c' THEN 3 ELSE 11 END,
       created_at = created_at - CASE aggregate_id WHEN 'b' THEN interval '90 s' ELSE interval '10 s' END`,
  )
  const backlog = await sagaBacklog(kit, LONG_ENOUGH_MS)
  expect(backlog).toMatchObject({
    outboxPending: 3,
    outboxParked: 1,
    openDeadLetters: { outbox: 1, inbox: 0 },
  })
  expect([...backlog.partitionAgesMs.keys()].sort()).toEqual([11, 3])
  expect(backlog.partitionAgesMs.get(3)).toBeGreaterThan(89_000)
  expect(backlog.partitionAgesMs.get(11)).toBeLessThan(60_000)
  expect(backlog.oldestPendingAgeMs).toBe(backlog.partitionAgesMs.get(3))
})

test('the backlog counts sagas by state, without finished ones', async () => {
  const kit = await testKit(server)
  const stuck = async () => {
    throw new Error('down')
  }
  const definitions = [
    defineSaga('fine', [{ name: 'do' }]),
    defineSaga('stuck', [
      { name: 'decide', pivot: true },
      { name: 'do', maxAttempts: 1, effect: stuck },
    ]),
  ]
  const runner = createSagaRunner({ kit, definitions, backoff: { initialMs: 0, maxMs: 0 } })
  for (const [name, sagaId] of [
    ['fine', '1'],
    ['stuck', '2'],
  ] as const)
    await kit.transaction((tx) => runner.begin(tx, name, { sagaId, input: {} }))
  await runner.runOnce()
  await kit.transaction((tx) => runner.begin(tx, 'fine', { sagaId: '3', input: {} }))
  expect((await sagaBacklog(kit, LONG_ENOUGH_MS)).sagas).toEqual({ running: 1, compensating: 0, parked: 1 })
})

test('a lock on the tables ends the query of the backlog, not the service', async () => {
  const kit = await testKit(server)
  const holder = await server.pool().connect()
  try {
    await holder.query(`BEGIN; LOCK TABLE ${kit.schema}.outbox IN ACCESS EXCLUSIVE MODE`)
    await expect(sagaBacklog(kit, 50)).rejects.toMatchObject({ code: '57014' })
  } finally {
    await holder.query('ROLLBACK')
    holder.release()
  }
})

test('the backlog shows the age of the oldest open transaction', async () => {
  const kit = await testKit(server)
  const holder = await server.pool().connect()
  try {
    await holder.query('BEGIN; SELECT 1')
    const first = await sagaBacklog(kit, LONG_ENOUGH_MS)
    const second = await sagaBacklog(kit, LONG_ENOUGH_MS)
    expect(second.oldestTransactionAgeMs).toBeGreaterThan(first.oldestTransactionAgeMs)
  } finally {
    await holder.query('ROLLBACK')
    holder.release()
  }
})
