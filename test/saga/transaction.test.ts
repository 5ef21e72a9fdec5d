// A failed transaction says how, is retried only where that is right, and never ends the process.
import { once } from 'node:events'
import { type AddressInfo, createConnection, createServer } from 'node:net'
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { isOutage, sqlStateOf } from '../../packages/saga/src/database.ts'
import { CommitOutcomeUnknownError, TransactionAbortedError } from '../../packages/saga/src/errors.ts'
import { createSagaKit, type SagaKit } from '../../packages/saga/src/kit.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
})
beforeEach(async () => {
  kit.seen.length = 0
  await kit.pool.query('DROP TABLE IF EXISTS accounts')
  await kit.pool.query('CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)')
  await kit.pool.query('INSERT INTO accounts VALUES (1, 100), (2, 100)')
})

const balances = async () =>
  (await kit.pool.query('SELECT balance FROM accounts ORDER BY id')).rows.map((row) => row.balance)

test('a transaction returns its value, and its rows are there', async () => {
  const answer = await kit.transaction(async (tx) => {
    await tx.query('UPDATE accounts SET balance = 7 WHERE id = 1')
    return 'done'
  })
  expect(answer).toBe('done')
  expect(await balances()).toEqual([7, 100])
})

test('an error rolls back and is thrown as it was', async () => {
  const failure = new Error('no')
  const work = kit.transaction(async (tx) => {
    await tx.query('UPDATE accounts SET balance = 7')
    throw failure
  })
  await expect(work).rejects.toBe(failure)
  expect(await balances()).toEqual([100, 100])
})

test('a serialization failure runs the whole function again, on a new snapshot', async () => {
  let runs = 0
  const add = () =>
    kit.transaction(
      async (tx) => {
        runs += 1
        const { rows } = await tx.query<{ balance: number }>('SELECT balance FROM accounts WHERE id = 1')
        await tx.query('UPDATE accounts SET balance = $1 WHERE id = 1', [rows[0]!.balance + 1])
      },
      { isolation: 'serializable', retry: { maxAttempts: 50 } },
    )
  await Promise.all(Array.from({ length: 10 }, add))
  expect(await balances()).toEqual([110, 100])
  expect(runs).toBe(10 + kit.seenOf('transaction_retried').length)
  expect(runs).toBeGreaterThan(10)
})

// Bug: where a database has `default_transaction_isolation = serializable`, single statements failed; a relay sent what was confirmed again.
test.each(['repeatable read', 'serializable'])(
  'a single statement is repeated, too, where the default is %s',
  async (isolation) => {
    const pool = server.pool({ options: `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}` })
    const strict = createSagaKit({ pool, events: (event) => kit.seen.push(event) })
    const rival = await kit.pool.connect()
    try {
      await rival.query('BEGIN')
      await rival.query('UPDATE accounts SET balance = balance + 10 WHERE id = 1')
      const added = strict.query('UPDATE accounts SET balance = balance + 1 WHERE id = 1')
      await eventually('the statement waits for the row', async () => {
        const { rows } = await kit.pool.query(
          `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE accounts%'`,
        )
        return rows.length === 1
      })
      await rival.query('COMMIT')
      await added
    } finally {
      rival.release()
    }
    expect(await balances()).toEqual([111, 100])
    expect(kit.seenOf('transaction_retried').map(({ sqlState }) => sqlState)).toEqual(['40001'])
  },
)

// The one that PostgreSQL ends may be back before the other has woken up, and deadlock again.
test('a deadlock is retried, however often it comes, until both have ended', async () => {
  const both = Promise.withResolvers<void>()
  let runs = 0
  const move = (from: number, to: number) =>
    kit.transaction(
      async (tx) => {
        await tx.query('UPDATE accounts SET balance = balance - 10 WHERE id = $1', [from])
        runs += 1
        if (runs === 2) both.resolve()
        await both.promise
        await tx.query('UPDATE accounts SET balance = balance + 10 WHERE id = $1', [to])
      },
      { retry: { maxAttempts: 50 } },
    )
  await Promise.all([move(1, 2), move(2, 1)])
  expect(await balances()).toEqual([100, 100])
  const retried = kit.seenOf('transaction_retried').map((event) => event.sqlState)
  expect(retried).toEqual(Array(retried.length).fill('40P01'))
  expect(retried.length).toBeGreaterThan(0)
})

test('attempts are bounded, and the last error is the one thrown', async () => {
  let runs = 0
  const work = kit.transaction(
    async (tx) => {
      runs += 1
      await tx.query(`DO $$ BEGIN RAISE SQLSTATE '40001' USING MESSAGE = 'again'; END $$`)
    },
    { retry: { maxAttempts: 3, backoff: { initialMs: 1, maxMs: 1 } } },
  )
  await expect(work).rejects.toMatchObject({ code: '40001', message: 'again' })
  expect(runs).toBe(3)
})

