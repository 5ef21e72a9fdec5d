// Locks without a sidecar: rows with leases by the database's clock, and tokens that grow.
import { beforeAll, expect, test } from 'vitest'
import {
  FencedOutError,
  LeaseEndedError,
  LockNotAcquiredError,
  NestedTransactionError,
} from '../../packages/saga/src/errors.ts'
import { assertFence } from '../../packages/saga/src/fences.ts'
import { runRetention } from '../../packages/saga/src/housekeeping.ts'
import { withLocks } from '../../packages/saga/src/locks.ts'
import { createPostgresLocks } from '../../packages/saga/src/postgres-locks.ts'
import { processSagaStep } from '../../packages/saga/src/saga-step.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server)
})

const lease = { leaseMs: 30_000 }
const expire = (resource: string) =>
  kit.pool.query(
    `UPDATE ${kit.schema}.locks SET lease_until = clock_timestamp() - interval '2 hours' WHERE resource = $1`,
    [resource],
  )

test('all resources or none: a held one refuses the call, and leaves the others free', async () => {
  const locks = createPostgresLocks(kit)
  const held = await locks.acquire(['b'], lease)
  const refused = await locks.acquire(['a', 'b'], lease).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(LockNotAcquiredError)
  // Its holder may release long before the lease ends.
  expect((refused as LockNotAcquiredError).retryAfterMs).toBe(1_000)
  const free = await locks.acquire(['a'], lease)
  await Promise.all([held.release(), free.release()])
  expect(await countOf(kit, 'locks')).toBe(0)
})

test('twelve callers with crossing resources at once: one holder at a time, and tokens that grow', async () => {
  const locks = createPostgresLocks(kit)
  const holders = new Set<number>()
  const tokens: number[] = []
  const call = async (caller: number): Promise<void> => {
    const resources = caller % 2 === 0 ? ['x', 'y', 'z'] : ['z', 'y']
    try {
      await withLocks(kit, locks, resources, lease, async ({ fencingToken }) => {
        holders.add(caller)
        expect(holders.size).toBe(1)
        tokens.push(fencingToken)
        await kit.query('SELECT 1')
        holders.delete(caller)
      })
    } catch (error) {
      if (!(error instanceof LockNotAcquiredError)) throw error
      return call(caller)
    }
  }
  await Promise.all(Array.from({ length: 12 }, (_, caller) => call(caller)))
  expect(tokens).toHaveLength(12)
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
})

test('an expired lease is taken over, its holder cannot renew, and its token is refused by the fence', async () => {
  const locks = createPostgresLocks(kit)
  const paused = await locks.acquire(['account'], lease)
  await expire('account')
  const next = await locks.acquire(['account'], lease)
  expect(next.fencingToken).toBeGreaterThan(paused.fencingToken)
  await expect(paused.renew(1_000)).rejects.toBeInstanceOf(LeaseEndedError)
  expect(paused.signal.aborted).toBe(true)
  // Takes nothing away from the next holder.
  await paused.release()
  expect(await countOf(kit, `locks WHERE resource = 'account'`)).toBe(1)
  const write = (fencingToken: number) =>
    kit.transaction((tx) => assertFence(kit, tx, { resource: 'account', fencingToken }))
  await write(next.fencingToken)
  await expect(write(paused.fencingToken)).rejects.toBeInstanceOf(FencedOutError)
})

test('the signal aborts a tenth before the end of the lease, unless it is renewed', async () => {
  const clock = new VirtualClock()
  const locks = createPostgresLocks({ ...kit, clock })
  const held = await locks.acquire(['timed'], { leaseMs: 1_000 })
  await clock.advance(899)
  await held.renew(1_000)
  await clock.advance(899)
  expect(held.signal.aborted).toBe(false)
  await clock.advance(1)
  expect(held.signal.reason).toBeInstanceOf(LeaseEndedError)
  await expect(held.renew(1_000)).rejects.toBeInstanceOf(LeaseEndedError)
})

test('a step with resources is executed under their locks, and its token is theirs', async () => {
  const lockManager = createPostgresLocks(kit)
  const request = {
    sagaId: 's-1',
    step: 'charge',
    request: {},
    leaseMs: 30_000,
    resources: ['card'],
    lockManager,
  }
  const { result } = await processSagaStep(kit, request, {
    effect: async ({ fencingToken }) => {
      await expect(lockManager.acquire(['card'], lease)).rejects.toBeInstanceOf(LockNotAcquiredError)
      return fencingToken
    },
    commit: async (tx, value, { fencingToken }) => {
      await assertFence(kit, tx, { resource: 'card', fencingToken })
      return value === fencingToken
    },
  })
  expect(result).toBe(true)
})

test('inside a transaction a lock is refused: others would see it only after the commit', async () => {
  const locked = kit.transaction(() => createPostgresLocks(kit).acquire(['late'], lease))
  await expect(locked).rejects.toBeInstanceOf(NestedTransactionError)
})

test('retention removes what expired an hour ago, and nothing that is held', async () => {
  await createPostgresLocks(kit).acquire(['kept'], lease)
  await createPostgresLocks(kit).acquire(['gone'], lease)
  await expire('gone')
  expect((await runRetention(kit)).locks).toBe(1)
  expect(await countOf(kit, `locks WHERE resource = 'kept'`)).toBe(1)
})

// Bug: the lease counted from before the wait, so the lock was lost as soon as it was held.
test('a lock that waited for a connection has its whole lease', async () => {
  const clock = new VirtualClock()
  const pool = server.pool({ max: 1 })
  const small = await testKit(server, { clock, pool })
  const busy = await pool.connect()
  const acquiring = createPostgresLocks(small).acquire(['waited'], { leaseMs: 1_000 })
  await clock.advance(5_000)
  busy.release()
  const held = await acquiring
  await clock.advance(800)
  expect(held.signal.aborted).toBe(false)
  await held.release()
})
