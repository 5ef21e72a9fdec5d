// Pitfalls 1, 2, 7, 8, 11, 12 and 22: effects outside the database. Each first as it is usually written, then as the kit
// does it.
import { beforeAll, describe, expect, test } from 'vitest'
import type { Tx } from '../../../packages/saga/src/database.ts'
import {
  BusinessError,
  FencedOutError,
  OperationInProgressError,
  StepSuspendedError,
} from '../../../packages/saga/src/errors.ts'
import { Inbox } from '../../../packages/saga/src/inbox.ts'
import { newMessageId, publish } from '../../../packages/saga/src/outbox.ts'
import { compensateSagaStep, processSagaStep } from '../../../packages/saga/src/saga-step.ts'
import { runIdempotentStep } from '../../../packages/saga/src/step.ts'
import { duringTests } from '../../support/during-tests.ts'
import { FakeProvider } from '../../support/fake-provider.ts'
import { startPostgres } from '../../support/postgres-server.ts'
import { countOf, orderMessage, type TestKit, testKit } from '../../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server, { pool: server.pool({ max: 40 }) })
  await kit.pool.query(`CREATE TABLE payments (key text PRIMARY KEY);
    CREATE TABLE pending (key text PRIMARY KEY, status text);
    CREATE TABLE reservations (value text PRIMARY KEY, holder text)`)
})

const insertPayment = (tx: Tx, key: string) => tx.query('INSERT INTO payments VALUES ($1)', [key])
const payments = async (prefix: string) =>
  (await kit.pool.query('SELECT count(*)::int AS n FROM payments WHERE key LIKE $1', [`${prefix}%`])).rows[0]
    .n
const keys = (prefix: string) => Array.from({ length: 200 }, (_, index) => `${prefix}-${index}`)
const expire = () =>
  kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
const until = async (condition: () => Promise<boolean>) => {
  while (!(await condition())) await new Promise(setImmediate)
}

/** In groups of twenty, as a consumer with that concurrency would. */
async function twentyAtATime(
  all: readonly string[],
  work: (key: string) => Promise<unknown>,
): Promise<number> {
  let rejected = 0
  for (let begin = 0; begin < all.length; begin += 20) {
    const outcomes = await Promise.allSettled(all.slice(begin, begin + 20).map(work))
    rejected += outcomes.filter(({ status }) => status === 'rejected').length
  }
  return rejected
}

describe('1 · the payment is made inside a serializable transaction', () => {
  test('usual: distinct keys fail each other after the money has moved', async () => {
    const provider = new FakeProvider()
    const rejected = await twentyAtATime(keys('usual'), (key) =>
      kit.transaction(
        async (tx) => {
          await tx.query('SELECT 1 FROM payments WHERE key = $1', [key])
          await provider.charge(key, 10)
          await insertPayment(tx, key)
        },
        { isolation: 'serializable', retry: { maxAttempts: 1 } },
      ),
    )
    expect(rejected).toBeGreaterThan(0)
    expect(provider.charges.size).toBe(200)
    expect(await payments('usual')).toBe(200 - rejected)
  })
  test('here: two short transactions around the call: what is charged is recorded', async () => {
    const provider = new FakeProvider()
    const rejected = await twentyAtATime(keys('here'), (key) =>
      runIdempotentStep(
        kit,
        { scope: 'pay', key, request: {}, leaseMs: 30_000 },
        {
          effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 10),
          commit: (tx) => insertPayment(tx, key),
        },
      ),
    )
    expect([rejected, provider.charges.size, await payments('here')]).toEqual([0, 200, 200])
  })
})

