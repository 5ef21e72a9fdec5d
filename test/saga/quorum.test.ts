// The quorum's reservations as locks of the kit, over the real reservation API on five nodes.

import { createClient } from '@fencepost/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LockNotAcquiredError, OperationInProgressError } from '../../packages/saga/src/errors.ts'
import { assertFence } from '../../packages/saga/src/fences.ts'
import { withIdempotency } from '../../packages/saga/src/idempotency.ts'
import { withLocks } from '../../packages/saga/src/locks.ts'
import { createQuorumLocks, withQuorumIdempotency } from '../../packages/saga/src/quorum.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { startReservationApi, type TestApi } from '../support/reservation-api.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'

let server: PostgresServer
let kit: TestKit
let api: TestApi
beforeAll(async () => {
  server = await startPostgres()
  kit = await testKit(server)
  api = await startReservationApi()
})
afterAll(async () => {
  await api[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})
const client = () => createClient({ url: api.origin, retryForMs: 300 })
const locks = () => createQuorumLocks(client())
const lease = { leaseMs: 10_000 }

test('several resources under one token, all or nothing; tokens rise and are good for fences', async () => {
  const tokens: number[] = []
  for (let turn = 0; turn < 3; turn += 1)
    await withLocks(kit, locks(), ['b', 'a'], lease, async ({ fencingToken }) => {
      tokens.push(fencingToken)
      await expect(withLocks(kit, locks(), ['c', 'b'], lease, async () => {})).rejects.toBeInstanceOf(
        LockNotAcquiredError,
      )
      await withLocks(kit, locks(), ['c'], lease, async () => {})
      await kit.transaction((tx) => assertFence(kit, tx, { resource: 'a', fencingToken }))
    })
  expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b))
  const stale = kit.transaction((tx) => assertFence(kit, tx, { resource: 'a', fencingToken: tokens[0]! }))
  await expect(stale).rejects.toThrow('newer holder')
})

test('of ten claimants of one resource one holds it, nine are told when to retry', async () => {
  const go = Promise.withResolvers<void>()
  const all = Array.from({ length: 10 }, () =>
    withLocks(kit, locks(), ['hot'], lease, async () => {
      await go.promise
    }).catch((error: unknown) => {
      refused.push(error)
      if (refused.length === 9) go.resolve()
    }),
  )
  const refused: unknown[] = []
  await Promise.all(all)
  expect(refused.every((error) => error instanceof LockNotAcquiredError && error.retryAfterMs > 0)).toBe(true)
  expect(refused).toHaveLength(9)
})

test('without a quorum a lock is refused', async () => {
  const away = createQuorumLocks(createClient({ url: 'http://127.0.0.1:9', retryForMs: 50 }))
  await expect(withLocks(kit, away, ['a'], lease, async () => {})).rejects.toBeInstanceOf(
    LockNotAcquiredError,
  )
})

test('the quorum refuses a rival early; PostgreSQL has the result for later callers', async () => {
  const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const ask = (work = async () => 'done') =>
    withQuorumIdempotency(kit, client(), { scope: 's', key: 'k', request: {} }, work)
  const first = ask(async () => {
    entered.resolve()
    await go.promise
    return 'first'
  })
  await entered.promise
  await expect(ask()).rejects.toBeInstanceOf(OperationInProgressError)
  go.resolve()
  expect(await first).toEqual({ replayed: false, result: 'first' })
  expect(await ask()).toEqual({ replayed: true, result: 'first' })
})

test('PostgreSQL decides: work done only for the quorum is executed, a result only in PostgreSQL replayed', async () => {
  const ask = (key: string, at = client()) =>
    withQuorumIdempotency(kit, at, { scope: 's', key, request: {} }, async () => key)
  await ask('forgotten')
  await kit.pool.query(`DELETE FROM ${kit.schema}.idempotency_keys WHERE key = 'forgotten'`)
  expect((await ask('forgotten')).replayed).toBe(false)
  await withIdempotency(kit, { scope: 's', key: 'unknown', request: {} }, async () => 'unknown')
  expect((await ask('unknown')).replayed).toBe(true)
  const away = createClient({ url: 'http://127.0.0.1:9', retryForMs: 50 })
  expect((await ask('no-quorum', away)).replayed).toBe(false)
  expect((await ask('no-quorum', away)).replayed).toBe(true)
})

test('work that throws releases the key on both sides', async () => {
  const ask = (work: () => Promise<string>) =>
    withQuorumIdempotency(kit, client(), { scope: 's', key: 'thrown', request: {} }, work)
  await expect(ask(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect((await ask(async () => 'yes')).result).toBe('yes')
})
