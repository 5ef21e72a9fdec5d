// Migrations run forward, once, whichever process starts first; an unexpected database is refused.
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { createMailboxPublisher } from '../../packages/saga/src/brokers/mailbox.ts'
import { runHousekeeping } from '../../packages/saga/src/housekeeping.ts'
import { createSagaKit, type SagaKit } from '../../packages/saga/src/kit.ts'
import { migrate, plans } from '../../packages/saga/src/migrate.ts'
import { publish } from '../../packages/saga/src/outbox.ts'
import { createPostgresLocks } from '../../packages/saga/src/postgres-locks.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { defineSaga } from '../../packages/saga/src/saga-definition.ts'
import { getSaga } from '../../packages/saga/src/saga-instances.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { migrations } from '../../packages/saga/src/schema.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'

const server = duringTests(() => startPostgres())

const kitIn = (schema: string, partitions = 16): SagaKit =>
  createSagaKit({ pool: server.pool(), schema, partitions })
const latest = migrations.at(-1)!.version
const tablesOf = async (schema: string) =>
  (
    await server
      .pool()
      .query('SELECT table_name FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1', [schema])
  ).rows.map((row) => row.table_name)

test('an empty database gets every migration, and the second call applies none', async () => {
  const kit = kitIn('first')
  expect((await migrate(kit)).applied).toEqual(migrations.map(({ version }) => version))
  expect(await migrate(kit)).toEqual({ applied: [], version: latest })
})

test('ten processes that start together migrate once', async () => {
  const reports = await Promise.all(Array.from({ length: 10 }, () => migrate(kitIn('together'))))
  expect(reports.filter(({ applied }) => applied.length > 0)).toHaveLength(1)
})

test('a dry run prints what it would do and changes no table', async () => {
  const kit = kitIn('dry')
  expect((await migrate(kit, { dryRun: true })).applied).toHaveLength(migrations.length)
  expect(await tablesOf('dry')).toEqual([])
})

test('the printed plan, given to the database by hand, is the migration', async () => {
  await server.pool().query(plans('by_hand'))
  const counted = await server.pool().query('SELECT count(*)::int AS n FROM by_hand.outbox_partitions')
  expect(counted.rows[0].n).toBe(16)
  const kit = kitIn('by_hand')
  expect((await migrate(kit)).applied).toEqual([])
  await migrate(kitIn('by_kit'))
  expect(await tablesOf('by_hand')).toEqual(await tablesOf('by_kit'))
})

// Bug: `migrate`, which a service calls at its start, wanted the right to create schemas, also where nothing was left to do.
test('a user who owns the schema and may create no other migrates, and prepares it by the printed plan', async () => {
  const admin = server.pool()
  await admin.query('CREATE ROLE owner LOGIN')
  for (const schema of ['owned', 'owned_by_hand'])
    await admin.query(`CREATE SCHEMA ${schema} AUTHORIZATION owner`)
  const pool = server.pool({ user: 'owner' })
  const kit = createSagaKit({ pool, schema: 'owned' })
  expect((await migrate(kit)).version).toBe(latest)
  await pool.query(plans('owned_by_hand'))
  expect(await tablesOf('owned_by_hand')).toEqual(await tablesOf('owned'))
})