test('other errors are not retried', async () => {
  let runs = 0
  const work = kit.transaction(async (tx) => {
    runs += 1
    await tx.query('INSERT INTO accounts VALUES (1, 1)')
  })
  await expect(work).rejects.toMatchObject({ code: '23505' })
  expect(runs).toBe(1)
})

test('a swallowed error does not become a silent ROLLBACK', async () => {
  const work = kit.transaction(async (tx) => {
    await tx.query('UPDATE accounts SET balance = 7')
    await tx.query('SELECT nonsense').catch(() => {})
  })
  await expect(work).rejects.toBeInstanceOf(TransactionAbortedError)
  expect(await balances()).toEqual([100, 100])
})

test('a backend that is killed between two statements fails the transaction, not the process', async () => {
  const work = kit.transaction(async (tx) => {
    const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
    await kit.pool.query('SELECT pg_terminate_backend($1, 5000)', [rows[0]!.pid])
    await tx.query('UPDATE accounts SET balance = 7')
  })
  await expect(work).rejects.toThrow(/connection|terminat/i)
  expect(await balances()).toEqual([100, 100])
})

// Bug: 57P05 was taken for an error of the statement, and the pool handed the dead connection out once more.
test('a session that the server ended because it was idle is an outage, and replaced', async () => {
  await using strict = await startPostgres({ config: ['idle_session_timeout = 50'] })
  // Over TCP, where a statement can still be sent into the connection whose end has not been read.
  const one = createSagaKit({
    pool: strict.pool({ host: '127.0.0.1', max: 1, idleTimeoutMillis: 0 }),
    schema: 'any',
    events: () => {},
  })
  await one.query('SELECT 1')
  // The process stands still, as in a pause of its machine: it has read nothing of the end when it asks again.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
  const late = await one.query('SELECT 1').catch((error: unknown) => error)
  expect([sqlStateOf(late), isOutage(late)]).toEqual(['57P05', true])
  expect((await one.query('SELECT 1 AS n')).rows).toEqual([{ n: 1 }])
})

/**
 * A way to the server on which the next answer that ends with ReadyForQuery is followed, in the same chunk, by the last words of a
 * server that ends: what a process reads that had no time for its sockets.
 */
async function lastWords() {
  const text = (field: string, value: string) => Buffer.from(`${field}${value}\0`)
  const fields = [text('S', 'FATAL'), text('C', '57P01'), text('M', 'terminating connection'), Buffer.of(0)]
  const body = Buffer.concat(fields)
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  const fatal = Buffer.concat([Buffer.from('E'), length, body])
  let armed = false
  const way = createServer((socket) => {
    const behind = createConnection({ host: '127.0.0.1', port: server.port })
    const end = () => [socket, behind].map((one) => one.destroy())
    for (const one of [socket, behind]) one.on('error', end).on('close', end)
    socket.pipe(behind)
    behind.on('data', (chunk: Buffer) => {
      const isReady = chunk.at(-6) === 'Z'.charCodeAt(0) && chunk.at(-2) === 5
      if (!armed || !isReady) return void socket.write(chunk)
      armed = false
      socket.end(Buffer.concat([chunk, fatal]))
    })
  }).listen(0, '127.0.0.1')
  await once(way, 'listening')
  onTestFinished(() => void way.close())
  return {
    host: '127.0.0.1',
    port: (way.address() as AddressInfo).port,
    arm: () => {
      armed = true
    },
  }
}

test.each<[string, boolean]>([
  ['has just been made', false],
  ['was handed on by the caller before', true],
])('a server that ends while a connection that %s is handed out ends no process', async (_, isUsed) => {
  const { arm, ...address } = await lastWords()
  const pool = server.pool({ ...address, max: 1 })
  const other = createSagaKit({ pool, schema: kit.schemaName })
  if (isUsed) await pool.query('SELECT 1')
  arm()
  // The pool hands the one client on within the turn in which this query is answered.
  const before = isUsed ? pool.query('SELECT 1') : Promise.resolve()
  const calls = [before, other.transaction((tx) => tx.query('SELECT 1')), other.query('SELECT 1')]
  const [, first] = await Promise.allSettled(calls)
  expect(first).toMatchObject({
    status: 'rejected',
    reason: { message: expect.stringMatching(/connection/i) },
  })
  expect((await other.query('SELECT 1 AS n')).rows).toEqual([{ n: 1 }])
})

