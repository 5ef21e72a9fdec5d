// The tables are cleaned in the background, wherever a consumer, a relay or a saga runner runs, by one process in each interval.
import { beforeEach, expect, test, vi } from 'vitest'
import { processRandom } from '../../packages/saga/src/ambient.ts'
import { createConsumer } from '../../packages/saga/src/consumer.ts'
import { SchemaMissingError } from '../../packages/saga/src/errors.ts'
import type { SagaEvent } from '../../packages/saga/src/events.ts'
import { runHousekeeping, startHousekeeping } from '../../packages/saga/src/housekeeping.ts'
import { createSagaKit, type HousekeepingOptions } from '../../packages/saga/src/kit.ts'
import { publish } from '../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { countOf, orderEvent, type TestKit, testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let kit: TestKit
let clock: VirtualClock
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  clock = new VirtualClock()
  kit = await testKit(server, { clock, random: { ...processRandom, fraction: () => 0 } })
})

// Without chance, and to the millisecond: while a run waits for a connection no time passes, as the wait has a limit of its own.
const FIRST_RUN_MS = 15_000
const INTERVAL_MS = 300_000

const subscriber = { subscribe: async () => ({ close: async () => {} }) }
const consumerOf = (one: TestKit) =>
  createConsumer({ kit: one, subscriber, consumerId: 'c', handlers: {}, replayIntervalMs: 10 * INTERVAL_MS })
const expiredKeys = (count: number) =>
  kit.pool.query(
    `INSERT INTO ${kit.schema}.idempotency_keys (scope, key, request_hash, status, owner, fence, locked_until, expires_at)
     SELECT 's', n, '', 'completed', '', 0, clock_timestamp(), clock_timestamp() - interval '1 s' FROM generate_series(1, $1) n`,
    [count],
  )
const letter = (messageId: string, daysOld: number, more: { code?: string; status?: string } = {}) =>
  kit.pool.query(
    `INSERT INTO ${kit.schema}.dead_letters (source, consumer_id, message_id, aggregate_type, aggregate_id, ordering_key, type,
       destination, payload, headers, error_code, error_message, attempts, created_at, died_at, status)
     VALUES ('inbox', 'c', $1, '', '', 'sequence', 'Paid', '', '{}', '{}', $3, 'x', 1, clock_timestamp(),
       clock_timestamp() - $2 * interval '1 day', $4)`,
    [messageId, daysOld, more.code ?? 'x', more.status ?? 'dead'],
  )
const lettersByStatus = async () => {
  const { rows } = await kit.pool.query(
    `SELECT message_id, status FROM ${kit.schema}.dead_letters ORDER BY id`,
  )
  return Object.fromEntries(rows.map(({ message_id, status }) => [message_id, status]))
}
const due = () => kit.pool.query(`UPDATE ${kit.schema}.housekeeping SET due_at = '-infinity'`)
const leaseOf = async () =>
  (
    await kit.pool.query(
      `SELECT lease_until > clock_timestamp() AS held, due_at > clock_timestamp() AS over FROM ${kit.schema}.housekeeping`,
    )
  ).rows[0]
const runs = () => kit.seenOf('housekept').length

const hosts: readonly [string, () => Promise<AsyncDisposable>][] = [
  ['consumer', () => consumerOf(kit)],
  [
    'relay',
    async () => {
      const publisher = new RecordingPublisher()
      const relay = createOutboxRelay({ kit, publisher, pollIntervalMs: 10 * INTERVAL_MS })
      relay.start()
      return relay
    },
  ],
  [
    'saga runner',
    async () => {
      const runner = createSagaRunner({ kit, definitions: [], pollIntervalMs: 10 * INTERVAL_MS })
      runner.start()
      return runner
    },
  ],
  ['startHousekeeping', async () => startHousekeeping(kit)],
]

test.each(hosts)(
  '%s: runs soon after the start, then once in each interval, and not after the stop',
  async (_, start) => {
    await expiredKeys(1)
    const host = await start()
    await clock.advance(FIRST_RUN_MS)
    await eventually('the first run', () => runs() === 1)
    expect(await countOf(kit, 'idempotency_keys')).toBe(0)
    await due()
    await clock.advance(INTERVAL_MS)
    await eventually('the second run', () => runs() === 2)
    await host[Symbol.asyncDispose]()
    await due()
    await clock.advance(10 * INTERVAL_MS)
    expect([runs(), clock.pendingTimers]).toEqual([2, 0])
  },
)

