// The outbox reaches the broker: all of it, in order within an aggregate, and one bad message stops only its own.

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeEach, expect, test } from 'vitest'
import { createMailboxPublisher, createMailboxSubscriber } from '../../packages/saga/src/brokers/mailbox.ts'
import { createConsumer } from '../../packages/saga/src/consumer.ts'
import type { Row } from '../../packages/saga/src/database.ts'
import {
  discardDeadLetters,
  listDeadLetters,
  replayDeadLetters,
} from '../../packages/saga/src/dead-letters.ts'
import { createSagaKit, type SagaKit } from '../../packages/saga/src/kit.ts'
import { migrate } from '../../packages/saga/src/migrate.ts'
import { disableNotify, enableNotify, wakeOnNotify } from '../../packages/saga/src/notify.ts'
import { newMessageId, outboxLag, publish } from '../../packages/saga/src/outbox.ts'
import { createOutboxRelay, type OutboxRelay, type RelayOptions } from '../../packages/saga/src/relay.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { heldClock, runningClock } from '../support/held-clock.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { TestProcess } from '../support/processes.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { countOf, orderEvent, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
let publisher: RecordingPublisher
const relays: OutboxRelay[] = []
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  await Promise.all(relays.splice(0).map((relay) => relay.stop()))
  kit = await testKit(server)
  publisher = new RecordingPublisher()
})

function relay(options: Partial<RelayOptions> = {}): OutboxRelay {
  const one = createOutboxRelay({ kit, publisher, pollIntervalMs: 5, ...options })
  relays.push(one)
  return one
}
const event = (aggregateId: string, n: number, more = {}) =>
  orderEvent('OrderChanged', aggregateId, { payload: { n }, ...more })
const write = (...events: ReturnType<typeof event>[]) =>
  kit.transaction(async (tx) => {
    for (const one of events) await publish(kit, tx, one)
  })
/** `count` events over `aggregates` aggregates, numbered within each. */
async function fill(count: number, aggregates: number): Promise<void> {
  for (let begin = 0; begin < count; begin += 100)
    await write(
      ...Array.from({ length: Math.min(100, count - begin) }, (_, offset) => {
        const index = begin + offset
        return event(`a${index % aggregates}`, Math.floor(index / aggregates))
      }),
    )
}
const inversions = (aggregateId: string) => {
  const numbers = publisher.numbersOf(aggregateId)
  return numbers.filter((n, index) => index > 0 && n < numbers[index - 1]!).length
}
const drained = () =>
  eventually('an empty outbox', async () => (await countOf(kit, 'outbox')) === 0, { withinMs: 15_000 })

// Bug: half a million messages for tomorrow were read with every poll, a second of the server's time ten times a second.
test('messages for later are not read until they are due, however many they are; then each is sent once', async () => {
  const pool = server.pool({ max: 1 })
  const own = createSagaKit({ pool, schema: kit.schemaName, events: () => {} })
  const later = new Date(Date.now() + 3_600_000)
  await write(event('a', 1, { availableAt: later }))
  // As the first one is.
  await pool.query(
    `INSERT INTO ${own.schema}.outbox (message_id, aggregate_type, aggregate_id, partition, type, destination, payload, headers, available_at, scheduled)
     SELECT gen_random_uuid(), aggregate_type, n::text, n % 16, type, destination, json_build_object('n', n), headers, available_at, scheduled
     FROM ${own.schema}.outbox, generate_series(1, 5000) AS n`,
  )
  await pool.query(`ANALYZE ${own.schema}.outbox`)
  await write(event('now', 7))
  const readRows = async () => {
    await pool.query('SELECT pg_stat_force_next_flush()')
    const { rows } = await pool.query(
      `SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::int AS n FROM pg_stat_user_tables
       WHERE schemaname = $1 AND relname = 'outbox'`,
      [own.schemaName],
    )
    return rows[0].n
  }
  const one = createOutboxRelay({ kit: own, publisher })
  relays.push(one)
  const before = await readRows()
  expect(await one.drainOnce()).toBe(1)
  expect(publisher.numbersOf('now')).toEqual([7])
  expect((await readRows()) - before).toBeLessThan(500)
  await pool.query(`UPDATE ${own.schema}.outbox SET available_at = clock_timestamp()`)
  while ((await one.drainOnce()) > 0);
  expect(new Set(publisher.confirmed.map(({ messageId }) => messageId)).size).toBe(5_002)
  expect(publisher.confirmed).toHaveLength(5_002)
})

