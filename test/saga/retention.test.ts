// Expired rows are deleted in batches; running ones stay, however old. Abandoned steps are finished.
import { beforeEach, expect, test } from 'vitest'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { NonRetryableError } from '../../packages/saga/src/errors.ts'
import { runRetention } from '../../packages/saga/src/housekeeping.ts'
import { withIdempotency } from '../../packages/saga/src/idempotency.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import { createSagaKit } from '../../packages/saga/src/kit.ts'
import { newMessageId } from '../../packages/saga/src/outbox.ts'
import { runRecovery } from '../../packages/saga/src/recovery.ts'
import { runIdempotentStep } from '../../packages/saga/src/step.ts'
import { duringTests } from '../support/during-tests.ts'
import { FakeProvider } from '../support/fake-provider.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  kit = await testKit(server)
})

const keys = (status: string, expires: string, count: number) =>
  kit.pool.query(
    `INSERT INTO ${kit.schema}.idempotency_keys (scope, key, request_hash, status, owner, fence, locked_until, expires_at)
     SELECT '${status}', 'k' || n || $2, '', '${status}', '', 0, clock_timestamp(), clock_timestamp() + $2::interval FROM generate_series(1, $1) n`,
    [count, expires],
  )

test.each<[string, string, number]>([
  ['completed', '-1 second', 0],
  ['failed', '-1 second', 0],
  ['completed', '1 hour', 5],
  ['in_progress', '-1 year', 5],
  ['parked', '-1 year', 5],
])('of five keys %s that expire in %s, %i stay', async (status, expires, stay) => {
  await keys(status, expires, 5)
  await runRetention(kit)
  expect(await countOf(kit, 'idempotency_keys')).toBe(stay)
})

test('batches are bounded, and the next run goes on', async () => {
  await keys('completed', '-1 second', 250)
  expect((await runRetention(kit, { batchSize: 50, maxBatches: 2 })).idempotency_keys).toBe(100)
  expect((await runRetention(kit, { batchSize: 50 })).idempotency_keys).toBe(150)
})

test('of two concurrent processes one works, the other yields', async () => {
  await keys('completed', '-1 second', 1_000)
  const reports = await Promise.all([
    runRetention(kit, { batchSize: 10 }),
    runRetention(kit, { batchSize: 10 }),
  ])
  await runRetention(kit)
  expect(reports.every((report) => (report.idempotency_keys ?? 0) <= 1_000)).toBe(true)
  expect(await countOf(kit, 'idempotency_keys')).toBe(0)
})

test('finished sagas are deleted with their steps; parked ones stay', async () => {
  for (const status of ['completed', 'compensated', 'parked'])
    await kit.pool.query(
      `WITH i AS (INSERT INTO ${kit.schema}.saga_instances (saga_id, name, status, input, request_hash, headers, expires_at)
         VALUES ($1, 'x', $1, '{}', '', '{}', clock_timestamp() - interval '1 s'))
       INSERT INTO ${kit.schema}.saga_steps (saga_id, step, status) VALUES ($1, 'a', 'done'), ($1, 'b', 'done')`,
      [status],
    )
  await runRetention(kit)
  expect(await countOf(kit, 'saga_instances')).toBe(1)
  expect(await countOf(kit, 'saga_steps')).toBe(2)
})

// Bug: every run read each row of every table, however few had expired: the clock was compared row by row, by no index.
test('what has not expired is not read', async () => {
  const s = kit.schema
  const pool = server.pool({ max: 1 })
  await pool.query(
    `INSERT INTO ${s}.idempotency_keys (scope, key, request_hash, status, owner, fence, locked_until, expires_at)
     SELECT 's', n::text, '', 'completed', '', 0, now(), now() + n * interval '1 h' FROM generate_series(-4, 5000) n`,
  )
  await pool.query(
    `INSERT INTO ${s}.inbox (consumer_id, message_id, request_hash, status, expires_at)
     SELECT 'c', n::text, '', 'processed', now() + n * interval '1 h' FROM generate_series(-4, 5000) n`,
  )
  await pool.query(
    `INSERT INTO ${s}.saga_instances (saga_id, name, status, input, request_hash, headers, expires_at)
     SELECT n::text, 'x', 'completed', '{}', '', '{}', now() + n * interval '1 h' FROM generate_series(-4, 5000) n`,
  )
  await pool.query(
    `INSERT INTO ${s}.saga_steps (saga_id, step, status)
     SELECT n::text, step, 'done' FROM generate_series(-4, 5000) n, unnest('{a,b}'::text[]) step`,
  )
  await pool.query('ANALYZE')
  const tables = ['idempotency_keys', 'inbox', 'saga_instances', 'saga_steps']
  const read = async () => {
    await pool.query('SELECT pg_stat_force_next_flush()')
    const { rows } = await pool.query(
      `SELECT relname AS table, (seq_tup_read + idx_tup_fetch)::int AS n FROM pg_stat_user_tables
       WHERE schemaname = $1 AND relname = ANY($2)`,
      [kit.schemaName, tables],
    )
    return Object.fromEntries(rows.map(({ table, n }) => [table, n]))
  }
  const before = await read()
  const one = createSagaKit({ pool, schema: kit.schemaName, events: () => {} })
  expect(await runRetention(one)).toMatchObject({
    idempotency_keys: 5,
    inbox: 5,
    saga_steps: 10,
    saga_instances: 5,
  })
  const after = await read()
  expect(tables.filter((table) => after[table] - before[table] > 100)).toEqual([])
})

