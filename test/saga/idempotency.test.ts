// One key, one execution: the first caller executes the work, the others get its result.
import { beforeAll, expect, test } from 'vitest'
import { IdempotencyKeyReuseError, OperationInProgressError } from '../../packages/saga/src/errors.ts'
import { withIdempotency } from '../../packages/saga/src/idempotency.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server, { pool: server.pool({ max: 50 }) })
  await kit.pool.query('CREATE TABLE effects (id serial, key text)')
})

const effectsOf = async (key: string) =>
  (await kit.pool.query('SELECT count(*)::int AS n FROM effects WHERE key = $1', [key])).rows[0].n

const record = (
  key: string,
  request: unknown = {},
  scope = 'test',
  onInProgress: 'wait' | 'throw' = 'wait',
) =>
  withIdempotency(kit, { scope, key, request, onInProgress }, async (tx) => {
    await tx.query('INSERT INTO effects (key) VALUES ($1)', [key])
    return { key, request }
  })

test('one key fifty times at once: 1 execution, 49 replays, 0 errors', async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, () => record('fifty')))
  expect(answers.filter((answer) => !answer.replayed)).toHaveLength(1)
  expect(new Set(answers.map((answer) => JSON.stringify(answer.result))).size).toBe(1)
  expect(await effectsOf('fifty')).toBe(1)
})

test('a thousand keys, fifty at a time: none is rejected', async () => {
  const keys = Array.from({ length: 1000 }, (_, index) => `distinct-${index}`)
  // Each lane asks one after the other: all at once would wait for a connection, and that wait has a limit of its own.
  const lane = async (first: number) => {
    const own = []
    for (let n = first; n < keys.length; n += 50) own.push(await record(keys[n]!))
    return own
  }
  const lanes = await Promise.all(Array.from({ length: 50 }, (_, first) => lane(first)))
  const answers = lanes.flat()
  expect(answers).toHaveLength(1000)
  expect(answers.every((answer) => !answer.replayed)).toBe(true)
  expect(kit.seenOf('transaction_retried')).toEqual([])
  expect(await countOf(kit, `idempotency_keys WHERE key LIKE 'distinct-%'`)).toBe(1000)
})

test('another order of members is the same request; another value is another', async () => {
  await record('order', { a: 1, b: { c: 2, d: 3 } })
  expect((await record('order', { b: { d: 3, c: 2 }, a: 1 })).replayed).toBe(true)
  await expect(record('order', { a: 1, b: { c: 2, d: 4 } })).rejects.toBeInstanceOf(IdempotencyKeyReuseError)
  expect(await effectsOf('order')).toBe(1)
})

test('a key in another scope is another key', async () => {
  expect((await record('scoped', {}, 'one')).replayed).toBe(false)
  expect((await record('scoped', {}, 'two')).replayed).toBe(false)
})

test('work that throws leaves no trace, and the next caller executes it', async () => {
  const failing = withIdempotency(kit, { scope: 'test', key: 'thrown', request: {} }, async (tx) => {
    await tx.query(`INSERT INTO effects (key) VALUES ('thrown')`)
    throw new Error('no')
  })
  await expect(failing).rejects.toThrow('no')
  expect(await countOf(kit, `idempotency_keys WHERE key = 'thrown'`)).toBe(0)
  expect((await record('thrown')).replayed).toBe(false)
})

test('a waiting rival executes when the first caller fails', async () => {
  const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const first = withIdempotency(kit, { scope: 'test', key: 'rival', request: {} }, async () => {
    entered.resolve()
    await go.promise
    throw new Error('first failed')
  })
  const failed = expect(first).rejects.toThrow('first failed')
  await entered.promise
  const second = record('rival')
  go.resolve()
  await failed
  expect((await second).replayed).toBe(false)
})

test('onInProgress throw: a running rival is reported, and its result is replayed later', async () => {
  const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const first = withIdempotency(kit, { scope: 'test', key: 'busy', request: {} }, async () => {
    entered.resolve()
    await go.promise
    return 'first'
  })
  await entered.promise
  await expect(record('busy', {}, 'test', 'throw')).rejects.toBeInstanceOf(OperationInProgressError)
  go.resolve()
  await first
  expect(await record('busy', {}, 'test', 'throw')).toEqual({ replayed: true, result: 'first' })
})

// Bug: it got an error without a code, which handlers of HTTP requests answered with 500, and consumers counted as an attempt.
test.each([
  ['lock_timeout', { lockTimeoutMs: 50 }],
  ['statement_timeout', { statementTimeoutMs: 50 }],
])('a rival whose wait a %s ends is told that the first one is in progress', async (name, transaction) => {
  const begun = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  const request = { scope: 'test', key: `limited by ${name}`, request: {} }
  const running = withIdempotency(kit, request, async () => {
    begun.resolve()
    await end.promise
    return 'first'
  })
  await begun.promise
  const hasty = { ...request, transaction }
  await expect(withIdempotency(kit, hasty, async () => 'second')).rejects.toBeInstanceOf(
    OperationInProgressError,
  )
  end.resolve()
  await running
  expect(await withIdempotency(kit, hasty, async () => 'second')).toEqual({ replayed: true, result: 'first' })
})

test('the first answer and the replay are the same JSON values', async () => {
  const ask = () =>
    withIdempotency(kit, { scope: 'test', key: 'json', request: {} }, async () => ({
      at: new Date(0),
      no: undefined,
    }))
  const first = await ask()
  const second = await ask()
  expect(first.result).toEqual({ at: '1970-01-01T00:00:00.000Z' })
  expect(second).toEqual({ replayed: true, result: first.result })
})

test('work under an expired key is executed again', async () => {
  await record('old')
  await kit.pool.query(
    `UPDATE ${kit.schema}.idempotency_keys SET expires_at = clock_timestamp() - interval '1 s' WHERE key = 'old'`,
  )
  expect((await record('old', { other: true })).replayed).toBe(false)
  expect(await effectsOf('old')).toBe(2)
})

test('work that loses its connection is still executed once', async () => {
  let runs = 0
  const answer = await withIdempotency(kit, { scope: 'test', key: 'lost', request: {} }, async (tx) => {
    runs += 1
    await tx.query(`INSERT INTO effects (key) VALUES ('lost')`)
    if (runs === 1) {
      const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
      await kit.pool.query('SELECT pg_terminate_backend($1, 5000)', [rows[0]!.pid])
    }
    return 'ok'
  })
  expect(answer).toEqual({ replayed: false, result: 'ok' })
  expect(await effectsOf('lost')).toBe(1)
})

// Bug: the time counted from the claim, so a rival that had waited for long work found an expired key, and did it again.
test('a key is kept from the end of its work on', async () => {
  const ttlMs = 3_600_000
  await withIdempotency(kit, { scope: 'kept', key: 'k', request: {}, ttlMs }, async (tx) => {
    // As if the work had taken that long.
    await tx.query(`UPDATE ${kit.schema}.idempotency_keys SET expires_at = now() WHERE scope = 'kept'`)
  })
  const kept = `idempotency_keys WHERE scope = 'kept' AND expires_at >= updated_at + interval '1 hour'`
  expect(await countOf(kit, kept)).toBe(1)
})
