// The hint is only a hint: one connection, also while the database is away, and none after it was closed.
import { expect, test } from 'vitest'
import { wakeOnNotify } from '../../packages/saga/src/notify.ts'
import { openDoor } from '../support/door.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const server = duringTests(() => startPostgres())

const relay = { relayId: 'relay', wake: () => {} }
const doorOfPostgres = async () => {
  const door = await openDoor({ path: `${server.folder}/.s.PGSQL.${server.port}` })
  return { ...door, connection: { host: '127.0.0.1', port: door.port, user: 'postgres' } }
}

test('a failed first connection is an error for the caller, and is not retried in the background', async () => {
  const clock = new VirtualClock()
  const kit = await testKit(server, { clock })
  const door = await doorOfPostgres()
  door.turn('shut')
  await expect(wakeOnNotify(kit, relay, door.connection)).rejects.toThrow()
  await eventually('the end of the connection', () => door.ended() === 1)
  await clock.advance(0)
  expect(clock.pendingTimers).toBe(0)
})

test('one connection is tried at a time, however long the database is away', async () => {
  const clock = new VirtualClock()
  const kit = await testKit(server, { clock })
  const door = await doorOfPostgres()
  await using _ = await wakeOnNotify(kit, relay, door.connection)
  door.turn('shut')
  for (let tried = 1; tried <= 5; tried += 1) {
    await eventually('the next try', () => clock.pendingTimers > 0)
    await clock.advance(1_000)
    await eventually('its end', () => door.ended() > tried)
  }
  expect(door.attempts()).toBe(1 + 5)
  await eventually('the next try', () => clock.pendingTimers > 0)
  door.turn('open')
  await clock.advance(1_000)
  await eventually('a listener', async () => {
    const { rows } = await kit.pool.query(`SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`)
    return rows.length === 1
  })
  expect(door.inside()).toBe(1)
})

test('a hint closed while it reconnects leaves no connection', async () => {
  const clock = new VirtualClock()
  const kit = await testKit(server, { clock })
  const door = await doorOfPostgres()
  const hint = await wakeOnNotify(kit, relay, door.connection)
  door.turn('held')
  await eventually('the next try', () => clock.pendingTimers > 0)
  await clock.advance(1_000)
  await eventually('it to be on its way', () => door.attempts() === 2)
  await hint[Symbol.asyncDispose]()
  door.turn('open')
  await eventually('the door is empty', () => door.inside() === 0)
})