test('a connection lost during COMMIT is called unknown: it may have committed', async () => {
  await kit.pool.query(`CREATE OR REPLACE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$`)
  await kit.pool.query(`CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION slow_commit()`)
  const holder = await kit.pool.connect()
  await holder.query('SELECT pg_advisory_lock(4711)')
  const work = kit.transaction((tx) => tx.query('UPDATE accounts SET balance = 7 WHERE id = 1'))
  const outcome = expect(work).rejects.toBeInstanceOf(CommitOutcomeUnknownError)
  let committing: number | undefined
  while (committing === undefined) {
    const { rows } = await holder.query(
      `SELECT pid FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'advisory'`,
    )
    committing = rows[0]?.pid
  }
  await holder.query('SELECT pg_terminate_backend($1)', [committing])
  await outcome
  await holder.query('SELECT pg_advisory_unlock(4711)')
  holder.release()
})

// Bug: after a failover a pool kept the sessions that lead to a replica, and no relay and no consumer got further.
test.each<[string, (reader: SagaKit) => Promise<unknown>]>([
  ['a statement', (reader) => reader.query('UPDATE accounts SET balance = 1 WHERE id = 1')],
  [
    'a transaction',
    (reader) => reader.transaction((tx) => tx.query('UPDATE accounts SET balance = 1 WHERE id = 1')),
  ],
])(
  '%s on a session that can only read is an outage, and the next one gets another session',
  async (_, write) => {
    // A session keeps what it had at its beginning, as one with a replica does.
    await kit.pool.query('DROP ROLE IF EXISTS reader')
    await kit.pool.query('CREATE ROLE reader LOGIN SUPERUSER')
    await kit.pool.query('ALTER ROLE reader SET default_transaction_read_only = on')
    const pool = server.pool({ user: 'reader', max: 1 })
    const reader = createSagaKit({ pool, events: () => {} })
    const error = await write(reader).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: '25006' })
    expect(isOutage(error)).toBe(true)
    await kit.pool.query('ALTER ROLE reader RESET default_transaction_read_only')
    await write(reader)
    expect(await balances()).toEqual([1, 100])
    await pool.end()
  },
)

test('a transaction that its work made read-only is no outage, and its session stays', async () => {
  const pool = server.pool({ max: 1 })
  const one = createSagaKit({ pool, events: () => {} })
  const session = async () => (await one.query('SELECT pg_backend_pid() AS pid')).rows[0]!.pid
  const before = await session()
  const failed = one.transaction(async (tx) => {
    await tx.query('SET TRANSACTION READ ONLY')
    await tx.query('UPDATE accounts SET balance = 1')
  })
  const error = await failed.catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: '25006' })
  expect(isOutage(error)).toBe(false)
  expect(await session()).toBe(before)
})

test('a statement that takes too long is ended by the server', async () => {
  const holder = await kit.pool.connect()
  try {
    await holder.query('SELECT pg_advisory_lock(4712)')
    const work = kit.transaction((tx) => tx.query('SELECT pg_advisory_xact_lock(4712)'), {
      statementTimeoutMs: 20,
    })
    await expect(work).rejects.toMatchObject({ code: '57014' })
  } finally {
    holder.release(true)
  }
})

// Bug: the pool got it back. Each statement of a relay went to the same silent connection, until TCP gave that up after a quarter of an hour.
test('a connection on which a statement had no answer in time is given up for a new one', async () => {
  const silent = createSagaKit({
    pool: server.pool({ max: 1, query_timeout: 200 }),
    schema: kit.schemaName,
    events: () => {},
  })
  const { rows } = await silent.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  const [{ pid }] = rows as [{ pid: number }]
  process.kill(pid, 'SIGSTOP')
  try {
    await expect(silent.query('SELECT 1')).rejects.toThrow('Query read timeout')
    expect((await silent.query('SELECT 1 AS n')).rows).toEqual([{ n: 1 }])
  } finally {
    process.kill(pid, 'SIGCONT')
  }
})

test('an unanswered COMMIT is called unknown, too: the server may be executing it', async () => {
  const impatient = createSagaKit({ pool: server.pool({ query_timeout: 3_000 }) })
  await kit.pool.query(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$`)
  await kit.pool.query(`CREATE CONSTRAINT TRIGGER hold AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION hold()`)
  const holder = await kit.pool.connect()
  try {
    await holder.query('SELECT pg_advisory_lock(7)')
    const work = impatient.transaction((tx) => tx.query('UPDATE accounts SET balance = 7 WHERE id = 1'))
    await expect(work).rejects.toBeInstanceOf(CommitOutcomeUnknownError)
  } finally {
    holder.release(true)
  }
})