test('a process with several consumers and relays runs it once, until the last of them is stopped', async () => {
  const timers = vi.spyOn(clock, 'timer')
  const all = await Promise.all(hosts.map(([, start]) => start()))
  expect(timers.mock.calls.filter(([delayMs]) => delayMs === FIRST_RUN_MS)).toHaveLength(1)
  // A relay or a runner that is asking the database has no timer until it has the answer.
  await eventually(
    'each host waits for its next look, and one for all keeps house',
    () => clock.pendingTimers === 4,
  )
  const timersOfHosts = clock.pendingTimers - 1
  for (const host of all.slice(1)) await host[Symbol.asyncDispose]()
  await clock.advance(FIRST_RUN_MS)
  await eventually('the run', () => runs() === 1)
  await all[0]![Symbol.asyncDispose]()
  expect([timersOfHosts, clock.pendingTimers]).toEqual([3, 0])
})

test('housekeeping: false switches it off', async () => {
  const off = await testKit(server, { clock, housekeeping: false })
  await using _consumer = await consumerOf(off)
  await using _none = startHousekeeping(off)
  await clock.advance(INTERVAL_MS)
  expect(off.seenOf('housekept')).toEqual([])
  expect(await countOf(off, 'housekeeping')).toBe(0)
})

test.each<[HousekeepingOptions, RegExp]>([
  [{ intervalMs: 999 }, /housekeeping\.intervalMs: 999 \(at least 1000 ms expected\)/],
  [{ intervalMs: Number.NaN }, /housekeeping\.intervalMs: NaN/],
  [{ expireDeadLettersMs: 0 }, /housekeeping\.expireDeadLettersMs: 0 \(more than 0 expected\)/],
  [{ batchSize: -1 }, /housekeeping\.batchSize: -1/],
])('%j is refused', (housekeeping, words) => {
  expect(() => createSagaKit({ pool: server.pool(), housekeeping })).toThrow(words)
})

test('of ten processes one runs it, and none before the next interval', async () => {
  const ran = await Promise.all(Array.from({ length: 10 }, () => runHousekeeping(kit)))
  expect(ran.filter(Boolean)).toHaveLength(1)
  expect(await runHousekeeping(kit)).toBe(false)
  await due()
  expect(await runHousekeeping(kit)).toBe(true)
})

test('the lease of a process that died is taken over when it has expired', async () => {
  await kit.pool.query(
    `INSERT INTO ${kit.schema}.housekeeping VALUES ('all', 'dead', clock_timestamp() + interval '1 minute', '-infinity')`,
  )
  expect(await runHousekeeping(kit)).toBe(false)
  await kit.pool.query(`UPDATE ${kit.schema}.housekeeping SET lease_until = clock_timestamp()`)
  expect(await runHousekeeping(kit)).toBe(true)
})

/** Runs it on a clock that moves 20 s with every batch; `before` is called with the number of the batch that is next. */
async function slowRun(before: (batch: number) => Promise<unknown>): Promise<boolean> {
  let batch = 0
  const transaction: TestKit['transaction'] = async (work, options) => {
    batch += 1
    await before(batch)
    await clock.advance(20_000)
    return kit.transaction(work, options)
  }
  return runHousekeeping({ ...kit, transaction }, { batchSize: 10 })
}

test('a long run renews its lease between its batches', async () => {
  await expiredKeys(30)
  const s = kit.schema
  let renewed: unknown
  const ran = await slowRun(async (batch) => {
    // Far less than a renewal gives.
    if (batch === 2)
      await kit.pool.query(`UPDATE ${s}.housekeeping SET lease_until = clock_timestamp() + interval '10 s'`)
    if (batch === 4)
      renewed = await countOf(kit, `housekeeping WHERE lease_until > clock_timestamp() + interval '20 s'`)
  })
  expect([ran, renewed, await leaseOf()]).toEqual([true, 1, { held: false, over: true }])
})

test('a run whose lease another process took over leaves the rest to it', async () => {
  await expiredKeys(30)
  const s = kit.schema
  const ran = await slowRun(async (batch) => {
    if (batch === 2) await kit.pool.query(`UPDATE ${s}.housekeeping SET owner = 'other'`)
  })
  expect([ran, runs(), await countOf(kit, 'idempotency_keys')]).toEqual([false, 0, 10])
  expect(await leaseOf()).toEqual({ held: true, over: false })
})

