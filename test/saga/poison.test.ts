import { beforeEach, expect, test } from 'vitest'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { AttemptsExhaustedError, NonRetryableError } from '../../packages/saga/src/errors.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { InboundMessage, TransactionalHandler } from '../../packages/saga/src/messages.ts'
import { newMessageId, publish } from '../../packages/saga/src/outbox.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { defineSaga } from '../../packages/saga/src/saga-definition.ts'
import { getSaga } from '../../packages/saga/src/saga-instances.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { runIdempotentStep } from '../../packages/saga/src/step.ts'
import { systemRandom } from '../../src/system/clock.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  kit = await testKit(server)
})

const NUL = '\0'
const HALF = '\ud83d'

const message = (more: Partial<InboundMessage> = {}): InboundMessage =>
  orderMessage(newMessageId(kit), 'Paid', 'a', {
    body: '{"n":1}',
    createdAt: new Date().toISOString(),
    ...more,
  })

function failing(said: string): Inbox {
  const handler = () => Promise.reject(new Error(said))
  const retry = { maxAttempts: 2, backoff: { initialMs: 1, maxMs: 1 } }
  return new Inbox({ kit, consumerId: 'test', handlers: { Paid: handler }, retryInPlaceMs: 0, retry })
}

/** As a broker does, until it is ended: a delivery that was deferred, because the database was busy, is no attempt. */
async function deliver(inbox: Inbox, one: InboundMessage): Promise<string> {
  let { kind } = await inbox.receive(one)
  while (kind === 'again') kind = (await inbox.receive(one)).kind
  return kind
}

test.each<[string, Partial<InboundMessage>, string]>([
  ['whose failure quotes a NUL', {}, `no customer "x${NUL}"`],
  ['whose failure quotes half a surrogate pair', {}, `no customer "${HALF}"`],
  ['with a NUL in a header', { headers: { from: `x${NUL}` } }, 'no'],
  ['with half a surrogate pair in a header', { headers: { from: HALF } }, 'no'],
  ['with a NUL in its aggregate', { aggregateId: `a${NUL}b` }, 'no'],
  ['of an aggregate whose name is too long for an index', { aggregateId: systemRandom.hex(6_000) }, 'no'],
  ['nested deeper than PostgreSQL reads', { body: `${'['.repeat(100_000)}${']'.repeat(100_000)}` }, 'no'],
  ['of an instant that only JavaScript reads', { createdAt: '1' }, 'no'],
])('a message %s becomes a dead letter when its attempts are exhausted', async (_, more, said) => {
  const inbox = failing(said)
  const one = message(more)
  expect((await inbox.receive(one)).kind).toBe('again')
  expect(await deliver(inbox, one)).toBe('ack')
  expect(await listDeadLetters(kit)).toMatchObject([{ messageId: one.messageId, attempts: 2 }])
})

const unprintable: object = Object.create(null)
const circular: { code?: unknown } = {}
circular.code = circular

// Bug: the failure itself could not be written down. The message came again for ever, with all behind it, and the step was never parked.
test.each<[string, unknown]>([
  ['an object without a prototype', unprintable],
  ['an error whose message is one', { message: unprintable }],
  ['an error whose code is one', { message: 'no', code: unprintable }],
  ['an error whose code holds itself', circular],
  ['an error whose code is a bigint', { message: 'no', code: 5n }],
  ['undefined', undefined],
])(
  'who throws %s has failed like any other: the message is dead, and the step is parked',
  async (_, thrown) => {
    const work = () => Promise.reject(thrown)
    const retry = { maxAttempts: 1 }
    const inbox = new Inbox({ kit, consumerId: 'test', handlers: { Paid: work }, retryInPlaceMs: 0, retry })
    expect(await inbox.receive(message())).toEqual({ kind: 'ack' })
    expect(await listDeadLetters(kit)).toHaveLength(1)
    const request = { scope: 'pay', key: 'k', request: {}, leaseMs: 10_000, maxAttempts: 1 }
    const step = runIdempotentStep(kit, request, { effect: work, commit: async () => 1 })
    const parked: unknown = await step.catch((error: unknown) => error)
    expect(parked).toBeInstanceOf(AttemptsExhaustedError)
    expect((parked as Error).cause).toBe(thrown)
    const { rows } = await kit.pool.query(`SELECT status FROM ${kit.schema}.idempotency_keys`)
    expect(rows).toEqual([{ status: 'parked' }])
  },
)

test('a message whose type names an inherited property has no handler', async () => {
  for (const type of ['valueOf', '__proto__'])
    expect(await failing('no').receive(message({ type }))).toEqual({ kind: 'ack' })
  expect((await listDeadLetters(kit)).map(({ errorCode, type }) => [errorCode, type])).toEqual([
    ['unhandled_type', 'valueOf'],
    ['unhandled_type', '__proto__'],
  ])
})

test('a dead letter whose handler is gone is dead again after a replay, and can be replayed', async () => {
  const inbox = failing('no')
  const one = message()
  expect(await deliver(inbox, one)).toBe('ack')
  const [letter] = await listDeadLetters(kit)
  await replayDeadLetters(kit, [letter!.id])
  expect(await replayOnce(kit, 'test', {})).toBe(0)
  expect(await listDeadLetters(kit)).toMatchObject([
    { status: 'dead', errorMessage: expect.stringContaining('no handler') },
  ])
  const handled: unknown[] = []
  const handler: TransactionalHandler = async (_tx, { payload }) => handled.push(payload)
  await replayDeadLetters(kit, [letter!.id])
  expect(await replayOnce(kit, 'test', { Paid: handler })).toBe(1)
  expect(handled).toEqual([{ n: 1 }])
})

test('a saga whose step fails with an error that PostgreSQL cannot store is still compensated', async () => {
  const steps = [{ name: 'pay', maxAttempts: 1, effect: () => Promise.reject(new Error(`key ${NUL}`)) }]
  const runner = createSagaRunner({ kit, definitions: [defineSaga('order', steps)] })
  await kit.transaction((tx) => runner.begin(tx, 'order', { sagaId: 'a', input: {} }))
  await runner.runOnce()
  await kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = clock_timestamp()`)
  await runner.runOnce()
  expect((await getSaga(kit, 'a'))!.status).toBe('compensated')
})

test.each([NUL, HALF])(
  'a step that can never succeed is parked at once, whatever its error quotes',
  async (odd) => {
    const step = runIdempotentStep(
      kit,
      { scope: 's', key: 'k', request: {}, leaseMs: 60_000 },
      { effect: () => Promise.reject(new NonRetryableError(odd)), commit: async () => null },
    )
    await expect(step).rejects.toMatchObject({ code: 'attempts_exhausted' })
  },
)

test('a message refused by its broker with an error that PostgreSQL cannot store stops its aggregate alone', async () => {
  const refusing = { publish: () => Promise.reject(new Error(`refused ${NUL}`)), close: async () => {} }
  await kit.transaction((tx) =>
    publish(kit, tx, { aggregateType: 'order', aggregateId: 'a', type: 'T', payload: {} }),
  )
  await using relay = createOutboxRelay({ kit, publisher: refusing, retry: { maxAttempts: 1 } })
  expect(await relay.drainOnce()).toBe(0)
  expect(await listDeadLetters(kit)).toMatchObject([{ source: 'outbox', attempts: 1 }])
})
