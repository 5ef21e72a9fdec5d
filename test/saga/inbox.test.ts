// However often a message is delivered, it takes effect once, and is acknowledged only after the commit.
import type { EventEmitter } from 'node:events'
import { readFile } from 'node:fs/promises'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { Tx } from '../../packages/saga/src/database.ts'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import {
  discardDeadLetters,
  listDeadLetters,
  replayDeadLetters,
} from '../../packages/saga/src/dead-letters.ts'
import {
  LockNotAcquiredError,
  NonRetryableError,
  OperationInProgressError,
} from '../../packages/saga/src/errors.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { InboxOptions } from '../../packages/saga/src/inbox-options.ts'
import { enter } from '../../packages/saga/src/inbox-rows.ts'
import type { Handler, InboundMessage, TransactionalHandler } from '../../packages/saga/src/messages.ts'
import { outsideTransactions } from '../../packages/saga/src/open-transactions.ts'
import { newMessageId } from '../../packages/saga/src/outbox.ts'
import { hashOfText } from '../../packages/saga/src/request-hash.ts'
import { systemRandom } from '../../src/system/clock.ts'
import { openDoor } from '../support/door.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(() => server.pool().query('CREATE TABLE booked (schema_name text, n int, at serial)'))
beforeEach(async () => {
  kit = await testKit(server)
})

const book: TransactionalHandler = async (tx, { payload }) => {
  await tx.query('INSERT INTO booked (schema_name, n) VALUES ($1, $2)', [
    kit.schemaName,
    (payload as { n: number }).n,
  ])
}
const booked = async () =>
  (
    await kit.pool.query('SELECT n FROM booked WHERE schema_name = $1 ORDER BY at', [kit.schemaName])
  ).rows.map((row) => row.n)
function inbox(handler: Handler, options: Partial<InboxOptions> = {}): Inbox {
  return new Inbox({
    kit,
    consumerId: 'test',
    handlers: { Paid: handler },
    retryInPlaceMs: 0,
    ...options,
  })
}
const message = (n: number, aggregateId = 'a', more: Partial<InboundMessage> = {}): InboundMessage =>
  orderMessage(newMessageId(kit), 'Paid', aggregateId, {
    body: JSON.stringify({ n }),
    createdAt: new Date().toISOString(),
    ...more,
  })
const due = () => kit.pool.query(`UPDATE ${kit.schema}.inbox SET next_attempt_at = NULL`)
/** Fails as long as `n` is among the bad ones. */
const failingFor =
  (bad: Set<number>): TransactionalHandler =>
  async (tx, received) => {
    await book(tx, received)
    if (bad.has((received.payload as { n: number }).n)) throw new Error('not today')
  }

test('delivered twenty times at once: booked once, acknowledged twenty times', async () => {
  const [one, other] = [inbox(book), inbox(book)]
  const paid = message(1)
  const verdicts = await Promise.all(
    Array.from({ length: 20 }, (_, index) => (index % 2 ? one : other).receive(paid)),
  )
  expect(verdicts).toEqual(Array(20).fill({ kind: 'ack' }))
  expect(await booked()).toEqual([1])
  const outcomes = kit.seenOf('consumed').map(({ outcome }) => outcome)
  expect(outcomes.filter((outcome) => outcome === 'processed')).toHaveLength(1)
})

test('two consumers of one database each get it', async () => {
  const paid = message(1)
  await inbox(book, { consumerId: 'billing' }).receive(paid)
  await inbox(book, { consumerId: 'mail' }).receive(paid)
  expect(await booked()).toEqual([1, 1])
})