// Bug: a relay read up to 100 messages of each partition at once, and large ones of a long outage were more than its memory.
test('large messages are read a few at a time, and all of them are sent by one call', async () => {
  const large = randomBytes(100_000).toString('base64')
  for (let n = 0; n < 60; n += 1) await write(event('large', n, { payload: { n, large } }))
  let mostBytes = 0
  const watched: SagaKit = {
    ...kit,
    query: async <R extends Row>(text: string, values?: unknown[]) => {
      const answer = await kit.query<R>(text, values)
      const bytes = answer.rows.reduce((sum, row) => sum + String(row.body ?? '').length, 0)
      mostBytes = Math.max(mostBytes, bytes)
      return answer
    },
  }
  expect(await relay({ kit: watched }).drainOnce()).toBe(60)
  expect(publisher.numbersOf('large')).toEqual(Array.from({ length: 60 }, (_, n) => n))
  expect(mostBytes).toBeLessThan(2 * 1024 * 1024)
})

// Bug: a parked aggregate with 200,000 messages took a third of a second of the server's time, with every poll.
test('a partition whose look takes long is left alone for a while, and then looked at again', async () => {
  const clock = heldClock()
  let looks = 0
  let polls = 0
  const slow: SagaKit = {
    ...kit,
    clock,
    query: async (text, values) => {
      if (/outbox_stops/.test(text)) {
        looks += 1
        clock.advance(1_000)
      } else polls += 1
      return kit.query(text, values)
    },
  }
  await write(event('parked', 1))
  await kit.pool.query(
    `INSERT INTO ${kit.schema}.outbox_stops VALUES ('order', 'parked', 'infinity', 'test')`,
  )
  relay({ kit: slow }).start()
  await eventually('the first look', () => looks === 1)
  const before = polls
  await eventually('further polls', () => polls > before + 20)
  clock.advance(8_000)
  await eventually('still more polls', () => polls > before + 40)
  expect(looks).toBe(1)
  clock.advance(1_000)
  await eventually('the second look', () => looks === 2)
})

// Bug: it threw, so a service that was told to stop ended without waiting for its other consumers and runners.
test('a relay is stopped while the database is away: it says so, closes its publisher, and throws nothing', async () => {
  await using gone = await startPostgres()
  const own = await testKit(gone)
  let closed = 0
  publisher.close = async () => {
    closed += 1
  }
  const one = createOutboxRelay({ kit: own, publisher })
  await one.drainOnce()
  await gone.kill()
  await one.stop()
  expect(closed).toBe(1)
  expect(own.seenOf('relay_error')).toHaveLength(1)
})

