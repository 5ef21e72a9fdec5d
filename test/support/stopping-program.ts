/**
 * A program that starts one thing of the saga kit, uses it once, stops it and ends its pool. It calls no process.exit: it
 * ends when nothing is left that keeps it.
 *
 *     node test/support/stopping-program.ts KIND '{"url": …}'
 */
import { createServer } from 'node:http'
import {
  createConsumer,
  createOutboxRelay,
  createSagaKit,
  createSagaRunner,
  defineSaga,
  type MessagePublisher,
  type MessageSubscriber,
  migrate,
  publish,
  wakeOnNotify,
} from '@fencepost/saga'
import { createMailboxPublisher, createMailboxSubscriber } from '@fencepost/saga/mailbox'
import { createNatsPublisher, createNatsSubscriber } from '@fencepost/saga/nats'
import { createRabbitMqPublisher, createRabbitMqSubscriber } from '@fencepost/saga/rabbitmq'
import { createRedisStreamsPublisher, createRedisStreamsSubscriber } from '@fencepost/saga/redis-streams'
import { createWebhookPublisher, createWebhookReceiver } from '@fencepost/saga/webhook'
import pg from 'pg'
import { listening } from './listening.ts'

const [kind = '', broker = ''] = process.argv.slice(2)
const url = process.env.DATABASE_URL ?? ''
const pool = new pg.Pool({ connectionString: url })
const kit = createSagaKit({ pool, schema: `stopping_${kind.replaceAll('-', '_')}` })
await migrate(kit)

/** One event through relay and consumer; then both are stopped, in this order. */
async function through(destination: string, publisher: MessagePublisher, subscriber: MessageSubscriber) {
  const handled = Promise.withResolvers<void>()
  const consumer = await createConsumer({
    kit,
    subscriber,
    consumerId: kind,
    handlers: { Happened: async () => handled.resolve() },
  })
  const relay = createOutboxRelay({ kit, publisher, pollIntervalMs: 10 })
  relay.start()
  const notified = await wakeOnNotify(kit, relay, { connectionString: url })
  const event = { aggregateType: 'thing', aggregateId: '1', type: 'Happened', payload: {}, destination }
  await kit.transaction((tx) => publish(kit, tx, event))
  await handled.promise
  await notified[Symbol.asyncDispose]()
  // Both twice: a shutdown often has two causes.
  await Promise.all([relay.stop(), relay.stop(), consumer.stop(), consumer.stop()])
}

switch (kind) {
  case 'mailbox':
    await through('q', createMailboxPublisher(kit), createMailboxSubscriber({ kit, queue: 'q' }))
    break
  case 'rabbitmq':
    await through(
      'q',
      createRabbitMqPublisher({ url: broker }),
      createRabbitMqSubscriber({ url: broker, queue: 'q' }),
    )
    break
  case 'nats': {
    const connection = { servers: broker }
    await through(
      'stopping.q',
      createNatsPublisher({ connection }),
      createNatsSubscriber({ connection, stream: 'stopping', subjects: ['stopping.q'], durable: 'd' }),
    )
    break
  }
  case 'redis-streams':
    await through(
      'q',
      createRedisStreamsPublisher({ url: broker }),
      createRedisStreamsSubscriber({ url: broker, stream: 'q', group: 'g' }),
    )
    break
  case 'webhook': {
    const subscriber = createWebhookReceiver({})
    const server = createServer(subscriber.listener)
    const { port } = await listening(server)
    await through(`http://127.0.0.1:${port}/`, createWebhookPublisher({}), subscriber)
    server.close()
    break
  }
  case 'runner': {
    const ended = Promise.withResolvers<void>()
    const runner = createSagaRunner({
      kit,
      definitions: [defineSaga('one', [{ name: 'only', commit: async () => ended.resolve() }])],
    })
    runner.start()
    await kit.transaction((tx) => runner.begin(tx, 'one', { sagaId: 's-1', input: {} }))
    await ended.promise
    await Promise.all([runner.stop(), runner.stop()])
    break
  }
  default:
    throw new Error(`no kind ${kind}`)
}
await pool.end()
console.log('stopped')