test('a failure rolls everything back, spends one attempt and requests redelivery', async () => {
  // Half of the longest delay: a random one is sometimes over before the message can come again.
  kit = await testKit(server, { random: { ...systemRandom, fraction: () => 0.5 } })
  const bad = new Set([1])
  const one = inbox(failingFor(bad), { retry: { backoff: { initialMs: 60_000, maxMs: 60_000 } } })
  const paid = message(1)
  const verdict = await one.receive(paid)
  expect(verdict.kind).toBe('again')
  expect(await booked()).toEqual([])
  // Too early: it is not tried, and no attempt is spent.
  expect((await one.receive(paid)).kind).toBe('again')
  expect(await countOf(kit, 'inbox WHERE attempts = 1')).toBe(1)
  bad.clear()
  await due()
  expect(await one.receive(paid)).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([1])
})

test('a message due for an early retry is retried here, and its sequence waits behind it', async () => {
  let failures = 3
  const one = inbox(
    async (tx, received) => {
      await book(tx, received)
      if ((received.payload as { n: number }).n === 1 && failures-- > 0) throw new Error('not yet')
    },
    { retryInPlaceMs: 1_000, retry: { backoff: { initialMs: 5, maxMs: 5 } } },
  )
  const verdicts = await Promise.all([
    one.receive(message(1)),
    one.receive(message(2)),
    one.receive(message(3, 'b')),
  ])
  expect(verdicts).toEqual(Array(3).fill({ kind: 'ack' }))
  const order = await booked()
  expect(order.filter((n) => n !== 3)).toEqual([1, 2])
  expect(order).toHaveLength(3)
})

test('a deferred message keeps its place, whichever message comes back first', async () => {
  const bad = new Set([1])
  const one = inbox(failingFor(bad))
  const [first, second, third] = [message(1), message(2), message(3)]
  await one.receive(first)
  await one.receive(second)
  bad.clear()
  await due()
  expect(await one.receive(first)).toEqual({ kind: 'ack' })
  expect((await one.receive(third)).kind).toBe('again')
  expect(await one.receive(second)).toEqual({ kind: 'ack' })
  expect(await one.receive(third)).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([1, 2, 3])
})

