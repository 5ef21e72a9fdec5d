// Calls inside a transaction that is open: what can join it does, what cannot is refused, and no wait is without an end.
import { setTimeout as pause } from 'node:timers/promises'
import {
  createConsumer,
  createOutboxRelay,
  createSagaKit,
  getSaga,
  listDeadLetters,
  NestedTransactionError,
  NoConnectionError,
  OperationInProgressError,
  processSagaStep,
  publish,
  runIdempotentStep,
  runRecovery,
  TransactionEndedError,
  type Tx,
  withIdempotency,
} from '@fencepost/saga'
import { createMailboxPublisher, createMailboxSubscriber } from '@fencepost/saga/mailbox'
import { beforeAll, expect, test } from 'vitest'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { countOf, type TestKit, testKit } from '../support/saga-kit.ts'
import { outbound } from './brokers/conformance.ts'

/** pg's default size of a pool, and the default concurrency of a consumer. */
const POOL = 10

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(async () => {
  kit = await testKit(server, { pool: server.pool({ max: POOL }) })
  await kit.pool.query('CREATE TABLE placed (id text PRIMARY KEY)')
})

const request = (key: string, scope = 'joined') => ({ scope, key, request: {} })
const place = (key: string) =>
  withIdempotency(kit, request(key), async (tx) => {
    await tx.query('INSERT INTO placed VALUES ($1)', [key])
    return { key }
  })
const isPlaced = async (key: string) =>
  (await kit.pool.query('SELECT count(*)::int AS n FROM placed WHERE id = $1', [key])).rows[0].n === 1

test('a consumer of concurrency 10 on a pool of 10 whose handlers call withIdempotency handles every message', async () => {
  await kit.transaction(async (tx) => {
    for (let order = 0; order < POOL; order += 1)
      await tx.query(
        `INSERT INTO ${kit.schema}.mailbox (queue, message_id, body, properties)
         SELECT 'orders', id, '{}', jsonb_build_object('fencepost-message-id', id, 'fencepost-type', 'Placed',
                'fencepost-aggregate-id', $1::text) FROM gen_random_uuid() AS id`,
        [`order-${order}`],
      )
  })
  // All of them hold a connection before the first goes on.
  const [all, begun] = [Promise.withResolvers<void>(), new Set<string>()]
  await using _consumer = await createConsumer({
    kit,
    subscriber: createMailboxSubscriber({ kit, queue: 'orders', pollIntervalMs: 10 }),
    consumerId: 'defaults',
    handlers: {
      Placed: async (_tx, { aggregateId }) => {
        begun.add(aggregateId)
        if (begun.size === POOL) all.resolve()
        await all.promise
        await place(aggregateId)
        // A reading call of the kit uses the same connection.
        await getSaga(kit, aggregateId)
      },
    },
  })
  await eventually(
    'ten orders placed',
    async () => (await countOf(kit, `inbox WHERE status = 'processed'`)) === POOL,
  )
  expect((await kit.pool.query(`SELECT 1 FROM placed WHERE id LIKE 'order-%'`)).rowCount).toBe(POOL)
})

test('key, work and result are committed with the transaction that was joined, or not at all', async () => {
  const failing = kit.transaction(async () => {
    expect((await place('with-outer')).replayed).toBe(false)
    throw new Error('outer')
  })
  await expect(failing).rejects.toThrow('outer')
  expect([
    await isPlaced('with-outer'),
    await countOf(kit, `idempotency_keys WHERE key = 'with-outer'`),
  ]).toEqual([false, 0])
  await kit.transaction(async () => void (await place('with-outer')))
  expect(await kit.transaction(() => place('with-outer'))).toEqual({
    replayed: true,
    result: { key: 'with-outer' },
  })
})

test('joined work that fails is undone alone, if its caller catches the error', async () => {
  await kit.transaction(async (tx) => {
    await tx.query(`INSERT INTO placed VALUES ('kept')`)
    const failing = withIdempotency(kit, request('undone'), async (inner) => {
      await inner.query(`INSERT INTO placed VALUES ('undone')`)
      await inner.query(`INSERT INTO placed VALUES ('kept')`)
    })
    await expect(failing).rejects.toMatchObject({ code: '23505' })
  })
  expect([await isPlaced('kept'), await isPlaced('undone')]).toEqual([true, false])
  expect(await countOf(kit, `idempotency_keys WHERE key = 'undone'`)).toBe(0)
})

