// Pitfalls 9, 10 and 20: locks and tokens. Each first as it is usually written, then as the kit does it.
import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { sqlStateOf, type Tx } from '../../../packages/saga/src/database.ts'
import { FencedOutError } from '../../../packages/saga/src/errors.ts'
import { fencedUpdate } from '../../../packages/saga/src/fences.ts'
import { inLockOrder, withLocks } from '../../../packages/saga/src/locks.ts'
import { duringTests } from '../../support/during-tests.ts'
import { MemoryLocks } from '../../support/memory-locks.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { type TestKit, testKit } from '../../support/saga-kit.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
  await kit.pool.query(
    `CREATE TABLE accounts (id text PRIMARY KEY, owner text, token text, last_fencing_token bigint)`,
  )
  await kit.pool.query(`INSERT INTO accounts (id) VALUES ('a'), ('b')`)
})

describe('9 · a lock without renewal, and a release that hides the result', () => {
  test('usual: the lease ends in the middle of the work, and the worker does not learn it', async () => {
    const clock = new VirtualClock()
    const locks = new MemoryLocks(clock)
    const lock = await locks.acquire(['a'], { leaseMs: 1_000 })
    await clock.advance(1_500)
    const second = await locks.acquire(['a'], { leaseMs: 1_000 }) // while the first worker still works
    expect(second.fencingToken).toBeGreaterThan(lock.fencingToken)
  })
  test('usual: the finally that releases throws over the result of the work', async () => {
    const release = () => Promise.reject(new Error('lock server away'))
    const work = async () => {
      try {
        return 'paid'
      } finally {
        await release()
      }
    }
    await expect(work()).rejects.toThrow('lock server away')
  })
  test('here: renewed while the work runs, told by a signal when lost, released without hiding anything', async () => {
    const clock = new VirtualClock()
    const locks = new MemoryLocks(clock)
    const told = { ...kit, clock }
    const result = await withLocks(told, locks, ['a'], { leaseMs: 1_000 }, async ({ signal }) => {
      await clock.advance(5_000)
      await expect(locks.acquire(['a'], { leaseMs: 1_000 })).rejects.toThrow('could be locked')
      locks.forget('a')
      await clock.advance(1_000)
      return signal.aborted ? 'told' : 'not told'
    })
    expect(result).toBe('told')
  })
})

describe('10 · a random fencing token that no resource compares', () => {
  test('usual: the worker that was paused writes over its successor', async () => {
    const write = (owner: string) =>
      kit.pool.query(`UPDATE accounts SET owner = $1, token = $2 WHERE id = 'a'`, [owner, randomUUID()])
    await write('successor')
    await write('paused')
    expect((await kit.pool.query(`SELECT owner FROM accounts WHERE id = 'a'`)).rows[0].owner).toBe('paused')
  })
  test('here: tokens rise, and the row itself refuses the lower one', async () => {
    const write = (owner: string, fencingToken: number) =>
      kit.transaction((tx) =>
        fencedUpdate(kit, tx, { table: 'accounts', id: 'a', fencingToken, set: { owner } }),
      )
    await write('successor', 2)
    await expect(write('paused', 1)).rejects.toBeInstanceOf(FencedOutError)
    expect((await kit.pool.query(`SELECT owner FROM accounts WHERE id = 'a'`)).rows[0].owner).toBe(
      'successor',
    )
  })
})

describe('20 · several locks, in each caller’s order', () => {
  const lockAll = (ids: readonly string[], first: () => Promise<void>) =>
    kit.transaction(
      async (tx: Tx) => {
        for (const [index, id] of ids.entries()) {
          await tx.query('SELECT 1 FROM accounts WHERE id = $1 FOR UPDATE', [id])
          if (index === 0) await first()
        }
      },
      { retry: { maxAttempts: 1 } },
    )
  test('usual: a then b, and b then a: a deadlock', async () => {
    const both = Promise.withResolvers<void>()
    let locked = 0
    const first = () => {
      locked += 1
      if (locked === 2) both.resolve()
      return both.promise
    }
    const outcomes = await Promise.allSettled([lockAll(['a', 'b'], first), lockAll(['b', 'a'], first)])
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected')
    expect(failed.map(({ reason }) => sqlStateOf(reason))).toEqual(['40P01'])
  })
  test('here: one order for all, so one waits for the other', async () => {
    const none = async () => {}
    await Promise.all([lockAll(inLockOrder(['a', 'b']), none), lockAll(inLockOrder(['b', 'a']), none)])
    const locks = new MemoryLocks()
    await withLocks(kit, locks, ['b', 'a', 'b'], { leaseMs: 1_000 }, none)
    expect(locks.acquired).toEqual([['a', 'b']])
  })
})