test('behind a message that its broker has lost, its sequence waits until its row is deleted as the guide says', async () => {
  const one = inbox(failingFor(new Set([1])))
  const [lost, second, third] = [message(1), message(2), message(3)]
  await one.receive(lost)
  for (const waiting of [second, third]) expect((await one.receive(waiting)).kind).toBe('again')
  await due()
  expect((await one.receive(second)).kind).toBe('again')
  const [, first, remove] = /```sql\n(-- The first of each sequence[^;]+);\n([^`]+);\n```/.exec(
    (await readFile('docs/guide/saga.md', 'utf8')).replaceAll('fencepost.', `${kit.schema}.`),
  )!
  const { rows } = await kit.pool.query(first!)
  expect(rows).toMatchObject([{ consumer_id: 'test', message_id: lost.messageId, last_error: 'not today' }])
  await kit.pool.query(remove!.replace('billing', 'test').replace('…', rows[0].message_id))
  expect((await one.receive(third)).kind).toBe('again')
  for (const waiting of [second, third]) expect(await one.receive(waiting)).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([2, 3])
})

test('messages behind a failed one of their sequence wait; other sequences do not', async () => {
  const bad = new Set([1])
  const one = inbox(failingFor(bad))
  const [first, second] = [message(1), message(2)]
  await one.receive(first)
  expect((await one.receive(second)).kind).toBe('again')
  expect(await one.receive(message(3, 'b'))).toEqual({ kind: 'ack' })
  bad.clear()
  await due()
  await one.receive(first)
  await one.receive(second)
  expect(await booked()).toEqual([3, 1, 2])
})

test('a sequence that becomes free while a rival takes the message does not let it in twice', async () => {
  const bad = new Set([1])
  const one = inbox(failingFor(bad))
  const [first, second] = [message(1), message(2)]
  await one.receive(first)
  bad.clear()
  await due()
  const entry = {
    consumerId: 'test',
    message: second,
    hash: hashOfText(second.body),
    orderingKey: 'order/a',
    retentionMs: 60_000,
  }
  const entered = await kit.transaction(async (tx) => {
    const slow: Tx = {
      query: async (text, values) => {
        const answer = await tx.query(text, values)
        // It has found the first one in its way and no row of its own. Now both go through elsewhere.
        if (/^\s*SELECT request_hash/.test(text))
          for (const elsewhere of [first, second])
            expect(await inbox(book).receive(elsewhere)).toEqual({ kind: 'ack' })
        return answer as never
      },
    }
    return enter(kit, slow, entry)
  })
  expect(entered).toEqual({ kind: 'done' })
  expect(await booked()).toEqual([1, 2])
})

test('a message with an unreadable ordering key is a dead letter, not redelivered for ever', async () => {
  const one = inbox(book, { orderingKey: ({ body }) => JSON.parse(body).order })
  expect(await one.receive(message(1, 'a', { body: 'hello' }))).toEqual({ kind: 'ack' })
  expect(await listDeadLetters(kit)).toHaveLength(1)
  expect(await one.receive(message(2))).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([2])
})

test('attempts exhausted: a dead letter, and its sequence waits behind it without holding up the broker', async () => {
  const bad = new Set([1])
  const one = inbox(failingFor(bad), { retry: { maxAttempts: 2, backoff: { initialMs: 1, maxMs: 1 } } })
  const first = message(1)
  await one.receive(first)
  await due()
  expect(await one.receive(first)).toEqual({ kind: 'ack' })
  expect(await one.receive(message(2))).toEqual({ kind: 'ack' })
  expect(await one.receive(message(3))).toEqual({ kind: 'ack' })
  expect(await one.receive(message(4, 'b'))).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([4])
  const letters = await listDeadLetters(kit)
  expect(letters.map(({ errorCode, attempts }) => [errorCode, attempts])).toEqual([
    ['error', 2],
    ['behind', 0],
    ['behind', 0],
  ])

  // Replayed while still bad: all dead again, none lost.
  await replayDeadLetters(kit, [letters[0]!.id])
  expect(await replayOnce(kit, 'test', { Paid: failingFor(bad) })).toBe(0)
  expect((await listDeadLetters(kit)).map(({ status }) => status)).toEqual(['dead', 'dead', 'dead'])

  bad.clear()
  await replayDeadLetters(kit, [letters[0]!.id])
  expect(await replayOnce(kit, 'test', { Paid: failingFor(bad) })).toBe(3)
  expect(await booked()).toEqual([4, 1, 2, 3])
  // Redelivered by a broker that missed the acknowledgement: known.
  expect(await one.receive(first)).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([4, 1, 2, 3])
})

test('a discarded dead letter lets those behind it go on', async () => {
  const one = inbox(failingFor(new Set([1])), { retry: { maxAttempts: 1 } })
  await one.receive(message(1))
  await one.receive(message(2))
  await discardDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
  await replayOnce(kit, 'test', { Paid: book })
  expect(await booked()).toEqual([2])
})

test('discarding a head while a message is queued behind it releases that message, too', async () => {
  const one = inbox(failingFor(new Set([1])), { retry: { maxAttempts: 1 } })
  await one.receive(message(1))
  const [head] = await listDeadLetters(kit)
  const second = message(2)
  let discarding: Promise<number> | undefined
  const racing = Object.assign(Object.create(kit) as TestKit, {
    transaction: <T>(work: (tx: Tx) => Promise<T>) =>
      kit.transaction((tx) =>
        work({
          query: async (text, values) => {
            const answer = await tx.query(text, values)
            // It has found the head dead. The discard ends before the message is written, or waits until it is.
            if (/^\s*SELECT status, 0 AS wait_ms/.test(text)) {
              discarding = outsideTransactions(() => discardDeadLetters(kit, [head!.id]))
              await eventually('the discard to be through, or to wait', async () => {
                const waiting = await kit.pool.query(
                  `SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'`,
                )
                return waiting.rows.length > 0 || (await listDeadLetters(kit)).length === 0
              })
            }
            return answer as never
          },
        }),
      ),
  })
  expect(await inbox(book, { kit: racing }).receive(second)).toEqual({ kind: 'ack' })
  expect(await discarding).toBe(1)
  await replayOnce(kit, 'test', { Paid: book })
  expect(await booked()).toEqual([2])
  expect(await one.receive(message(3))).toEqual({ kind: 'ack' })
})