describe('2 · PaymentFailed is written, and then thrown away', () => {
  const failed = (tx: Tx) =>
    publish(kit, tx, { aggregateType: 'payment', aggregateId: '1', type: 'PaymentFailed', payload: {} })
  test('usual: the throw rolls the event back', async () => {
    const work = kit.transaction(async (tx) => {
      await failed(tx)
      throw new Error('card declined')
    })
    await expect(work).rejects.toThrow('declined')
    expect(await countOf(kit, 'outbox')).toBe(0)
  })
  test('here: a refusal is an outcome: committed with its event, and replayed', async () => {
    const ask = () =>
      runIdempotentStep(
        kit,
        { scope: 'pay', key: 'declined', request: {}, leaseMs: 30_000 },
        {
          effect: () => Promise.reject(new BusinessError('declined', 'card declined')),
          commit: async () => 'paid',
          reject: failed,
        },
      )
    expect(await ask()).toMatchObject({ outcome: 'failed', replayed: false })
    expect(await ask()).toMatchObject({ outcome: 'failed', replayed: true })
    expect(await countOf(kit, 'outbox')).toBe(1)
  })
})

describe('7 · PENDING lives and dies in one transaction', () => {
  test('usual: no other process ever sees it, and a crash leaves no row to recover', async () => {
    let visible = -1
    await kit.transaction(async (tx) => {
      await tx.query(`INSERT INTO pending VALUES ('k', 'PENDING')`)
      visible = (await kit.pool.query('SELECT 1 FROM pending')).rows.length
      await tx.query(`UPDATE pending SET status = 'DONE'`)
    })
    expect(visible).toBe(0)
  })
  test('here: in progress is committed before the effect, with a lease that others can read', async () => {
    let visible: unknown
    await runIdempotentStep(
      kit,
      { scope: 'pay', key: 'visible', request: {}, leaseMs: 30_000 },
      {
        effect: async () => {
          const { rows } = await kit.pool.query(
            `SELECT status, locked_until > clock_timestamp() AS held FROM ${kit.schema}.idempotency_keys WHERE key = 'visible'`,
          )
          visible = rows[0]
        },
        commit: async () => null,
      },
    )
    expect(visible).toEqual({ status: 'in_progress', held: true })
  })
})

describe('8 · the lock is held, so the message is acknowledged', () => {
  test('usual: the holder dies, and the message is gone', async () => {
    const held = new Set(['order-1'])
    const queue = ['order-1']
    const carriedOut: string[] = []
    // The duplicate is read while the first delivery is at work.
    for (let message = queue.shift(); message !== undefined; message = queue.shift())
      if (!held.has(message)) carriedOut.push(message)
    held.clear() // the holder's process dies before its effect
    expect([queue, carriedOut]).toEqual([[], []])
  })
  test('here: it comes again, without an attempt spent, until the work is durably done', async () => {
    const provider = new FakeProvider()
    const step = (effect: (key: string) => Promise<unknown>) =>
      runIdempotentStep(
        kit,
        { scope: 'pay', key: 'held', request: {}, leaseMs: 30_000 },
        { effect: ({ idempotencyKey }) => effect(idempotencyKey), commit: async () => null },
      )
    // The holder, whose process dies here.
    const dead = step(() => new Promise(() => {}))
    dead.catch(() => 'it lost its lease, and nobody is there to hear it')
    await until(async () => (await countOf(kit, `idempotency_keys WHERE key = 'held'`)) === 1)
    const inbox = new Inbox({
      kit,
      consumerId: 'c',
      handlers: { Placed: { outside: () => step((key) => provider.charge(key, 10)) } },
      retry: { maxAttempts: 1 },
      retryInPlaceMs: 0,
    })
    const message = orderMessage(newMessageId(kit), 'Placed', '1', { createdAt: '' })
    expect((await inbox.receive(message)).kind).toBe('again')
    await expire()
    expect(await inbox.receive(message)).toEqual({ kind: 'ack' })
    expect(provider.charges.size).toBe(1)
  })
})

