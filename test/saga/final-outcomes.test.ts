// A refusal by the business and a step that was compensated first end their message for good, on every path.
import { beforeEach, describe, expect, test } from 'vitest'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { BusinessError, NonRetryableError, StepSuspendedError } from '../../packages/saga/src/errors.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { Handler, InboundMessage } from '../../packages/saga/src/messages.ts'
import { newMessageId } from '../../packages/saga/src/outbox.ts'
import { getSaga } from '../../packages/saga/src/saga-instances.ts'
import { compensateSagaStep, processSagaStep } from '../../packages/saga/src/saga-step.ts'
import { duringTests } from '../support/during-tests.ts'
import { FakeProvider } from '../support/fake-provider.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { countOf, orderMessage, type TestKit, testKit } from '../support/saga-kit.ts'

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeEach(async () => {
  kit = await testKit(server)
  await kit.pool.query(`CREATE TABLE ${kit.schema}.booked (n int)`)
})

const message = (type: string, aggregateId = 'a'): InboundMessage =>
  orderMessage(newMessageId(kit), type, aggregateId, { createdAt: new Date().toISOString() })
const inboxOf = (handlers: Record<string, Handler>) =>
  new Inbox({ kit, consumerId: 'test', handlers, retryInPlaceMs: 0 })
const outcomes = () => kit.seenOf('consumed').map(({ outcome }) => outcome)

type Path = 'transactional' | 'outside'
/** A handler of each path that writes a row and then ends as told. */
const handlerOf = (path: Path, end: () => Promise<unknown>): Handler =>
  path === 'outside'
    ? { outside: end }
    : async (tx) => {
        await tx.query(`INSERT INTO ${kit.schema}.booked VALUES (1)`)
        return end()
      }

const errors: readonly (readonly [string, () => Error, 'refused' | 'suspended'])[] = [
  ['BusinessError', () => new BusinessError('declined', 'card declined'), 'refused'],
  ['StepSuspendedError', () => new StepSuspendedError('s-1', 'pay', 'suspended'), 'suspended'],
]
const paths: readonly Path[] = ['transactional', 'outside']
const cases = errors.flatMap(([name, error, outcome]) =>
  paths.map((path) => [name, path, error, outcome] as const),
)

describe.each(cases)('%s thrown by a handler that is %s', (_, path, error, outcome) => {
  test('ends the message: one call, no dead letter, and what is behind it in its sequence goes on', async () => {
    let calls = 0
    const inbox = inboxOf({
      Pay: handlerOf(path, async () => {
        calls += 1
        throw error()
      }),
      Ship: async () => {},
    })
    const pay = message('Pay')
    expect(await inbox.receive(pay)).toEqual({ kind: 'ack' })
    expect(await inbox.receive({ ...pay, redelivered: true })).toEqual({ kind: 'ack' })
    expect(await inbox.receive(message('Ship'))).toEqual({ kind: 'ack' })
    expect(calls).toBe(1)
    expect(outcomes()).toEqual([outcome, 'duplicate', 'processed'])
    expect(await listDeadLetters(kit)).toEqual([])
    expect(await countOf(kit, 'booked')).toBe(0)
    const { rows } = await kit.pool.query(
      `SELECT status, attempts, last_error FROM ${kit.schema}.inbox WHERE message_id = $1`,
      [pay.messageId],
    )
    expect(rows).toEqual([{ status: 'processed', attempts: 0, last_error: error().message }])
  })

  test('ends a replayed dead letter, and those behind it go on', async () => {
    let end: () => Error = () => new NonRetryableError('not yet')
    const handlers = {
      Pay: handlerOf(path, async () => {
        throw end()
      }),
      Ship: async () => {},
    }
    const inbox = inboxOf(handlers)
    await inbox.receive(message('Pay'))
    await inbox.receive(message('Ship'))
    const letters = await listDeadLetters(kit)
    expect(letters.map(({ errorCode }) => errorCode)).toEqual(['non_retryable', 'behind'])
    end = error
    await replayDeadLetters(kit, [letters[0]!.id])
    expect(await replayOnce(kit, 'test', handlers)).toBe(2)
    expect(await listDeadLetters(kit)).toEqual([])
    expect(await countOf(kit, `inbox WHERE status = 'processed'`)).toBe(2)
  })
})

test('a late step after its compensation makes no charge, and does not poison its aggregate', async () => {
  const provider = new FakeProvider()
  const step = { sagaId: 's-1', step: 'pay', leaseMs: 5_000 }
  const refund = ({ stepKey }: { stepKey: string }) => provider.refund(stepKey)
  const inbox = inboxOf({
    Pay: {
      outside: () =>
        processSagaStep(
          kit,
          { ...step, request: null },
          {
            effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 10),
            commit: async () => null,
            compensate: { effect: refund },
          },
        ),
    },
    Cancel: { outside: () => compensateSagaStep(kit, step, { effect: refund }) },
    Unrelated: async () => {},
  })
  for (const type of ['Cancel', 'Pay', 'Unrelated'])
    expect(await inbox.receive(message(type))).toEqual({ kind: 'ack' })
  expect(outcomes()).toEqual(['processed', 'suspended', 'processed'])
  expect(provider.calls).toEqual([])
  expect(await listDeadLetters(kit)).toEqual([])
})

// Bug: a charge was made, its commit refused, and the message acknowledged as refused: nothing recorded the charge or tried again.
test('a refusal out of the commit of a step is a failure of its message: the charge is settled by a later attempt', async () => {
  const provider = new FakeProvider()
  let refusing = true
  const inbox = inboxOf({
    Pay: {
      outside: () =>
        processSagaStep(
          kit,
          { sagaId: 's-1', step: 'pay', leaseMs: 5_000, request: null },
          {
            effect: ({ idempotencyKey }) => provider.charge(idempotencyKey, 10),
            commit: async () => {
              if (refusing) throw new BusinessError('closed', 'the account is closed')
            },
          },
        ),
    },
  })
  const pay = message('Pay')
  expect(await inbox.receive(pay)).toMatchObject({ kind: 'again' })
  refusing = false
  await kit.pool.query(`UPDATE ${kit.schema}.inbox SET next_attempt_at = clock_timestamp()`)
  expect(await inbox.receive(pay)).toEqual({ kind: 'ack' })
  expect(outcomes()).toEqual(['retry', 'processed'])
  expect((await getSaga(kit, 's-1'))?.status).toBe('completed')
  expect(provider.kept).toBe(1)
})

// Bug: its message was acknowledged as refused, and what it should have undone stayed.
test('a refusal out of the commit of a compensation parks the saga, and its message is a dead letter', async () => {
  const step = { sagaId: 's-1', step: 'reserve', leaseMs: 5_000 }
  await processSagaStep(kit, { ...step, request: null }, { effect: async () => 1, commit: async () => 1 })
  const commit = () => Promise.reject(new BusinessError('closed', 'the shelf is closed'))
  const inbox = inboxOf({ Cancel: { outside: () => compensateSagaStep(kit, step, { commit }) } })
  await inbox.receive(message('Cancel'))
  // Bug: it said that the step was parked, and not why.
  expect(await listDeadLetters(kit)).toMatchObject([
    {
      errorCode: 'attempts_exhausted',
      errorMessage: expect.stringMatching(/after 1 attempts: the shelf is closed$/),
    },
  ])
  expect(await getSaga(kit, 's-1')).toMatchObject({
    status: 'parked',
    lastError: 'reserve: the shelf is closed',
  })
})