test('two processes replay one sequence: no message overtakes the one before it', async () => {
  const one = inbox(failingFor(new Set([1])), { retry: { maxAttempts: 1 } })
  await one.receive(message(1))
  await one.receive(message(2))
  await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
  const begun = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const slow = replayOnce(kit, 'test', {
    Paid: async (tx, received) => {
      begun.resolve()
      await go.promise
      await book(tx, received)
    },
  })
  await begun.promise
  expect(await replayOnce(kit, 'test', { Paid: book })).toBe(0)
  go.resolve()
  expect(await slow).toBe(2)
  expect(await booked()).toEqual([1, 2])
})

// Bug: one look took the first hundred and no others, so that those behind a hundred whose locks were held were never begun.
test('letters are replayed behind more than a hundred that have to wait, and of a sequence the first alone is asked', async () => {
  const one = inbox(failingFor(new Set([1])), { retry: { maxAttempts: 1 } })
  await Promise.all(Array.from({ length: 101 }, (_, n) => one.receive(message(1, `held-${n}`))))
  await one.receive(message(1, 'sequence'))
  await one.receive(message(2, 'sequence'))
  await one.receive(message(1, 'free'))
  await replayDeadLetters(
    kit,
    (await listDeadLetters(kit, { limit: 1_000 })).map(({ id }) => id),
  )
  const asked: string[] = []
  const handle: Handler = async (tx, received) => {
    asked.push(received.aggregateId)
    if (received.aggregateId !== 'free') throw new LockNotAcquiredError(['shelf/pen'], 100)
    await book(tx, received)
  }
  expect(await replayOnce(kit, 'test', { Paid: handle })).toBe(1)
  expect(await booked()).toEqual([1])
  expect(asked.toSorted()).toEqual(
    ['free', 'sequence', ...Array.from({ length: 101 }, (_, n) => `held-${n}`)].toSorted(),
  )
})

test('a replay ends after the letter that it is at, where its consumer is stopped', async () => {
  const one = inbox(failingFor(new Set([1])), { retry: { maxAttempts: 1 } })
  for (const aggregateId of ['a', 'b', 'c']) await one.receive(message(1, aggregateId))
  await replayDeadLetters(
    kit,
    (await listDeadLetters(kit)).map(({ id }) => id),
  )
  let stopped = false
  const handle: Handler = async (tx, received) => {
    stopped = true
    await book(tx, received)
  }
  expect(await replayOnce(kit, 'test', { Paid: handle }, {}, () => !stopped)).toBe(1)
  expect(await replayOnce(kit, 'test', { Paid: handle })).toBe(2)
})

test('a handler that works outside is replayed while no transaction is open: a pool of one connection is enough', async () => {
  const small = await testKit(server, { pool: server.pool({ max: 1, connectionTimeoutMillis: 10_000 }) })
  kit = small
  let broken = true
  const outside: Handler = {
    outside: async ({ payload }) => {
      if (broken) throw new NonRetryableError('not today')
      const { n } = payload as { n: number }
      await small.transaction((tx) => tx.query('INSERT INTO booked VALUES ($1, $2)', [small.schemaName, n]))
    },
  }
  const one = inbox(outside)
  await one.receive(message(1))
  await one.receive(message(2))
  broken = false
  await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
  expect(await replayOnce(kit, 'test', { Paid: outside })).toBe(2)
  expect(await booked()).toEqual([1, 2])
  expect(await listDeadLetters(kit)).toEqual([])
})