// Bug: a mailbox took no message of its queue any more, and a message that its broker refused was repeated for ever.
test.each(['aggregateType', 'aggregateId'])(
  'an %s that no index can hold is refused where it is published; the longest goes through a mailbox, and becomes a dead letter',
  async (name) => {
    // Random, because PostgreSQL compresses what an index holds.
    const longest = randomBytes(500).toString('hex')
    const tooLong = write(event('a', 1, { [name]: `${longest}x`, destination: 'orders' }))
    await expect(tooLong).rejects.toThrow(`the ${name} of an event has 1001 bytes`)
    expect(await countOf(kit, 'outbox')).toBe(0)
    const both = { aggregateType: longest, aggregateId: longest }
    const got: unknown[] = []
    const consumer = await createConsumer({
      kit,
      subscriber: createMailboxSubscriber({ kit, queue: 'orders', pollIntervalMs: 5 }),
      consumerId: 'test',
      handlers: { OrderChanged: async (_tx, { payload }) => got.push(payload) },
    })
    await write(event('a', 2, { ...both, destination: 'orders' }))
    const first = relay({ publisher: createMailboxPublisher(kit) })
    await first.drainOnce()
    await eventually('the message', () => got.length === 1)
    await Promise.all([consumer.stop(), first.stop()])
    await write(event('a', 3, { ...both, destination: 'nowhere' }))
    publisher.react = () => 'refuse'
    await relay({ retry: { maxAttempts: 1 } }).drainOnce()
    expect(await listDeadLetters(kit)).toMatchObject([{ payload: { n: 3 } }])
  },
)

test('a rolled back event is never sent; a committed one is sent with all of its fields', async () => {
  await expect(
    kit.transaction(async (tx) => {
      await publish(kit, tx, event('a', 1))
      throw new Error('no')
    }),
  ).rejects.toThrow('no')
  await write(
    event('a', 2, {
      headers: { tenant: 'x' },
      destination: 'orders',
      id: '00000000-0000-4000-8000-000000000001',
    }),
  )
  expect(await relay().drainOnce()).toBe(1)
  expect(publisher.confirmed).toMatchObject([
    {
      messageId: '00000000-0000-4000-8000-000000000001',
      aggregateType: 'order',
      aggregateId: 'a',
      type: 'OrderChanged',
      destination: 'orders',
      body: '{"n":2}',
      headers: { tenant: 'x' },
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    },
  ])
  expect(await countOf(kit, 'outbox')).toBe(0)
})

test('two relays: 2000 messages, none twice, none out of order within its aggregate', async () => {
  await fill(2000, 50)
  publisher.react = () => pause(Math.random() * 2, 'confirm')
  const both = [relay(), relay()]
  for (const one of both) one.start()
  await drained()
  expect(publisher.calls).toHaveLength(2000)
  for (let index = 0; index < 50; index += 1) expect(inversions(`a${index}`)).toBe(0)
})

test('the partitions are shared out evenly, and rebalanced when a relay comes or goes', async () => {
  const [first, second] = [relay({ leaseMs: 1_000 }), relay({ leaseMs: 1_000 })]
  const share = async () =>
    (
      await kit.pool.query(
        `SELECT count(*)::int AS n FROM ${kit.schema}.outbox_partitions WHERE lease_until > clock_timestamp() GROUP BY owner ORDER BY owner`,
      )
    ).rows.map((row) => row.n)
  first.start()
  await eventually('all with the first', async () => (await share()).join() === '16')
  second.start()
  await eventually('half and half', async () => (await share()).join() === '8,8')
  await first.stop()
  await eventually('all with the second', async () => (await share()).join() === '16')
})

test.each([8, 32])(
  'a relay whose kit has %i partitions where the database has 16 says so, and relays no event',
  async (partitions) => {
    const other = createSagaKit({ pool: server.pool(), schema: kit.schemaName, partitions })
    await expect(relay({ kit: other }).drainOnce()).rejects.toThrow(
      `the outbox has 16 partitions and this kit has ${partitions}`,
    )
  },
)

/** On top of the lease: the poll, and the sending itself. */
const SENDING_MS = 500

test('another relay takes over the partitions of a vanished one within the lease', async () => {
  const leaseMs = 1_600
  const gone = relay({ leaseMs })
  await fill(32, 32)
  publisher.react = () => 'hang'
  // It takes its leases, sends, and vanishes.
  // Its end comes after that of the test, and of the pool.
  gone.drainOnce().catch(() => {})
  await eventually('all calls hanging', () => publisher.calls.length === 32)
  using clock = runningClock()
  const beganMs = clock.monoMs()
  publisher.react = () => 'confirm'
  relay({ leaseMs }).start()
  await drained()
  expect(clock.monoMs() - beganMs).toBeLessThan(leaseMs + SENDING_MS)
})

