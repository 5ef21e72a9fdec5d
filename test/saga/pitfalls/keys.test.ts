// Pitfalls 3 to 6 and 18: keys, hashes and results. Each first as it is usually written, then as the kit does it.
import { createHash, randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { sqlStateOf, type Tx } from '../../../packages/saga/src/database.ts'
import { fencedUpdate, RowNotFoundError } from '../../../packages/saga/src/fences.ts'
import { withIdempotency } from '../../../packages/saga/src/idempotency.ts'
import { requestHash } from '../../../packages/saga/src/request-hash.ts'
import { duringTests } from '../../support/during-tests.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { type TestKit, testKit } from '../../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server, { pool: server.pool({ max: 40 }) })
  await kit.pool.query('CREATE TABLE keys (key text PRIMARY KEY, result text)')
  await kit.pool.query('CREATE TABLE counters (id text PRIMARY KEY, value int, last_fencing_token bigint)')
})

/** Resolves when `count` callers have arrived. */
function meeting(count: number): () => Promise<void> {
  const all = Promise.withResolvers<void>()
  let arrived = 0
  return () => {
    arrived += 1
    if (arrived === count) all.resolve()
    return all.promise
  }
}

/** Look first (FOR UPDATE, which locks no missing row), insert afterwards. */
async function checkThenInsert(key: string, looked: () => Promise<void>): Promise<string> {
  return kit.transaction(async (tx) => {
    const { rows } = await tx.query('SELECT result FROM keys WHERE key = $1 FOR UPDATE', [key])
    await looked()
    if (rows.length > 0) return 'replayed'
    await tx.query('INSERT INTO keys VALUES ($1, $2)', [key, 'done'])
    return 'done'
  })
}

describe('3 · look, then insert', () => {
  test('usual: of ten rivals one wins and nine get a unique violation that no caller expects', async () => {
    const looked = meeting(10)
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => checkThenInsert('k', looked)))
    const states = outcomes.flatMap((outcome) =>
      outcome.status === 'rejected' ? [sqlStateOf(outcome.reason)] : [],
    )
    expect(states).toEqual(Array(9).fill('23505'))
  })
  test('here: insert first; nine wait and replay', async () => {
    const ask = () => withIdempotency(kit, { scope: 's', key: 'k', request: {} }, async () => 'done')
    const answers = await Promise.all(Array.from({ length: 10 }, ask))
    expect(answers.filter(({ replayed }) => replayed)).toHaveLength(9)
  })
})

describe('4 · a serialization failure is taken for a failed message', () => {
  const increment = (looked: () => Promise<void>) => async (tx: Tx) => {
    const { rows } = await tx.query<{ value: number }>(`SELECT value FROM counters WHERE id = 'c'`)
    await looked()
    await tx.query(`UPDATE counters SET value = $1 WHERE id = 'c'`, [rows[0]!.value + 1])
  }
  test('usual: of two increments one is lost to the dead letters', async () => {
    await kit.pool.query(`INSERT INTO counters VALUES ('c', 0) ON CONFLICT (id) DO UPDATE SET value = 0`)
    const looked = meeting(2)
    const once = () =>
      kit.transaction(increment(looked), { isolation: 'serializable', retry: { maxAttempts: 1 } })
    const outcomes = await Promise.allSettled([once(), once()])
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(1)
    expect((await kit.pool.query(`SELECT value FROM counters WHERE id = 'c'`)).rows[0].value).toBe(1)
  })
  test('here: the whole function runs again', async () => {
    await kit.pool.query(`INSERT INTO counters VALUES ('c', 0) ON CONFLICT (id) DO UPDATE SET value = 0`)
    const looked = meeting(2)
    await Promise.all([1, 2].map(() => kit.transaction(increment(looked), { isolation: 'serializable' })))
    expect((await kit.pool.query(`SELECT value FROM counters WHERE id = 'c'`)).rows[0].value).toBe(2)
  })
})

describe('5 · the key alone is the primary key', () => {
  test('usual: the same key of another operation collides', async () => {
    const insert = () => kit.pool.query(`INSERT INTO keys VALUES ('invoice-7', '')`)
    await insert()
    await expect(insert()).rejects.toMatchObject({ code: '23505' })
  })
  test('here: scope and key', async () => {
    for (const scope of ['invoice', 'refund'])
      expect((await withIdempotency(kit, { scope, key: '7', request: {} }, async () => scope)).result).toBe(
        scope,
      )
  })
})

describe('6 · the hash of JSON.stringify', () => {
  const usual = (request: unknown) => createHash('sha256').update(JSON.stringify(request)).digest('hex')
  test('usual: the same request in another order is another request, and BigInt throws far away', () => {
    expect(usual({ a: 1, b: 2 })).not.toBe(usual({ b: 2, a: 1 }))
    // And values that JSON drops silently are not compared at all: a list with a hole, a Map.
    expect(usual({ items: [undefined] })).toBe(usual({ items: [null] }))
    expect(usual(new Map([['amount', 1]]))).toBe(usual(new Map([['amount', 2]])))
    expect(() => usual({ amount: 1n })).toThrow(TypeError)
  })
  test('here: the canonical form; what JSON cannot carry is refused with a sentence', () => {
    expect(requestHash({ a: 1, b: 2 })).toEqual(requestHash({ b: 2, a: 1 }))
    for (const request of [{ items: [undefined] }, new Map(), { amount: 1n }])
      expect(() => requestHash(request)).toThrow('a request may not contain')
  })
})

describe('18 · success without a row, and answers that differ', () => {
  test('usual: an UPDATE with an undefined id touches no row and reports success', async () => {
    const message = { payload: { orderId: 'c' } } as unknown as { entityId?: string }
    const { rowCount } = await kit.pool.query('UPDATE counters SET value = 1 WHERE id = $1', [
      message.entityId,
    ])
    expect(rowCount).toBe(0)
  })
  test('here: an update of no row is an error', async () => {
    const update = { table: 'counters', id: randomUUID(), fencingToken: 1, set: { value: 1 } }
    await expect(kit.transaction((tx) => fencedUpdate(kit, tx, update))).rejects.toBeInstanceOf(
      RowNotFoundError,
    )
  })
  test('usual: the first caller gets a Date, later ones a string', async () => {
    const result = { at: new Date(0) }
    await kit.pool.query(`INSERT INTO keys VALUES ('date', $1)`, [JSON.stringify(result)])
    const replay = JSON.parse(
      (await kit.pool.query(`SELECT result FROM keys WHERE key = 'date'`)).rows[0].result,
    )
    expect(replay).not.toEqual(result)
  })
  test('here: both get what was stored', async () => {
    const ask = () =>
      withIdempotency(kit, { scope: 's', key: 'date', request: {} }, async () => ({ at: new Date(0) }))
    expect((await ask()).result).toEqual((await ask()).result)
  })
})