test.each<[string, (error: unknown) => Handler]>([
  ['in the transaction', (error) => () => Promise.reject(error)],
  ['outside', (error) => ({ outside: () => Promise.reject(error) })],
])(
  'a replay whose handler %s finds its step in progress waits, and so do the messages behind it',
  async (_, failing) => {
    const one = inbox(failingFor(new Set([1])), { retry: { maxAttempts: 1 } })
    await one.receive(message(1))
    await one.receive(message(2))
    await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
    const busy = failing(new OperationInProgressError('its step', 1_000))
    expect(await replayOnce(kit, 'test', { Paid: busy })).toBe(0)
    expect((await listDeadLetters(kit)).map(({ status }) => status)).toEqual(['replaying', 'replaying'])
    expect(await replayOnce(kit, 'test', { Paid: book })).toBe(2)
    expect(await booked()).toEqual([1, 2])
  },
)

test('park-message parks the message alone', async () => {
  const one = inbox(failingFor(new Set([1])), { retry: { maxAttempts: 1 }, onExhausted: 'park-message' })
  await one.receive(message(1))
  await one.receive(message(2))
  expect(await booked()).toEqual([2])
})

test.each<[string, () => unknown, number]>([
  ['the lock is held', () => new LockNotAcquiredError(['x'], 250), 250],
  ['the operation is in progress', () => new OperationInProgressError('x', 700), 700],
])('%s: it comes again, without an attempt spent', async (_, failure, delayMs) => {
  const one = inbox(() => Promise.reject(failure()), { retry: { maxAttempts: 1 } })
  const paid = message(1)
  for (let delivery = 0; delivery < 5; delivery += 1)
    expect(await one.receive(paid)).toEqual({ kind: 'again', delayMs })
  expect(await countOf(kit, 'dead_letters')).toBe(0)
})

test('a message deferred without an attempt is not overtaken by its successors', async () => {
  let held = true
  const one = inbox({
    outside: async ({ payload }) => {
      const { n } = payload as { n: number }
      if (n === 1 && held) throw new LockNotAcquiredError(['x'], 30_000)
      await kit.transaction((tx) => tx.query('INSERT INTO booked VALUES ($1, $2)', [kit.schemaName, n]))
    },
  })
  const [first, second] = [message(1), message(2)]
  expect(await one.receive(first)).toEqual({ kind: 'again', delayMs: 30_000 })
  expect((await one.receive(second)).kind).toBe('again')
  expect(await one.receive(message(3, 'b'))).toEqual({ kind: 'ack' })
  held = false
  expect(await one.receive(first)).toEqual({ kind: 'ack' })
  expect(await one.receive(second)).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([3, 1, 2])
})

test.each<[string, Partial<InboundMessage>, string]>([
  ['no JSON', { body: 'hello' }, 'the body of the message is not JSON'],
  ['a handler that says it is hopeless', { body: '{"n":-1}' }, 'no such order'],
])('%s: a dead letter at once', async (_, more, reason) => {
  const one = inbox(async (_tx, { payload }) => {
    if ((payload as { n: number }).n < 0) throw new NonRetryableError('no such order')
  })
  expect(await one.receive(message(1, 'a', more))).toEqual({ kind: 'ack' })
  expect(await listDeadLetters(kit)).toMatchObject([{ errorMessage: reason, consumerId: 'test' }])
})

test('the same id with another body is not taken for the same message', async () => {
  const one = inbox(book)
  const paid = message(1)
  await one.receive(paid)
  await one.receive({ ...paid, body: '{"n":2}' })
  expect(await booked()).toEqual([1])
  expect(kit.seenOf('consumed').at(-1)).toMatchObject({ outcome: 'dead_letter' })
})

