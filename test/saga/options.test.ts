// Options: undefined is the default, and a number that makes no sense is an error before anything begins.
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import {
  createMailboxPublisher,
  createMailboxSubscriber,
  type MailboxOptions,
} from '../../packages/saga/src/brokers/mailbox.ts'
import { createNatsPublisher, createNatsSubscriber } from '../../packages/saga/src/brokers/nats.ts'
import {
  createRabbitMqPublisher,
  createRabbitMqSubscriber,
} from '../../packages/saga/src/brokers/rabbitmq.ts'
import {
  createRedisStreamsPublisher,
  createRedisStreamsSubscriber,
} from '../../packages/saga/src/brokers/redis-streams.ts'
import { createWebhookPublisher, createWebhookReceiver } from '../../packages/saga/src/brokers/webhook.ts'
import { type ConsumerOptions, createConsumer } from '../../packages/saga/src/consumer.ts'
import { listDeadLetters } from '../../packages/saga/src/dead-letters.ts'
import { SagaConfigError } from '../../packages/saga/src/errors.ts'
import { runHousekeeping, runRetention } from '../../packages/saga/src/housekeeping.ts'
import { withIdempotency } from '../../packages/saga/src/idempotency.ts'
import { createSagaKit, type RetentionOptions } from '../../packages/saga/src/kit.ts'
import { withLocks } from '../../packages/saga/src/locks.ts'
import { publish } from '../../packages/saga/src/outbox.ts'
import { createPostgresLocks } from '../../packages/saga/src/postgres-locks.ts'
import { runRecovery } from '../../packages/saga/src/recovery.ts'
import { createOutboxRelay, type RelayOptions } from '../../packages/saga/src/relay.ts'
import { defineSaga } from '../../packages/saga/src/saga-definition.ts'
import { createSagaRunner } from '../../packages/saga/src/saga-runner.ts'
import { runIdempotentStep } from '../../packages/saga/src/step.ts'
import type { StepRequest } from '../../packages/saga/src/step-definition.ts'
import type { TransactionOptions } from '../../packages/saga/src/transaction.ts'
import type { Clock } from '../../src/core/clock.ts'
import { systemClock } from '../../src/system/clock.ts'
import { duringTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { RecordingPublisher } from '../support/recording-publisher.ts'
import { orderEvent, testKit } from '../support/saga-kit.ts'

// It connects to nothing: options are looked at first.
const kit = createSagaKit({ pool: new pg.Pool(), events: () => {} })
const publisher = new RecordingPublisher()
const subscriber = { subscribe: async () => ({ close: async () => {} }) }
const connection = { servers: 'nats://127.0.0.1:1' }
const step = { name: 'one', commit: async () => 1 }

const relay = (options: Partial<RelayOptions>) => createOutboxRelay({ kit, publisher, ...options })
const consumer = (options: Partial<ConsumerOptions>) =>
  createConsumer({ kit, consumerId: 'c', subscriber, handlers: {}, ...options })
const runner = (options: object) => createSagaRunner({ kit, definitions: [], ...options })
const transaction = (options: TransactionOptions) => kit.transaction(async () => {}, options)
const mailbox = (options: Partial<MailboxOptions>) => createMailboxSubscriber({ kit, queue: 'q', ...options })
const nats = (ackWaitMs: number) => createNatsSubscriber({ connection, stream: 's', durable: 'd', ackWaitMs })
const redis = (visibilityMs: number) =>
  createRedisStreamsSubscriber({ url: 'redis://x', stream: 's', group: 'g', visibilityMs })
const once = (ttlMs: number) =>
  withIdempotency(kit, { scope: 's', key: 'k', request: {}, ttlMs }, async () => {})
const own = (options: Partial<StepRequest>) =>
  runIdempotentStep(
    kit,
    { scope: 's', key: 'k', request: {}, leaseMs: 1_000, ...options },
    { effect: async () => {}, commit: async () => {} },
  )
const locks = (leaseMs: number) =>
  withLocks(kit, createPostgresLocks(kit), ['a'], { leaseMs }, async () => {})
const retention = (options: RetentionOptions) => runRetention(kit, options)

describe('a number that makes no sense is refused, and named', () => {
  test.each<[string, () => unknown]>([
    ['batchSize: 0', () => relay({ batchSize: 0 })],
    ['batchSize: 1.5', () => relay({ batchSize: 1.5 })],
    ['pollIntervalMs: 0', () => relay({ pollIntervalMs: 0 })],
    ['leaseMs: NaN', () => relay({ leaseMs: Number.NaN })],
    ['publishTimeoutMs: -1', () => relay({ publishTimeoutMs: -1 })],
    ['retry.maxAttempts: NaN', () => relay({ retry: { maxAttempts: Number.NaN } })],
    ['retry.backoff.maxMs: NaN', () => relay({ retry: { backoff: { initialMs: 1, maxMs: Number.NaN } } })],
    ['retry.backoff.jitter: 2', () => relay({ retry: { backoff: { initialMs: 1, maxMs: 1, jitter: 2 } } })],
    ['concurrency: 0', () => consumer({ concurrency: 0 })],
    ['concurrency: NaN', () => consumer({ concurrency: Number.NaN })],
    ['replayIntervalMs: 0', () => consumer({ replayIntervalMs: 0 })],
    ['retentionMs: NaN', () => consumer({ retentionMs: Number.NaN })],
    ['retryInPlaceMs: -1', () => consumer({ retryInPlaceMs: -1 })],
    ['retry.maxAttempts: 0', () => consumer({ retry: { maxAttempts: 0 } })],
    ['retry.backoff.initialMs: -1', () => consumer({ retry: { backoff: { initialMs: -1, maxMs: 1 } } })],
    ['retry.maxAttempts of A: 0', () => consumer({ retry: { byType: { A: { maxAttempts: 0 } } } })],
    ['quorum.leaseMs: 0', () => consumer({ quorum: { client: {} as never, leaseMs: 0 } })],
    ['concurrency: -1', () => runner({ concurrency: -1 })],
    ['pollIntervalMs: NaN', () => runner({ pollIntervalMs: Number.NaN })],
    ['backoff.maxMs: Infinity', () => runner({ backoff: { initialMs: 1, maxMs: Number.POSITIVE_INFINITY } })],
    ['marginMs: -1', () => runner({ marginMs: -1 })],
    ['keepMs: NaN', () => runner({ keepMs: Number.NaN })],
    ['leaseMs of step one of saga s: 0', () => defineSaga('s', [{ ...step, leaseMs: 0 }])],
    ['maxAttempts of step one of saga s: 0', () => defineSaga('s', [{ ...step, maxAttempts: 0 }])],
    ['ttlMs: -1', () => once(-1)],
    ['ttlMs: 0', () => own({ ttlMs: 0 })],
    ['leaseMs: NaN', () => own({ leaseMs: Number.NaN })],
    ['maxAttempts: 0', () => own({ maxAttempts: 0 })],
    ['leaseMs: -1', () => locks(-1)],
    ['batchSize: 0', () => retention({ batchSize: 0 })],
    ['maxBatches: NaN', () => retention({ maxBatches: Number.NaN })],
    ['deadLettersMs: -1', () => retention({ deadLettersMs: -1 })],
    ['housekeeping.batchSize: 0', () => runHousekeeping(kit, { batchSize: 0 })],
    ['limit: 0', () => runRecovery(kit, {}, 0)],
    ['retry.maxAttempts: 0', () => transaction({ retry: { maxAttempts: 0 } })],
    ['connectionWaitMs: NaN', () => createSagaKit({ pool: kit.pool, connectionWaitMs: Number.NaN })],
    ['pollIntervalMs: 0', () => mailbox({ pollIntervalMs: 0 })],
    ['visibilityMs: NaN', () => mailbox({ visibilityMs: Number.NaN })],
    ['timeoutMs: 0', () => createNatsPublisher({ connection, timeoutMs: 0 })],
    ['ackWaitMs: -1', () => nats(-1)],
    ['aboutMaxLength: 0', () => createRedisStreamsPublisher({ url: 'redis://x', aboutMaxLength: 0 })],
    ['visibilityMs: 0', () => redis(0)],
    [
      'heartbeatSeconds: NaN',
      () => createRabbitMqPublisher({ url: 'amqp://x', heartbeatSeconds: Number.NaN }),
    ],
    ['heartbeatSeconds: -1', () => createRabbitMqSubscriber({ url: 'x', queue: 'q', heartbeatSeconds: -1 })],
    ['maxBodyBytes: 0', () => createWebhookReceiver({ maxBodyBytes: 0 })],
    ['bodyTimeoutMs: 0', () => createWebhookReceiver({ bodyTimeoutMs: 0 })],
    ['secret: a text of 0 bytes', () => createWebhookReceiver({ secret: '' })],
    ['secret: a text of 5 bytes', () => createWebhookPublisher({ secret: 'short' })],
    ['secret: a key of 3 bytes', () => createWebhookReceiver({ secret: 'whsec_c2hv' })],
    [
      'secret: what follows whsec_ is no base64',
      () => createWebhookReceiver({ secret: 'whsec_a key that nobody encoded at all' }),
    ],
  ])('%s', async (words, make) => {
    const error = await (async () => make())().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(SagaConfigError)
    expect((error as Error).message).toContain(words)
    expect((error as Error).message).toMatch(/\(.* expected\)$/)
  })
})

describe('an option that is undefined has its default', () => {
  const server = duringTests(() => startPostgres())

  /** Every option but those of `more` is there, and undefined. */
  const undefinedBut = <T extends object>(names: readonly string[], more: T): T => ({
    ...Object.fromEntries(names.map((name) => [name, undefined])),
    ...more,
  })
  function recordingClock() {
    const delays: number[] = []
    const clock: Clock = {
      ...systemClock,
      timer: (delayMs, fire) => {
        delays.push(delayMs)
        return systemClock.timer(delayMs, fire)
      },
    }
    return { clock, delays }
  }

  test('of a relay, a mailbox and a consumer: they work, and wait as long as they say', async () => {
    const { clock, delays } = recordingClock()
    const own = await testKit(server, { clock, housekeeping: false })
    let handled = 0
    await using _consumer = await createConsumer(
      undefinedBut(['concurrency', 'replayIntervalMs', 'retentionMs', 'retryInPlaceMs', 'onExhausted'], {
        kit: own,
        consumerId: 'c',
        subscriber: createMailboxSubscriber(
          undefinedBut(['pollIntervalMs', 'visibilityMs'], { kit: own, queue: 'orders' }),
        ),
        retry: { maxAttempts: undefined, backoff: undefined, byType: { Placed: { maxAttempts: undefined } } },
        handlers: {
          Placed: async () => {
            handled += 1
            if (handled === 1) throw new Error('once')
          },
        },
      } as unknown as ConsumerOptions),
    )
    await using own2 = createOutboxRelay(
      undefinedBut(
        ['relayId', 'batchSize', 'pollIntervalMs', 'leaseMs', 'publishTimeoutMs', 'retry', 'onExhausted'],
        { kit: own, publisher: createMailboxPublisher(own) },
      ),
    )
    const event = orderEvent('Placed', 'a', { destination: 'orders' })
    await own.transaction((tx) => publish(own, tx, event))
    own2.start()
    await eventually('the message to be handled at its second attempt', () => handled === 2)
    expect(delays.filter((delayMs) => !(delayMs >= 0))).toEqual([])
    expect(delays).toEqual(expect.arrayContaining([100, 1_000, 10_000]))
  })

  test('of a relay that parks: its aggregate waits, as by default', async () => {
    const own = await testKit(server, { housekeeping: false })
    const refusing = new RecordingPublisher()
    refusing.react = () => 'refuse'
    const options = { kit: own, publisher: refusing, retry: { maxAttempts: 1 }, onExhausted: undefined }
    await using own2 = createOutboxRelay(options as unknown as RelayOptions)
    const event = { aggregateType: 'order', aggregateId: 'a', type: 'Placed', payload: {} }
    await own.transaction(async (tx) => {
      await publish(own, tx, event)
      await publish(own, tx, event)
    })
    await own2.drainOnce()
    await own2.drainOnce()
    expect(await listDeadLetters(own)).toHaveLength(1)
  })

  test('of a transaction', async () => {
    const own = await testKit(server, { housekeeping: false })
    let runs = 0
    const retry = { maxAttempts: undefined, sqlStates: undefined, backoff: undefined }
    const options = { isolation: undefined, onRetry: undefined, retry } as unknown as TransactionOptions
    await own.transaction(async () => {
      runs += 1
      if (runs === 1) throw Object.assign(new Error('could not serialize'), { code: '40001' })
    }, options)
    expect(runs).toBe(2)
    expect(own.seenOf('transaction_retried')).toHaveLength(1)
  })
})