describe('11 · the finish does not ask whose it is', () => {
  test('usual: a late worker removes the reservation of the next worker', async () => {
    const finish = () => kit.pool.query(`DELETE FROM reservations WHERE value = 'a@x'`)
    await kit.pool.query(`INSERT INTO reservations VALUES ('a@x', 'first')`)
    await kit.pool.query(`UPDATE reservations SET holder = 'second'`) // the first one's lease has expired
    expect((await finish()).rowCount).toBe(1) // by the first one, late
    expect((await kit.pool.query('SELECT 1 FROM reservations')).rows).toEqual([])
  })
  test('here: every settlement names its fence; a late one changes no row', async () => {
    const go = Promise.withResolvers<void>()
    const ask = (effect: () => Promise<string>) =>
      runIdempotentStep<string, string>(
        kit,
        { scope: 'reserve', key: 'a@x', request: {}, leaseMs: 30_000 },
        { effect, commit: async (_tx, value) => value },
      )
    const first = ask(() => go.promise.then(() => 'first'))
    const refused = expect(first).rejects.toBeInstanceOf(FencedOutError)
    await until(async () => (await countOf(kit, `idempotency_keys WHERE scope = 'reserve'`)) === 1)
    await expire()
    expect((await ask(async () => 'second')).result).toBe('second')
    go.resolve()
    await refused
    expect((await ask(async () => 'third')).result).toBe('second')
  })
})

describe('12 · the compensation overtakes its step', () => {
  test('usual: no charge to refund yet, so it is acknowledged; the late order is charged for good', async () => {
    const provider = new FakeProvider()
    const charged = new Map<string, string>()
    const refund = async (order: string) => {
      const key = charged.get(order)
      if (key !== undefined) await provider.refund(key)
    }
    const pay = async (order: string) => {
      await provider.charge(order, 10)
      charged.set(order, order)
    }
    await refund('o')
    await pay('o')
    expect(provider.kept).toBe(1)
  })
  test('here: it leaves a tombstone, and the late step refuses', async () => {
    const provider = new FakeProvider()
    const step = { sagaId: 'o', step: 'pay', leaseMs: 30_000 }
    expect(await compensateSagaStep(kit, step, { effect: ({ stepKey }) => provider.refund(stepKey) })).toBe(
      'suspended',
    )
    const late = processSagaStep(
      kit,
      { ...step, request: {} },
      { effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 10), commit: async () => null },
    )
    await expect(late).rejects.toBeInstanceOf(StepSuspendedError)
    expect(provider.calls).toEqual([])
  })
})

describe('22 · "exactly once"', () => {
  /** A provider without idempotency keys: every request is a charge. */
  class Forgetful {
    readonly charges: string[] = []
    async charge(reference: string): Promise<string> {
      this.charges.push(reference)
      if (this.charges.length === 1) throw new Error('connection reset after the charge')
      return reference
    }
  }
  const ask = (key: string, provider: Forgetful, reconcile?: () => Promise<string | undefined>) =>
    runIdempotentStep<string, null>(
      kit,
      { scope: 'pay', key, request: {}, leaseMs: 30_000 },
      {
        effect: () => provider.charge(key),
        commit: async () => null,
        ...(reconcile === undefined ? {} : { reconcile }),
      },
    )
  test('the limit: a provider that honours no key charges twice, whatever we do on our side', async () => {
    const provider = new Forgetful()
    await expect(ask('limit', provider)).rejects.toThrow('reset')
    await ask('limit', provider)
    expect(provider.charges).toHaveLength(2)
  })
  test('here: a provider that can at least be queried is queried before it is called again', async () => {
    const provider = new Forgetful()
    const find = async () => provider.charges[0]
    await expect(ask('asked', provider, find)).rejects.toThrow('reset')
    await ask('asked', provider, find)
    expect(provider.charges).toHaveLength(1)
  })
  test('two concurrent calls are never both at the provider', async () => {
    const provider = new FakeProvider()
    const go = Promise.withResolvers<void>()
    provider.hold = go.promise
    const one = () =>
      runIdempotentStep(
        kit,
        { scope: 'pay', key: 'both', request: {}, leaseMs: 30_000 },
        { effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 1), commit: async () => null },
      )
    const first = one()
    await until(async () => provider.calls.length === 1)
    await expect(one()).rejects.toBeInstanceOf(OperationInProgressError)
    go.resolve()
    await first
    expect(provider.calls).toHaveLength(1)
  })
})
