// What the application tells `pg` to make of timestamps, JSON and large numbers is the application's business alone.
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { sagaBacklog } from '../../packages/saga/src/backlog.ts'
import { replayOnce } from '../../packages/saga/src/dead-letter-replay.ts'
import { listDeadLetters, replayDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { BusinessError } from '../../packages/saga/src/errors.ts'
import { Inbox } from '../../packages/saga/src/inbox.ts'
import type { OutboundMessage, Received } from '../../packages/saga/src/messages.ts'
import { newMessageId, outboxLag, publish } from '../../packages/saga/src/outbox.ts'
import { createPostgresLocks } from '../../packages/saga/src/postgres-locks.ts'
import { runRecovery } from '../../packages/saga/src/recovery.ts'
import { createOutboxRelay } from '../../packages/saga/src/relay.ts'
import { defineSaga } from '../../packages/saga/src/saga-definition.ts'
import { getSaga, listSagas } from '../../packages/saga/src/saga-instances.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { processSagaStep } from '../../packages/saga/src/saga-step.ts'
import { runIdempotentStep } from '../../packages/saga/src/step.ts'
import { duringTests } from '../support/during-tests.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'

const { TIMESTAMPTZ, INT8, JSON: json, JSONB, NUMERIC } = pg.types.builtins
const asText = (value: string) => value
const parsers: readonly (readonly [number, (value: string) => unknown])[] = [
  [TIMESTAMPTZ, asText],
  [INT8, BigInt],
  [json, asText],
  [JSONB, asText],
  [NUMERIC, asText],
]
const before = parsers.map(([type]) => [type, pg.types.getTypeParser(type)] as const)

let kit: TestKit
const server = duringTests(() => startPostgres())
beforeAll(() => {
  for (const [type, parser] of parsers) pg.types.setTypeParser(type, parser)
})
afterAll(() => {
  for (const [type, parser] of before) pg.types.setTypeParser(type, parser)
})
beforeEach(async () => {
  kit = await testKit(server)
})

test('a dead letter is listed and replayed as it came', async () => {
  const createdAt = new Date().toISOString()
  const message = {
    messageId: newMessageId(kit),
    type: 'Paid',
    aggregateType: 'order',
    aggregateId: 'a',
    createdAt,
    redelivered: false,
  }
  const failing = new Inbox({
    kit,
    consumerId: 'test',
    handlers: { Paid: () => Promise.reject(new Error('no')) },
    retry: { maxAttempts: 1 },
  })
  await failing.receive({ ...message, body: '{"n":1}', headers: { from: 'test' } })
  const [letter] = await listDeadLetters(kit)
  expect(letter).toMatchObject({ payload: { n: 1 }, headers: { from: 'test' }, diedAt: expect.any(Date) })
  expect(letter!.diedAt.getTime()).toBeGreaterThanOrEqual(Date.parse(createdAt))
  const replayed: Received[] = []
  await replayDeadLetters(kit, [letter!.id])
  expect(await replayOnce(kit, 'test', { Paid: async (_tx, received) => replayed.push(received) })).toBe(1)
  expect(replayed).toMatchObject([{ payload: { n: 1 }, headers: { from: 'test' }, createdAt }])
})

test('a dead letter of a delivery keeps its headers and properties', async () => {
  const inbox = new Inbox({ kit, consumerId: 'test', handlers: {} })
  await inbox.deliver({ body: '{}', headers: { a: 'b' }, properties: { queue: 'q' }, redelivered: false })
  expect(await listDeadLetters(kit)).toMatchObject([{ headers: { a: 'b' }, properties: { queue: 'q' } }])
  await replayDeadLetters(kit, [(await listDeadLetters(kit))[0]!.id])
  const inbound = () => ({ id: 'm', type: 'T' })
  expect(await replayOnce(kit, 'test', { T: async () => {} }, { inbound })).toBe(1)
})

test('a saga gets its input, and shows results and instants', async () => {
  const seen: unknown[] = []
  const steps = [
    { name: 'one', commit: async () => ({ n: 1 }) },
    {
      name: 'two',
      resources: () => ['shelf'],
      effect: async ({ input, results }: { input: unknown; results: unknown }) =>
        seen.push({ input, results }),
    },
    { name: 'three', maxAttempts: 2, effect: () => Promise.reject(new Error('not yet')) },
  ]
  const runner = createSagaRunner({
    kit,
    definitions: [defineSaga('order', steps)],
    lockManager: createPostgresLocks(kit),
    backoff: { initialMs: 3_600_000, maxMs: 3_600_000, jitter: 0 },
  })
  const nowMs = Date.now()
  await kit.transaction((tx) => runner.begin(tx, 'order', { sagaId: 'a', input: { amount: 7 } }))
  await runner.runOnce()
  expect(seen).toMatchObject([{ input: { amount: 7 }, results: { one: { n: 1 } } }])
  const saga = (await getSaga(kit, 'a'))!
  expect(saga).toMatchObject({ input: { amount: 7 }, steps: [{ result: { n: 1 } }, {}, { result: null }] })
  expect(saga.nextAttemptAt!.getTime()).toBeGreaterThan(nowMs + 1_000_000)
  const [listed] = await listSagas(kit)
  expect(listed!.createdAt.getTime()).toBeGreaterThanOrEqual(nowMs - 1_000)
  expect(listed!.updatedAt.getTime()).toBeGreaterThanOrEqual(listed!.createdAt.getTime())
})

test('a saga that messages drive is due at no instant', async () => {
  const request = { sagaId: 'a', step: 'pay', request: {}, leaseMs: 10_000 }
  const no = { effect: () => Promise.reject(new BusinessError('no', 'no')), commit: async () => null }
  await processSagaStep(kit, request, no)
  expect(await getSaga(kit, 'a')).toMatchObject({ nextAttemptAt: null, input: null, deadLetters: [] })
})

test('the outbox is relayed with its headers, and counted', async () => {
  const sent: OutboundMessage[] = []
  const publisher = {
    publish: async (message: OutboundMessage) => void sent.push(message),
    close: async () => {},
  }
  await kit.transaction((tx) =>
    publish(kit, tx, {
      aggregateType: 'o',
      aggregateId: 'a',
      type: 'T',
      payload: { n: 1 },
      headers: { a: 'b' },
    }),
  )
  expect(await outboxLag(kit)).toMatchObject({ pending: 1, oldestAgeMs: expect.any(Number) })
  expect(await sagaBacklog(kit, 5_000)).toMatchObject({ outboxPending: 1, sagas: { running: 0 } })
  await using relay = createOutboxRelay({ kit, publisher })
  expect(await relay.drainOnce()).toBe(1)
  expect(sent).toMatchObject([
    { body: '{"n":1}', headers: { a: 'b' }, createdAt: expect.stringMatching(/Z$/) },
  ])
})

test('a step that is recovered gets its request', async () => {
  const step = { scope: 's', key: 'k', request: { n: 1 }, leaseMs: 10_000, keepRequest: true, maxAttempts: 9 }
  const fails = { effect: () => Promise.reject(new Error('no')), commit: async () => null }
  await expect(runIdempotentStep(kit, step, fails)).rejects.toThrow('no')
  await kit.pool.query(`UPDATE ${kit.schema}.idempotency_keys SET locked_until = '-infinity'`)
  const requests: unknown[] = []
  await runRecovery(kit, { s: async ({ request }) => requests.push(request) })
  expect(requests).toEqual([{ n: 1 }])
})