test('a relay process is killed (SIGKILL): another one sends its events within the lease', async () => {
  const leaseMs = 2_400
  await fill(32, 32)
  const script = join(import.meta.dirname, '../support/hanging-relay.ts')
  await using killed = new TestProcess(process.execPath, [
    script,
    server.url,
    kit.schemaName,
    String(leaseMs),
  ])
  await killed.line(/sending/)
  expect(await countOf(kit, 'outbox_partitions WHERE owner IS NOT NULL')).toBe(kit.partitions)
  relay({ leaseMs }).start()
  await killed.end({ signal: 'SIGKILL' })
  using clock = runningClock()
  const beganMs = clock.monoMs()
  await drained()
  expect(clock.monoMs() - beganMs).toBeLessThan(leaseMs + SENDING_MS)
})

test('a refused message is retried after a while; its aggregate waits, the others do not', async () => {
  await write(event('bad', 1), event('bad', 2), event('good', 1), event('good', 2))
  let refusals = 2
  publisher.react = ({ aggregateId }) => (aggregateId === 'bad' && refusals-- > 0 ? 'refuse' : 'confirm')
  // Far above what confirming the others takes on a busy machine.
  relay({ retry: { backoff: { initialMs: 500, maxMs: 500 } } }).start()
  await drained()
  expect(publisher.numbersOf('bad')).toEqual([1, 2])
  expect(publisher.confirmed.findIndex(({ aggregateId }) => aggregateId === 'bad')).toBeGreaterThanOrEqual(2)
  expect(publisher.calls).toHaveLength(6)
  // It is deleted after the messages.
  await eventually('no stop is left', async () => (await countOf(kit, 'outbox_stops')) === 0)
})

test('a poison message is parked with its aggregate; replay sends it first and then the rest', async () => {
  await write(event('bad', 1), event('bad', 2), event('good', 1))
  publisher.react = ({ aggregateId }) => (aggregateId === 'bad' ? 'refuse' : 'confirm')
  relay({ retry: { maxAttempts: 3, backoff: { initialMs: 1, maxMs: 1 } } }).start()
  const [letter] = await eventually('a dead letter', async () => {
    const letters = await listDeadLetters(kit)
    return letters.length > 0 && letters
  })
  expect(letter).toMatchObject({
    source: 'outbox',
    errorCode: 'publish_refused',
    attempts: 3,
    payload: { n: 1 },
  })
  await write(event('bad', 3), event('good', 2))
  await eventually('the others going on', () => publisher.numbersOf('good').length === 2)
  // A message is confirmed first, and deleted after that.
  await eventually('nothing pending', async () => (await outboxLag(kit)).pending === 0)
  expect(await outboxLag(kit)).toMatchObject({ pending: 0, parked: 2 })
  expect(publisher.calls.filter(({ aggregateId }) => aggregateId === 'bad')).toHaveLength(3)
  publisher.react = () => 'confirm'
  expect(await replayDeadLetters(kit, [letter!.id])).toBe(1)
  await drained()
  expect(publisher.numbersOf('bad')).toEqual([1, 2, 3])
})

test('a discarded dead letter lets its aggregate go on without it', async () => {
  await write(event('bad', 1), event('bad', 2))
  publisher.react = ({ body }) => (body === '{"n":1}' ? 'refuse' : 'confirm')
  relay({ retry: { maxAttempts: 1 } }).start()
  const [letter] = await eventually('a dead letter', async () => {
    const letters = await listDeadLetters(kit)
    return letters.length > 0 && letters
  })
  expect(await discardDeadLetters(kit, [letter!.id])).toBe(1)
  await drained()
  expect(publisher.numbersOf('bad')).toEqual([2])
})

