// A resource that has seen a token refuses every lower one, and accepts the same one again.
import { beforeAll, expect, test } from 'vitest'
import { FencedOutError } from '../../packages/saga/src/errors.ts'
import { assertFence, fencedUpdate, RowNotFoundError } from '../../packages/saga/src/fences.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
  await kit.pool.query('CREATE TABLE stock (id text PRIMARY KEY, pieces int, last_fencing_token bigint)')
  await kit.pool.query(`INSERT INTO stock VALUES ('bolt', 5, NULL)`)
})

const fence = (resource: string, fencingToken: number) =>
  kit.transaction((tx) => assertFence(kit, tx, { resource, fencingToken }))
const update = (fencingToken: number, pieces: number, id = 'bolt') =>
  kit.transaction((tx) => fencedUpdate(kit, tx, { table: 'public.stock', id, fencingToken, set: { pieces } }))

test.each<[token: number, passes: boolean]>([
  [10, true],
  [10, true],
  [9, false],
  [1_795_000_000_000_000, true],
  [10, false],
])('token %i in turn: passes is %s', async (token, passes) => {
  const outcome = await fence('account-1', token).then(
    () => true,
    (error) => error instanceof FencedOutError === false && Promise.reject(error),
  )
  expect(outcome).toBe(passes)
})

test.each<[token: number, pieces: number, passes: boolean]>([
  [10, 4, true],
  [10, 3, true],
  [9, 99, false],
  [11, 2, true],
])('an update with token %i, in turn: passes is %s', async (token, pieces, passes) => {
  if (passes) await update(token, pieces)
  else await expect(update(token, pieces)).rejects.toBeInstanceOf(FencedOutError)
  const { rows } = await kit.pool.query(`SELECT pieces FROM stock WHERE id = 'bolt'`)
  expect(rows[0].pieces === pieces).toBe(passes)
})

test('an update of a missing row is an error, not a success', async () => {
  await expect(update(12, 1, 'nut')).rejects.toBeInstanceOf(RowNotFoundError)
})

test('of two concurrent writers the late one is fenced out, whichever commits first', async () => {
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, (_, token) => fence('hot', token + 1)))
  expect(outcomes.at(-1)!.status).toBe('fulfilled')
  const { rows } = await kit.pool.query(
    `SELECT last_fencing_token FROM ${kit.schema}.fences WHERE resource = 'hot'`,
  )
  expect(rows[0].last_fencing_token).toBe('20')
})

test.each([0, -1, 1.5, Number.NaN, 2 ** 53])('%d is no token', async (token) => {
  await expect(fence('x', token)).rejects.toBeInstanceOf(RangeError)
})

test('invalid identifiers are refused', async () => {
  const bad = kit.transaction((tx) =>
    fencedUpdate(kit, tx, { table: 'stock', id: 'bolt', fencingToken: 99, set: { 'pieces = 0; --': 1 } }),
  )
  await expect(bad).rejects.toThrow('not an SQL identifier')
})