test('recovery finishes a step whose process died, with the stored request', async () => {
  const provider = new FakeProvider()
  const pay = (key: string, request: unknown, effect?: () => Promise<never>) =>
    runIdempotentStep(
      kit,
      { scope: 'pay', key, request, leaseMs: 30_000, keepRequest: true },
      {
        effect:
          effect ??
          (({ idempotencyKey }) => provider.charge(idempotencyKey, (request as { amount: number }).amount)),
        commit: async () => null,
      },
    )
  const dead = pay('dead', { amount: 7 }, () => new Promise(() => {}))
  dead.catch(() => 'it lost its lease, and nobody is there to hear it')
  while ((await countOf(kit, 'idempotency_keys')) === 0) await new Promise(setImmediate)
  const handlers = { pay: ({ key, request }: { key: string; request: unknown }) => pay(key, request) }
  expect(await runRecovery(kit, handlers)).toEqual({ recovered: 0, failed: 0, leftAlone: 0, parked: 0 })
  await kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  expect(await runRecovery(kit, handlers)).toEqual({ recovered: 1, failed: 0, leftAlone: 0, parked: 0 })
  expect([...provider.charges.values()].map(({ amount }) => amount)).toEqual([7])
})

// Bug: after a day the step of a dead letter was forgotten, and its replay charged again.
test.each([2, 89])(
  'a dead letter that is replayed after %i days finds the steps and keys of its handler',
  async (days) => {
    const provider = new FakeProvider()
    const rows: string[] = []
    let broken = true
    const outside = async ({ messageId }: { messageId: string }) => {
      await runIdempotentStep(
        kit,
        { scope: 'charge', key: messageId, request: null, leaseMs: 1_000 },
        {
          effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 7),
          commit: async () => null,
        },
      )
      await withIdempotency(kit, { scope: 'note', key: messageId, request: null }, async () => {
        rows.push(messageId)
      })
      if (broken) throw new NonRetryableError('a mistake in the handler')
    }
    const handlers = { OrderPlaced: { outside } }
    const headers = { 'fencepost-message-id': newMessageId(kit), 'fencepost-type': 'OrderPlaced' }
    const inbox = new Inbox({ kit, consumerId: 'test', handlers })
    await inbox.deliver({ headers, properties: {}, body: '{}', redelivered: false })
    const [letter] = await listDeadLetters(kit)
    await kit.pool.query(
      `UPDATE ${kit.schema}.idempotency_keys SET expires_at = expires_at - $1 * interval '1 day'`,
      [days],
    )
    await runRetention(kit)
    broken = false
    await replayDeadLetters(kit, [letter!.id])
    expect(await replayOnce(kit, 'test', handlers)).toBe(1)
    expect(provider.calls).toHaveLength(1)
    expect(rows).toHaveLength(1)
  },
)

test('messages that a replay may send again are remembered, however late the replay', async () => {
  const messageId = newMessageId(kit)
  // Its confirm was lost: the consumer has it, and the relay gave it up.
  await kit.pool.query(
    `INSERT INTO ${kit.schema}.inbox (consumer_id, message_id, request_hash, status, expires_at)
     VALUES ('test', $1, '', 'processed', clock_timestamp() - interval '1 day'),
            ('test', $2, '', 'processed', clock_timestamp() - interval '1 day')`,
    [messageId, newMessageId(kit)],
  )
  await kit.pool.query(
    `INSERT INTO ${kit.schema}.dead_letters (source, message_id, outbox_id, partition, aggregate_type, aggregate_id, type,
       destination, payload, headers, error_code, error_message, attempts, created_at)
     VALUES ('outbox', $1, 1, 0, 'order', 'a', 'Paid', 'q', '{}', '{}', 'publish_refused', 'no confirm', 10, clock_timestamp())`,
    [messageId],
  )
  await runRetention(kit)
  expect(await countOf(kit, 'inbox')).toBe(1)
  const [letter] = await listDeadLetters(kit)
  await replayDeadLetters(kit, [letter!.id])
  await runRetention(kit)
  expect(await countOf(kit, 'inbox WHERE message_id = $1', [messageId])).toBe(1)
})