// Bug: the guide said nothing of sequences. After logical replication no service could publish, and old tokens came again.
test('on a server whose sequences were left behind, services go on after the SQL of the guide', async () => {
  const [, sql] = /```sql\n(-- The sequences of the old server[^`]+)```/.exec(
    await readFile('docs/guide/saga.md', 'utf8'),
  )!
  const old = kitIn('fencepost')
  await migrate(old)
  const event = { aggregateType: 'order', aggregateId: 'o', type: 'T', payload: {} }
  const published = (kit: SagaKit) => kit.transaction((tx) => publish(kit, tx, event))
  const token = async (kit: SagaKit) => {
    const lock = await createPostgresLocks(kit).acquire(['shelf'], { leaseMs: 10_000 })
    await lock.release()
    return lock.fencingToken
  }
  const last = await token(old)
  await published(old)

  await using server2 = await startPostgres()
  const moved = createSagaKit({ pool: server2.pool(), events: () => {} })
  await migrate(moved)
  // As replication copies it: the rows, and no sequence.
  const { rows } = await old.pool.query('SELECT * FROM fencepost.outbox')
  await moved.pool.query(
    `INSERT INTO fencepost.outbox SELECT * FROM json_populate_recordset(NULL::fencepost.outbox, $1)`,
    [JSON.stringify(rows)],
  )
  await expect(published(moved)).rejects.toThrow('duplicate key')
  const statements = (await old.pool.query<{ format: string }>(sql!)).rows
  for (const { format } of statements) await moved.pool.query(format)
  await published(moved)
  expect(await token(moved)).toBeGreaterThan(last)
})

test('a service with the rights that the guide grants finds nothing to migrate, works, and cannot change the tables', async () => {
  const admin = server.pool()
  await migrate(kitIn('granted'))
  await admin.query('CREATE ROLE service LOGIN')
  const [, grants] = /```sql\n(-- The rights of a service[^`]+)```/.exec(
    await readFile('docs/guide/saga.md', 'utf8'),
  )!
  await admin.query(grants!.replaceAll('fencepost', 'granted'))
  const kit = createSagaKit({ pool: server.pool({ user: 'service' }), schema: 'granted', events: () => {} })
  expect((await migrate(kit)).applied).toEqual([])
  const saga = defineSaga<object>('granted').step({
    name: 'one',
    resources: () => ['shelf'],
    effect: async () => 1,
    commit: async (tx) => publish(kit, tx, { aggregateType: 'a', aggregateId: '1', type: 'T', payload: 1 }),
  })
  const runner = createSagaRunner({ kit, definitions: [saga], lockManager: createPostgresLocks(kit) })
  await kit.transaction((tx) => runner.begin(tx, saga, { sagaId: '1', input: {} }))
  await runner.runOnce()
  expect(await getSaga(kit, '1')).toMatchObject({ status: 'completed' })
  const relay = createOutboxRelay({ kit, publisher: createMailboxPublisher(kit) })
  expect(await relay.drainOnce()).toBe(1)
  await relay.stop()
  expect(await runHousekeeping(kit)).toBe(true)
  await expect(kit.query('ALTER TABLE granted.outbox ADD COLUMN x int')).rejects.toMatchObject({
    code: '42501',
  })
})

// Bug: behind `migrate`, which waited for it without an end, every `publish` of every service waited for the longest transaction of the database.
test('a migration gives way to services while a long transaction has a table, and is done after it', async () => {
  const pool = server.pool()
  await migrate(kitIn('busy'))
  const report = await pool.connect()
  await report.query('BEGIN')
  await report.query('SELECT count(*) FROM busy.outbox')
  const migrating = migrate(kitIn('busy', 8), { lockWaitMs: 200 })
  await eventually('the migration to wait for the outbox', async () => {
    const waits = `SELECT FROM pg_locks WHERE NOT granted AND relation = 'busy.outbox'::regclass`
    return (await pool.query(waits)).rows.length > 0
  })
  await pool.query('SELECT FROM busy.outbox FOR UPDATE SKIP LOCKED')
  await report.query('COMMIT')
  report.release()
  await migrating
  const counted = await pool.query('SELECT count(*)::int AS n FROM busy.outbox_partitions')
  expect(counted.rows).toEqual([{ n: 8 }])
})

// Bug: the limit ended the wait for another process that migrates, and the index of a large table, each time anew.
test('a statement_timeout of the database or the user, which is meant for requests, ends no migration', async () => {
  const pool = server.pool()
  const hasty = server.pool({ options: '-c statement_timeout=100' })
  const kit = createSagaKit({ pool: hasty, schema: 'hasty', events: () => {} })
  const other = await pool.connect()
  await other.query('BEGIN')
  await other.query(`SELECT pg_advisory_xact_lock(hashtextextended('fencepost/saga:hasty', 0))`)
  const migrating = migrate(kit)
  migrating.catch(() => {})
  try {
    await eventually('it to have waited for longer than that', async () => {
      const waits = `SELECT FROM pg_stat_activity WHERE wait_event = 'advisory' AND clock_timestamp() - query_start > '200 ms'`
      return (await pool.query(waits)).rows.length > 0
    })
  } finally {
    await other.query('COMMIT')
    other.release()
  }
  expect((await migrating).applied).toHaveLength(migrations.length)
  // It holds for the migration alone.
  expect((await hasty.query('SHOW statement_timeout')).rows).toEqual([{ statement_timeout: '100ms' }])
})