test.each<[string, string]>([
  ['another body', '{"n":2}'],
  ['a body that is no JSON', 'hello'],
])(
  'the same id with %s while the first is being retried: the first is executed, the other is a dead letter',
  async (_, body) => {
    const bad = new Set([1])
    const one = inbox(failingFor(bad))
    const paid = message(1)
    await one.receive(paid)
    expect(await one.receive({ ...paid, body })).toEqual({ kind: 'ack' })
    // Its acknowledgement was lost: no second dead letter.
    expect(await one.receive({ ...paid, body, redelivered: true })).toEqual({ kind: 'ack' })
    expect(await one.receive(message(3))).toMatchObject({ kind: 'again' })
    bad.clear()
    await due()
    expect(await one.receive(paid)).toEqual({ kind: 'ack' })
    expect(await booked()).toEqual([1])
    const letters = await listDeadLetters(kit)
    expect(letters).toHaveLength(1)
    expect(letters[0]!.errorMessage).toContain(paid.messageId)
  },
)

test('the same id with another body, and the first exhausted: both are dead letters, and each can be replayed', async () => {
  const one = inbox(failingFor(new Set([1])), { retry: { maxAttempts: 2 } })
  const paid = message(1)
  await one.receive(paid)
  await one.receive({ ...paid, body: '{"n":2}' })
  await due()
  await one.receive(paid)
  const letters = await listDeadLetters(kit)
  expect(letters.map(({ payload }) => payload)).toEqual([{ n: 2 }, { n: 1 }])
  await replayDeadLetters(
    kit,
    letters.map(({ id }) => id),
  )
  expect(await replayOnce(kit, 'test', { Paid: book })).toBe(2)
  expect((await booked()).sort()).toEqual([1, 2])
})

// Bug: it kept the code `behind` and got JSON for a message. As one behind it was executed again when another letter was decided on.
test('a letter that was behind and fails in its own replay is dead for its own reason, and waits for a decision of its own', async () => {
  const calls: number[] = []
  const refusing: TransactionalHandler = async (_tx, { payload }) => {
    const { n } = payload as { n: number }
    calls.push(n)
    throw new NonRetryableError(`no "${n}"`)
  }
  const one = inbox(refusing)
  for (const n of [1, 2, 3]) await one.receive(message(n))
  const [first, , third] = await listDeadLetters(kit)
  await discardDeadLetters(kit, [first!.id])
  await replayOnce(kit, 'test', { Paid: refusing })
  expect(await listDeadLetters(kit)).toMatchObject([
    { payload: { n: 2 }, status: 'dead', errorCode: 'non_retryable', errorMessage: 'no "2"' },
    { payload: { n: 3 }, status: 'dead', errorCode: 'behind' },
  ])
  await discardDeadLetters(kit, [third!.id])
  await replayOnce(kit, 'test', { Paid: refusing })
  expect(calls).toEqual([1, 2])
})

test('a message that kills its consumer again and again becomes a dead letter unopened', async () => {
  const one = inbox(book)
  const paid = message(1, 'a', { redelivered: true })
  // The traces of five dead processes.
  for (let crash = 0; crash < 5; crash += 1)
    await kit.pool.query(
      `INSERT INTO ${kit.schema}.inbox AS i (consumer_id, message_id, request_hash, status, unfinished, expires_at)
       VALUES ('test', $1, $2, 'received', 1, 'infinity')
       ON CONFLICT (consumer_id, message_id) DO UPDATE SET unfinished = i.unfinished + 1`,
      [paid.messageId, hashOfText(paid.body)],
    )
  expect(await one.receive(paid)).toEqual({ kind: 'ack' })
  expect(await listDeadLetters(kit)).toMatchObject([
    { errorCode: 'never_ended', errorMessage: expect.stringContaining('5 deliveries') },
  ])
  expect(await booked()).toEqual([])
})

