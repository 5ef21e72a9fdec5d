// Consumers look for dead letters to replay once a second, each process by itself: what waits for a decision costs that nothing.
import { expect, test } from 'vitest'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { testKit } from '../support/saga-kit.ts'

// Bug: every look read all letters of its consumer that nobody had decided on: 200,000 after a bad day, a second of the server's time.
test('a look for letters to replay reads those alone', async () => {
  await using server = await startPostgres()
  const pool = server.pool({ max: 1 })
  const kit = await testKit(server, { pool, housekeeping: false })
  const s = kit.schema
  await new Inbox({ kit, consumerId: 'billing', handlers: {} }).receive({
    ...{ messageId: 'first', aggregateType: 'a', aggregateId: '1', type: 'Lost', body: '{}' },
    ...{ headers: {}, createdAt: '', redelivered: false },
  })
  // As the first one is.
  await pool.query(
    `INSERT INTO ${s}.dead_letters (source, consumer_id, message_id, aggregate_type, aggregate_id, type, destination, payload, headers,
                                    error_code, error_message, attempts, created_at)
     SELECT source, consumer_id, n::text, aggregate_type, aggregate_id, type, destination, payload, headers, error_code, error_message,
            attempts, created_at
     FROM ${s}.dead_letters, generate_series(1, 5000) AS n`,
  )
  await pool.query(`ANALYZE ${s}.dead_letters`)
  const readRows = async () => {
    await pool.query('SELECT pg_stat_force_next_flush()')
    const { rows } = await pool.query(
      `SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::int AS n FROM pg_stat_user_tables
       WHERE schemaname = $1 AND relname = 'dead_letters'`,
      [kit.schemaName],
    )
    return rows[0].n
  }
  const look = () => replayOnce(kit, 'billing', { Lost: async () => {} })
  const before = await readRows()
  expect(await look()).toBe(0)
  expect((await readRows()) - before).toBeLessThan(10)
  const [letter] = await listDeadLetters(kit)
  await replayDeadLetters(kit, [letter!.id])
  expect(await look()).toBe(1)
})