// Bug: the inner call was answered with { replayed: true, result: null }, as if the work had been done.
test('work that calls itself under its own key is refused, and leaves nothing', async () => {
  const itself = withIdempotency(kit, request('itself'), () =>
    withIdempotency(kit, request('itself'), async () => 1),
  )
  await expect(itself).rejects.toBeInstanceOf(NestedTransactionError)
  expect(await countOf(kit, `idempotency_keys WHERE key = 'itself'`)).toBe(0)
})

test('calls at the same time, and calls inside calls, take turns on the one connection', async () => {
  await kit.transaction(async () => {
    const outer = (key: string) =>
      withIdempotency(kit, request(key, 'outer'), async () => (await place(`${key}/inner`)).result)
    const answers = await Promise.allSettled([
      outer('a'),
      withIdempotency(kit, request('b', 'outer'), () => Promise.reject(new Error('b'))),
      outer('c'),
      outer('a'),
    ])
    expect(
      answers.map((one) => (one.status === 'fulfilled' ? one.value.replayed : one.reason.message)),
    ).toEqual([false, 'b', false, true])
  })
  expect([await isPlaced('a/inner'), await isPlaced('c/inner')]).toEqual([true, true])
})

test('a statement of the kit at the same time as a call that fails takes its turn, and stands', async () => {
  await kit.transaction(async () => {
    const begun = Promise.withResolvers<void>()
    const failing = kit.transaction(async (tx) => {
      begun.resolve()
      await tx.query('SELECT no_such_column')
    })
    await begun.promise
    const beside = kit.query(`INSERT INTO placed VALUES ('beside')`)
    const answers = await Promise.allSettled([failing, beside])
    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
  })
  expect(await isPlaced('beside')).toBe(true)
})

test('a transaction of the application is joined by its handle', async () => {
  const client = await kit.pool.connect()
  const inClient = (key: string) =>
    withIdempotency(kit, { ...request(key), tx: client }, async (tx) => {
      expect(tx).toBe(client)
      await tx.query('INSERT INTO placed VALUES ($1)', [key])
      // Named again inside: the same savepoints, and no wait for oneself.
      return (await withIdempotency(kit, { ...request(`${key}/2`), tx: client }, async () => 2)).result
    })
  await client.query('BEGIN')
  await inClient('rolled-back')
  await client.query('ROLLBACK')
  await client.query('BEGIN')
  expect(await Promise.all([inClient('rolled-back'), inClient('other')])).toEqual([
    { replayed: false, result: 2 },
    { replayed: false, result: 2 },
  ])
  await client.query('COMMIT')
  client.release()
  expect([await isPlaced('rolled-back'), await isPlaced('other')]).toEqual([true, true])
})

test('onInProgress throw inside a transaction leaves that usable, with its own lock_timeout', async () => {
  const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const rival = withIdempotency(kit, request('busy'), async () => {
    entered.resolve()
    await go.promise
  })
  await entered.promise
  await kit.transaction(
    async (tx) => {
      const impatient = { ...request('busy'), onInProgress: 'throw' as const }
      await expect(withIdempotency(kit, impatient, async () => 1)).rejects.toBeInstanceOf(
        OperationInProgressError,
      )
      await withIdempotency(kit, { ...impatient, key: 'free' }, async () => 1)
      expect((await tx.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '7s' }])
    },
    { lockTimeoutMs: 7_000 },
  )
  go.resolve()
  await rival
})

const step = {
  effect: async () => 1,
  commit: async () => 1,
}
const saga = { sagaId: 's-1', step: 'charge', request: {}, leaseMs: 1_000 }
test.each<readonly [name: string, call: (tx: Tx) => Promise<unknown>, sentence: RegExp]>([
  ['a step', () => runIdempotentStep(kit, { ...request('k'), leaseMs: 1_000 }, step), /outside/],
  ['a step of a saga', () => processSagaStep(kit, saga, step), /outside/],
  [
    'an isolation of its own',
    () =>
      withIdempotency(kit, { ...request('k'), transaction: { isolation: 'serializable' } }, async () => 1),
    /isolation.*the transaction that begins/,
  ],
  [
    'a statement timeout of its own',
    () => kit.transaction(async () => 1, { statementTimeoutMs: 1 }),
    /statementTimeoutMs/,
  ],
])('%s cannot join, and is refused with what to do instead', async (_name, call, sentence) => {
  const refused = await kit.transaction(call).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(NestedTransactionError)
  expect(refused).toMatchObject({ code: 'nested_transaction', message: expect.stringMatching(sentence) })
})