test('park-message parks the message alone', async () => {
  await write(event('bad', 1), event('bad', 2))
  publisher.react = ({ body }) => (body === '{"n":1}' ? 'refuse' : 'confirm')
  relay({ retry: { maxAttempts: 1 }, onExhausted: 'park-message' }).start()
  await drained()
  expect(publisher.numbersOf('bad')).toEqual([2])
})

// Bug: its letter could not be written beside the first one, so it was sent again with every poll, for ever.
test('a message published again under the id of its dead letter dies again in its place', async () => {
  publisher.react = () => 'refuse'
  const one = relay({ retry: { maxAttempts: 1 }, onExhausted: 'park-message' })
  const id = newMessageId(kit)
  for (const n of [1, 2]) {
    await write(event('a', n, { id }))
    for (const _ of [1, 2]) await one.drainOnce()
  }
  expect(publisher.calls).toHaveLength(2)
  expect(await listDeadLetters(kit)).toMatchObject([{ messageId: id, payload: { n: 2 } }])
})

// Bug: the replay failed with a violation of the unique message ids, and with it that of all letters beside it.
test('a dead letter that was published again meanwhile is replayed as that one, at the head of its aggregate', async () => {
  publisher.react = () => 'refuse'
  const one = relay({ retry: { maxAttempts: 1 } })
  const id = newMessageId(kit)
  await write(event('a', 1, { id }))
  await one.drainOnce()
  await write(event('a', 2), event('a', 1, { id }))
  publisher.react = () => 'confirm'
  expect(await one.drainOnce()).toBe(0)
  const [letter] = await listDeadLetters(kit)
  expect(await replayDeadLetters(kit, [letter!.id])).toBe(1)
  while ((await one.drainOnce()) > 0);
  expect(publisher.numbersOf('a')).toEqual([1, 2])
})

// Bug: it went to the partition that it had, where no relay looked, or another one than for what is behind it.
test('a dead letter is replayed ahead of its aggregate after the number of partitions has changed', async () => {
  publisher.react = () => 'refuse'
  const before = relay({ retry: { maxAttempts: 1 } })
  const aggregates = Array.from({ length: 10 }, (_, n) => `a${n}`)
  await write(...aggregates.map((id) => event(id, 1)))
  await before.drainOnce()
  await before.stop()
  kit = Object.assign(createSagaKit({ pool: kit.pool, schema: kit.schemaName, partitions: 5 }), {
    seen: kit.seen,
    seenOf: kit.seenOf,
  })
  await migrate(kit)
  await write(...aggregates.map((id) => event(id, 2)))
  await replayDeadLetters(
    kit,
    (await listDeadLetters(kit)).map(({ id }) => id),
  )
  const partitions = `SELECT count(DISTINCT partition)::int AS n FROM ${kit.schema}.outbox GROUP BY aggregate_id`
  expect((await kit.pool.query(partitions)).rows).toEqual(aggregates.map(() => ({ n: 1 })))
  publisher.react = () => 'confirm'
  const after = relay()
  while ((await after.drainOnce()) > 0);
  for (const id of aggregates) expect(publisher.numbersOf(id)).toEqual([1, 2])
})

test('an unreachable broker costs no attempt', async () => {
  await fill(50, 50)
  publisher.react = () => 'unavailable'
  relay({ retry: { maxAttempts: 1 } }).start()
  await eventually('some outages', () => kit.seenOf('publish_failed').length >= 60)
  expect(await countOf(kit, 'outbox WHERE attempts > 0')).toBe(0)
  expect(await countOf(kit, 'dead_letters')).toBe(0)
  publisher.react = () => 'confirm'
  await drained()
})