test('a processed message is a duplicate, however often its acknowledgement is lost', async () => {
  const one = inbox(book)
  const paid = message(1, 'a', { redelivered: true })
  for (let delivery = 1; delivery <= 8; delivery += 1)
    expect(await one.receive(paid)).toEqual({ kind: 'ack' })
  expect(await listDeadLetters(kit)).toEqual([])
  expect(kit.seenOf('consumed').map(({ outcome }) => outcome)).toEqual([
    'processed',
    ...Array(7).fill('duplicate'),
  ])
  expect(await booked()).toEqual([1])
})

test('messages of one sequence are handled one after the other, however many arrive', async () => {
  let under = 0
  let most = 0
  const one = inbox(async (tx, received) => {
    under += 1
    most = Math.max(most, under)
    await book(tx, received)
    under -= 1
  })
  await Promise.all(Array.from({ length: 10 }, (_, n) => one.receive(message(n))))
  expect(most).toBe(1)
  expect(await booked()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
})

test('a handler that works outside is not called for a processed message', async () => {
  let calls = 0
  const one = inbox({
    outside: async () => {
      calls += 1
    },
  })
  const paid = message(1)
  await one.receive(paid)
  await one.receive(paid)
  expect(calls).toBe(1)
})

test('a type without a handler is passed over where the consumer says so, and leaves no row', async () => {
  const one = inbox(book, { onUnhandled: 'pass' })
  expect(await one.receive(message(1, 'a', { type: 'Other' }))).toEqual({ kind: 'ack' })
  expect(await countOf(kit, 'inbox')).toBe(0)
})

test('the backend dies in the handler: it comes again, without an attempt spent', async () => {
  let deaths = 1
  const one = inbox(
    async (tx, received) => {
      await book(tx, received)
      if (deaths-- > 0) {
        const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
        await kit.pool.query('SELECT pg_terminate_backend($1, 5000)', [rows[0]!.pid])
      }
    },
    { retry: { maxAttempts: 1 } },
  )
  const paid = message(1)
  expect((await one.receive(paid)).kind).toBe('again')
  expect(await one.receive(paid)).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([1])
})

test.each(['and asks it something afterwards', 'and returns'])(
  'a handler whose transaction idles beyond the server’s limit, %s: no outage, it spends attempts',
  async (how) => {
    const one = inbox(
      async (tx) => {
        await tx.query(`SET LOCAL idle_in_transaction_session_timeout = 20`)
        // Not events.once(): that ends with the first error. Here the second one, of the lost connection, has come, too.
        await new Promise((ended) => (tx as unknown as EventEmitter).once('end', ended))
        if (how !== 'and returns') await tx.query('SELECT 1')
      },
      { retry: { maxAttempts: 2, backoff: { initialMs: 1, maxMs: 1 } } },
    )
    const paid = message(1)
    expect((await one.receive(paid)).kind).toBe('again')
    expect(await one.receive(paid)).toEqual({ kind: 'ack' })
    expect(await listDeadLetters(kit)).toMatchObject([
      { attempts: 2, errorCode: '25P03', errorMessage: expect.stringContaining('idle-in-transaction') },
    ])
  },
)

const refused = () => Object.assign(new Error('connect ECONNREFUSED 10.0.0.7:443'), { code: 'ECONNREFUSED' })
test.each<[string, Handler]>([
  ['in the transaction', () => Promise.reject(refused())],
  ['outside', { outside: () => Promise.reject(refused()) }],
])(
  'a handler %s that cannot reach what it calls is no outage of the database: it spends attempts',
  async (_, handler) => {
    const one = inbox(handler, { retry: { maxAttempts: 3, backoff: { initialMs: 1, maxMs: 1 } } })
    const paid = message(1, 'a', { redelivered: true })
    for (let delivery = 1; delivery <= 2; delivery += 1) {
      expect((await one.receive(paid)).kind).toBe('again')
      await due()
    }
    expect(await one.receive(paid)).toEqual({ kind: 'ack' })
    expect(await listDeadLetters(kit)).toMatchObject([{ attempts: 3, errorMessage: refused().message }])
  },
)

test('a message that met repeated outages does not count as one that kills its consumer', async () => {
  let outages = 7
  const one = inbox(async (tx, received) => {
    await book(tx, received)
    if (outages-- > 0) {
      const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
      await kit.pool.query('SELECT pg_terminate_backend($1, 5000)', [rows[0]!.pid])
    }
  })
  const paid = message(1, 'a', { redelivered: true })
  for (let outage = 1; outage <= 7; outage += 1) expect((await one.receive(paid)).kind).toBe('again')
  expect(await one.receive(paid)).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([1])
})

test('an outage of the database, however long, does not let messages of one sequence change places', async () => {
  const clock = new VirtualClock()
  const door = await openDoor({ path: `${server.folder}/.s.PGSQL.${server.port}` })
  const pool = server.pool({ host: '127.0.0.1', port: door.port })
  kit = await testKit(server, { pool, clock })
  const one = inbox(book, { retryInPlaceMs: 1_000 })
  door.turn('shut')
  const verdicts: string[] = []
  const both = [message(1), message(2)].map(async (sent) => {
    const { kind } = await one.receive(sent)
    verdicts.push(kind)
  })
  for (let second = 0; second < 15; second += 1) {
    await eventually('the next try', () => clock.pendingTimers > 0 || verdicts.length > 0)
    expect(verdicts).toEqual([])
    await clock.advance(1_000)
  }
  door.turn('open')
  await eventually('both to be through', async () => {
    await clock.advance(1_000)
    return verdicts.length === 2
  })
  await Promise.all(both)
  expect(verdicts).toEqual(['ack', 'ack'])
  expect(await booked()).toEqual([1, 2])
})

// Bug: a full disk made dead letters of all messages within minutes.
test('while the disk of the database is full, a message spends no attempt and keeps its place', async () => {
  let full = true
  const one = inbox(
    async (tx, received) => {
      if (full) await tx.query(`DO $$ BEGIN RAISE 'No space left on device' USING ERRCODE = '53100'; END $$`)
      await book(tx, received)
    },
    { retry: { maxAttempts: 1 } },
  )
  const [first, second] = [message(1), message(2)]
  expect((await one.receive(first)).kind).toBe('again')
  full = false
  expect((await one.receive(second)).kind).toBe('again')
  for (const sent of [first, second]) expect(await one.receive(sent)).toEqual({ kind: 'ack' })
  expect(await booked()).toEqual([1, 2])
})

// Bug: a session on which nobody answers cost the message an attempt.
test('a session that says nothing (`query_timeout` of pg) costs a message no attempt', async () => {
  kit = await testKit(server, { pool: server.pool({ query_timeout: 300 }) })
  const one = inbox(book, { retry: { maxAttempts: 1 } })
  const { rows } = await kit.pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  process.kill(rows[0]!.pid, 'SIGSTOP')
  try {
    const paid = message(1)
    expect((await one.receive(paid)).kind).toBe('again')
    expect(await one.receive(paid)).toEqual({ kind: 'ack' })
    expect(await booked()).toEqual([1])
  } finally {
    process.kill(rows[0]!.pid, 'SIGCONT')
  }
})

test('a consumer stopped during an outage returns its messages', async () => {
  const clock = new VirtualClock()
  const door = await openDoor({ path: `${server.folder}/.s.PGSQL.${server.port}` })
  kit = await testKit(server, { pool: server.pool({ host: '127.0.0.1', port: door.port }), clock })
  const one = inbox(book)
  door.turn('shut')
  const verdict = one.receive(message(1))
  await eventually('the next try', () => clock.pendingTimers > 0)
  one.stop()
  await clock.advance(1_000)
  expect((await verdict).kind).toBe('again')
})

test('a retention shorter than the retries is refused', () => {
  expect(() => inbox(book, { retentionMs: 60_000 })).toThrow('must be longer than all retries together')
})
