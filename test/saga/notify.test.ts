// The hint is a hint: it costs one connection, also while the database is away, and none after it was closed.
import { once } from 'node:events'
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { wakeOnNotify } from '../../src/saga/notify.ts'
import { eventually } from '../support/eventually.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server[Symbol.asyncDispose]())

const relay = { relayId: 'relay', wake: () => {} }

/** A door in front of the database: open, shut, or kept waiting; counts who knocks and who is inside. */
async function openDoor() {
  let way: 'open' | 'shut' | 'held' = 'open'
  let attempts = 0
  let ended = 0
  const inside = new Set<Socket>()
  const waiting: (() => void)[] = []
  const door = createServer((socket) => {
    attempts += 1
    inside.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => {
      inside.delete(socket)
      ended += 1
    })
    const admit = () => {
      const behind = createConnection(`${server.folder}/.s.PGSQL.${server.port}`)
      behind.on('error', () => socket.destroy())
      behind.on('close', () => socket.destroy())
      socket.on('close', () => behind.destroy())
      socket.pipe(behind).pipe(socket)
    }
    if (way === 'shut') socket.destroy()
    else if (way === 'held') waiting.push(admit)
    else admit()
  }).listen(0, '127.0.0.1')
  await once(door, 'listening')
  onTestFinished(() => {
    for (const socket of inside) socket.destroy()
    door.close()
  })
  return {
    connection: { host: '127.0.0.1', port: (door.address() as AddressInfo).port, user: 'postgres' },
    attempts: () => attempts,
    ended: () => ended,
    inside: () => inside.size,
    turn(to: typeof way) {
      way = to
      if (to !== 'open') for (const socket of inside) socket.destroy()
      else for (const admit of waiting.splice(0)) admit()
    },
  }
}

test('where the first connection fails the caller is told, and nothing goes on behind his back', async () => {
  const clock = new VirtualClock()
  const kit = await testKit(server, { clock })
  const door = await openDoor()
  door.turn('shut')
  await expect(wakeOnNotify(kit, relay, door.connection)).rejects.toThrow()
  await eventually('the end of the connection', () => door.ended() === 1)
  await clock.advance(0)
  expect(clock.pendingTimers).toBe(0)
})

test('one connection is tried at a time, however long the database is away', async () => {
  const clock = new VirtualClock()
  const kit = await testKit(server, { clock })
  const door = await openDoor()
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

test('closed while it connects again: it leaves no connection behind', async () => {
  const clock = new VirtualClock()
  const kit = await testKit(server, { clock })
  const door = await openDoor()
  const hint = await wakeOnNotify(kit, relay, door.connection)
  door.turn('held')
  await eventually('the next try', () => clock.pendingTimers > 0)
  await clock.advance(1_000)
  await eventually('it to be on its way', () => door.attempts() === 2)
  await hint[Symbol.asyncDispose]()
  door.turn('open')
  await eventually('nobody inside', () => door.inside() === 0)
})