test('a message without an answer counts as failed after the timeout, and stops only its aggregate', async () => {
  await write(event('hung', 1), event('good', 1))
  publisher.react = ({ aggregateId }) => (aggregateId === 'hung' ? 'hang' : 'confirm')
  relay({ publishTimeoutMs: 50, retry: { maxAttempts: 2, backoff: { initialMs: 1, maxMs: 1 } } }).start()
  const letters = await eventually('a dead letter', async () => {
    const some = await listDeadLetters(kit)
    return some.length > 0 && some
  })
  expect(letters[0]!.errorMessage).toBe('no confirm within 50 ms')
  expect(publisher.numbersOf('good')).toEqual([1])
})

// Bug: a broker that held connections and said nothing, or a queue without its majority, made dead letters of all messages within minutes.
test('where silence means that the broker is away, a message without an answer keeps its attempts, and stops only its aggregate', async () => {
  await write(event('hung', 1), event('good', 1))
  Object.assign(publisher, { silenceIsOutage: true })
  let hung = 0
  publisher.react = ({ aggregateId }) => {
    if (aggregateId === 'good') return 'confirm'
    hung += 1
    return hung > 3 ? 'confirm' : 'hang'
  }
  relay({ publishTimeoutMs: 50, retry: { maxAttempts: 1 } }).start()
  await eventually('both', () => publisher.confirmed.length === 2)
  expect(publisher.confirmed.map(({ aggregateId }) => aggregateId)).toEqual(['good', 'hung'])
  expect(await countOf(kit, 'dead_letters')).toBe(0)
  expect(kit.seenOf('publish_failed').map(({ error }) => (error as Error).message)).toEqual(
    Array(3).fill('no confirm within 50 ms'),
  )
})

test('a delayed event is sent later, and delays no other', async () => {
  await write(event('a', 1, { availableAt: new Date(Date.now() + 3_600_000) }), event('a', 2))
  const one = relay()
  expect(await one.drainOnce()).toBe(1)
  await kit.pool.query(`UPDATE ${kit.schema}.outbox SET available_at = clock_timestamp()`)
  expect(await one.drainOnce()).toBe(1)
  expect(publisher.numbersOf('a')).toEqual([2, 1])
})

test('transactions that commit in the other order: events of one aggregate still go in the order of commits', async () => {
  // The second writer begins while the first is open, and has to wait at its publish: so it cannot get a lower place.
  const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const first = kit.transaction(async (tx) => {
    await publish(kit, tx, event('a', 1))
    entered.resolve()
    await go.promise
  })
  await entered.promise
  const second = write(event('a', 2))
  const one = relay()
  expect(await one.drainOnce()).toBe(0)
  go.resolve()
  await Promise.all([first, second])
  await one.drainOnce()
  expect(publisher.numbersOf('a')).toEqual([1, 2])
})

test('a backend killed under the relay, again and again: everything arrives, in order', async () => {
  await fill(600, 20)
  publisher.react = () => pause(Math.random() * 3, 'confirm')
  relay({ batchSize: 10, leaseMs: 300 }).start()
  const killer = server.pool()
  let kills = 0
  while (
    (await killer.query(`SELECT count(*)::int AS n FROM ${kit.schema}.outbox`)).rows[0].n > 0 &&
    kills < 500
  ) {
    await killer.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
       ORDER BY random() LIMIT 1`,
    )
    kills += 1
    await pause(10)
  }
  await drained()
  expect(kills).toBeGreaterThan(3)
  for (let index = 0; index < 20; index += 1) {
    const firsts = [...new Set(publisher.numbersOf(`a${index}`))]
    expect(firsts).toEqual(Array.from({ length: 30 }, (_, n) => n))
  }
})

test('with NOTIFY the relay is woken before its next poll', async () => {
  await enableNotify(kit)
  const slow = relay({ pollIntervalMs: 60_000 })
  await using _ = await wakeOnNotify(kit, slow, { host: server.folder, port: server.port, user: 'postgres' })
  slow.start()
  await eventually('the first look', () => kit.seenOf('partitions_changed').length > 0)
  await write(event('a', 1))
  await eventually('the message', () => publisher.confirmed.length === 1)
  await disableNotify(kit)
})