test('a stop ends the run after the batch in progress, and the next process goes on at once', async () => {
  await expiredKeys(3_000)
  const house = startHousekeeping(kit)
  const held = await kit.pool.connect()
  await held.query(`BEGIN; LOCK TABLE ${kit.schema}.idempotency_keys IN ACCESS EXCLUSIVE MODE`)
  await clock.advance(FIRST_RUN_MS)
  await eventually('its lease', async () => (await countOf(kit, 'housekeeping')) === 1)
  const stopped = house.stop()
  await held.query('COMMIT')
  held.release()
  await stopped
  expect([runs(), await leaseOf()]).toEqual([0, { held: false, over: false }])
  expect(await countOf(kit, 'idempotency_keys')).toBeGreaterThanOrEqual(2_000)
  expect(await runHousekeeping(kit)).toBe(true)
  expect(await countOf(kit, 'idempotency_keys')).toBe(0)
})

const weekMs = 7 * 24 * 3_600_000

test.each<[string, HousekeepingOptions, Record<string, string>, number]>([
  ['stay by default', {}, { old: 'dead', wanted: 'replaying', new: 'dead' }, 0],
  [
    'expire where a time is set; what a person has asked to replay stays',
    { expireDeadLettersMs: weekMs },
    { old: 'discarded', wanted: 'replaying', new: 'dead' },
    1,
  ],
])('open dead letters %s', async (_, options, statuses, expired) => {
  await letter('old', 8)
  await letter('wanted', 8, { status: 'replaying' })
  await letter('new', 6)
  await runHousekeeping(kit, options)
  expect(await lettersByStatus()).toEqual(statuses)
  expect(kit.seenOf('housekept')[0]).toMatchObject({ expired })
})

test('what waits behind an expired dead letter goes on, unless it has expired as well, however the batches fall', async () => {
  await letter('poison', 9)
  await letter('behind, expired', 8, { code: 'behind' })
  await letter('behind, new', 6, { code: 'behind' })
  await runHousekeeping(kit, { expireDeadLettersMs: weekMs, batchSize: 1 })
  expect(await lettersByStatus()).toEqual({
    poison: 'discarded',
    'behind, expired': 'discarded',
    'behind, new': 'replaying',
  })
})

test('what relays that are gone left behind is removed; live leases, fresh stops and parked aggregates stay', async () => {
  const s = kit.schema
  await kit.pool.query(`UPDATE ${s}.outbox_partitions SET owner = 'gone', lease_until = clock_timestamp() - interval '2 hours' WHERE partition = 0;
    UPDATE ${s}.outbox_partitions SET owner = 'live', lease_until = clock_timestamp() + interval '1 minute' WHERE partition = 1;
    INSERT INTO ${s}.outbox_stops VALUES ('a', 'old', clock_timestamp() - interval '2 hours'), ('a', 'fresh', clock_timestamp()),
      ('a', 'parked', 'infinity')`)
  await runHousekeeping(kit)
  expect(await countOf(kit, `outbox_partitions WHERE owner IS NOT NULL`)).toBe(1)
  const { rows } = await kit.pool.query(`SELECT aggregate_id FROM ${s}.outbox_stops ORDER BY 1`)
  expect(rows.map(({ aggregate_id }) => aggregate_id)).toEqual(['fresh', 'parked'])
})

test('messages of a service with more partitions than the database were sent by no relay: they are moved, and it is told', async () => {
  const other = createSagaKit({ pool: kit.pool, schema: kit.schemaName, partitions: 1_024 })
  await other.transaction(async (tx) => {
    for (let n = 0; n < 60; n += 1)
      await publish(other, tx, orderEvent('Changed', `a${n % 20}`, { payload: { n } }))
  })
  const publisher = new RecordingPublisher()
  await using relay = createOutboxRelay({ kit, publisher })
  const sentBefore = await relay.drainOnce()
  expect(sentBefore).toBeLessThan(60)
  await runHousekeeping(kit)
  await relay.drainOnce()
  expect(publisher.confirmed).toHaveLength(60)
  for (let index = 0; index < 20; index += 1)
    expect(publisher.numbersOf(`a${index}`)).toEqual([index, index + 20, index + 40])
  const [told] = kit.seenOf('housekeeping_error')
  expect(String(told?.error)).toMatch(
    new RegExp(
      `${60 - sentBefore} messages stood in partitions up to \\d+, and the database has 16: .*partitions: 16`,
    ),
  )
})

test('without its tables it says so, and does not fail what it runs beside', async () => {
  const seen: SagaEvent[] = []
  const bare = createSagaKit({ pool: server.pool(), schema: 'bare', events: (event) => seen.push(event) })
  expect(await runHousekeeping(bare)).toBe(false)
  expect(seen).toEqual([{ kind: 'housekeeping_error', error: expect.any(SchemaMissingError) }])
})