// Bug: a message with a character that the database lacks came again for ever: neither it nor its dead letter could be written.
test('a database that is not encoded in UTF8 is refused', async () => {
  const pool = server.pool()
  // PostgreSQL takes another encoding from the template of this name alone, which the servers of tests lack.
  await pool.query('CREATE DATABASE template0')
  await pool.query(`CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'`)
  const kit = createSagaKit({ pool: server.pool({ database: 'latin' }), events: () => {} })
  await expect(migrate(kit)).rejects.toThrow(`encoded in LATIN1, which does not have every character`)
  await expect(migrate(kit, { dryRun: true })).rejects.toThrow(`create one with ENCODING 'UTF8'`)
})

test('the printed plan changes nothing of its own version', async () => {
  const admin = server.pool()
  const rowsOf = async (schema: string) =>
    (await admin.query(`SELECT version, checksum, oldest_kit FROM ${schema}.schema_migrations`)).rows
  await migrate(kitIn('whole'))
  const before = await rowsOf('whole')
  await admin.query(plans('whole'))
  expect(await rowsOf('whole')).toEqual(before)
})

/** As a later kit leaves the tables. */
async function migratedLater(schema: string, oldestKit: number | null): Promise<SagaKit> {
  const kit = kitIn(schema)
  await migrate(kit)
  await kit.pool.query(
    `INSERT INTO ${schema}.schema_migrations (version, name, checksum, oldest_kit)
     VALUES (998, 'an addition', 'x', $1), (999, 'another', 'x', $1)`,
    [oldestKit],
  )
  return kit
}

// Bug: a service that calls `migrate` at its start did not start again, once a later version had migrated the tables.
test('a kit that goes back starts on later tables, where their migrations only added', async () => {
  const kit = await migratedLater('added', latest)
  const later = { applied: [], version: 999 }
  expect(await migrate(kit)).toEqual(later)
  expect(await migrate(kit, { dryRun: true })).toEqual(later)
  await server.pool().query(plans('added'))
  expect(await migrate(kit)).toEqual(later)
})

test('later tables that this kit does not work on are refused, with what works on them', async () => {
  await expect(migrate(await migratedLater('changed', latest + 1))).rejects.toThrow(
    `migration 998, which this version of fencepost does not know: its tables want a version that knows migration ${latest + 1}, and this one knows ${latest}`,
  )
})

test('later tables that do not say who works on them are refused', async () => {
  await expect(migrate(await migratedLater('newer', null))).rejects.toThrow(
    /migration 998, which this version of fencepost does not know$/,
  )
})

test('later tables that lack a migration of this kit are refused, and get none', async () => {
  const kit = await migratedLater('lacking', latest)
  await kit.pool.query('DELETE FROM lacking.schema_migrations WHERE version = 1')
  await expect(migrate(kit)).rejects.toThrow('at migration 999, and lacks 1 (the tables of 0.1.0)')
})

test('a migration that was edited after its release is refused', async () => {
  const kit = kitIn('edited')
  await migrate(kit)
  await kit.pool.query(`UPDATE edited.schema_migrations SET checksum = 'other' WHERE version = 1`)
  await expect(migrate(kit)).rejects.toThrow('migration 1 (the tables of 0.1.0) differs')
})

test('the number of partitions changes only while no message waits', async () => {
  await migrate(kitIn('parts', 4))
  await migrate(kitIn('parts', 8))
  await server
    .pool()
    .query(`INSERT INTO parts.outbox (message_id, aggregate_type, aggregate_id, partition, type, destination, payload, headers)
    VALUES (gen_random_uuid(), 'a', '1', 0, 't', 'd', '{}', '{}')`)
  await expect(migrate(kitIn('parts', 16))).rejects.toThrow('has 8 partitions and this kit asks for 16')
})

// Bug: the first service of a new version changed it beside those of before, as soon as the outbox was empty for a moment. Their relays stopped, and
// messages of one aggregate were relayed out of order.
test('the number of partitions does not change while a relay runs', async () => {
  const before = kitIn('relayed', 4)
  await migrate(before)
  const relay = createOutboxRelay({ kit: before, publisher: createMailboxPublisher(before), relayId: 'r-1' })
  await relay.drainOnce()
  await expect(migrate(kitIn('relayed', 8))).rejects.toThrow(
    'has 4 partitions and this kit asks for 8, while relay r-1 runs: stop all services',
  )
  expect((await migrate(before)).applied).toEqual([])
  await relay.stop()
  await migrate(kitIn('relayed', 8))
})

test.each(['', 'a b', 'a"b', '1a', 'x'.repeat(64)])('%j is no schema', (schema) => {
  expect(() => createSagaKit({ pool: server.pool(), schema })).toThrow('not an SQL identifier')
})