test('a call that was not awaited and comes after the end is refused', async () => {
  const begun = Promise.withResolvers<void>()
  let late: Promise<unknown> | undefined
  const left = kit.transaction(async () => {
    // Its turn comes after that of the first, which is when the transaction has ended.
    const first = withIdempotency(kit, request('first'), async () => {
      begun.resolve()
      await pause(0)
    })
    first.catch(() => {})
    late = withIdempotency(kit, request('late'), async () => 1).catch((error: unknown) => error)
    await begun.promise
    throw new Error('left')
  })
  await expect(left).rejects.toThrow('left')
  expect(await late).toBeInstanceOf(TransactionEndedError)
})

test('a wait for a connection ends, with the size of the pool and what to do', async () => {
  const pool = server.pool({ max: 1 })
  const impatient = createSagaKit({ pool, schema: kit.schemaName, connectionWaitMs: 20, events: () => {} })
  const held = await pool.connect()
  const queue = createMailboxPublisher(impatient)
  const relay = createOutboxRelay({ kit: impatient, publisher: queue })
  for (const call of [
    () => impatient.transaction(async () => 1),
    () => getSaga(impatient, 'x'),
    () => listDeadLetters(impatient),
    () => runRecovery(impatient, {}),
    () => relay.drainOnce(),
    () =>
      queue
        .publish(outbound('orders', 1), new AbortController().signal)
        .catch(({ cause }) => Promise.reject(cause)),
  ]) {
    const error = await call().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(NoConnectionError)
    expect((error as Error).message).toMatch(/within 20 ms \(connectionWaitMs\).* max 1, .*concurrency/)
  }
  // Nor does a consumer stand still: its message comes again, and that costs no attempt.
  const inbox = new Inbox({
    kit: impatient,
    consumerId: 'c',
    handlers: { Numbered: async () => {} },
    retryInPlaceMs: 0,
  })
  const { body, messageId } = outbound('orders', 2)
  const headers = { 'fencepost-message-id': messageId, 'fencepost-type': 'Numbered' }
  const verdict = await inbox.deliver({ headers, properties: {}, body, redelivered: true })
  expect(verdict.kind).toBe('again')
  held.release()
  // What came too late went back to the pool.
  expect(await impatient.transaction(async () => 'ok')).toBe('ok')
})

test('a relay in a transaction does not send what may never be committed', async () => {
  const alone = await testKit(server)
  const publisher = new RecordingPublisher()
  const relay = createOutboxRelay({ kit: alone, publisher })
  await alone.transaction(async (tx) => {
    await publish(alone, tx, {
      aggregateType: 'o',
      aggregateId: '1',
      type: 'T',
      payload: {},
      destination: 'q',
    })
    expect(await relay.drainOnce()).toBe(0)
  })
  expect(await relay.drainOnce()).toBe(1)
  await relay.stop()
})

test('a handler may read dead letters on a pool of one connection', async () => {
  const single = createSagaKit({
    pool: server.pool({ max: 1 }),
    schema: kit.schemaName,
    // Far above what a first connection takes; without joining it would wait for itself so long.
    connectionWaitMs: 5_000,
  })
  expect(await single.transaction(() => listDeadLetters(single))).toEqual([])
})

test('two kits on one pool join each other, and one on another pool does not', async () => {
  const other = await testKit(server, { pool: kit.pool })
  const apart = createSagaKit({ pool: server.pool(), schema: kit.schemaName })
  await kit
    .transaction(async () => {
      await withIdempotency(other, request('pool'), async () => 1)
      await withIdempotency(apart, request('pool'), async () => 1)
      throw new Error('outer')
    })
    .catch(() => {})
  expect([
    await countOf(other, 'idempotency_keys'),
    await countOf(kit, `idempotency_keys WHERE key = 'pool'`),
  ]).toEqual([0, 1])
})

test.each(['', '  ', undefined])('the key %j is refused', async (key) => {
  const empty = withIdempotency(kit, request(key as string), async () => 1)
  await expect(empty).rejects.toThrow(/^key is .*not empty/)
  expect(await countOf(kit, `idempotency_keys WHERE key = '' OR key = '  '`)).toBe(0)
})

test.each(['aggregateType', 'aggregateId', 'type'] as const)(
  'an event without %s is refused',
  async (name) => {
    const event = { aggregateType: 'order', aggregateId: '1', type: 'Placed', payload: {} }
    const empty = kit.transaction((tx) => publish(kit, tx, { ...event, [name]: '' }))
    await expect(empty).rejects.toThrow(`the ${name} of an event is ""`)
  },
)

test('a consumer without a name is refused', async () => {
  const subscriber = createMailboxSubscriber({ kit, queue: 'none' })
  await expect(createConsumer({ kit, subscriber, consumerId: '', handlers: {} })).rejects.toThrow(
    'consumerId is ""',
  )
})
