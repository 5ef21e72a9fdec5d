// What only RabbitMQ can do to a message or to its consumer, on a real node.
import amqp from 'amqplib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createRabbitMqPublisher, createRabbitMqSubscriber } from '../../../src/saga/brokers/rabbitmq.ts'
import type { InboundMessage } from '../../../src/saga/messages.ts'
import { openDoor } from '../../support/door.ts'
import { eventually } from '../../support/eventually.ts'
import { type RabbitMqServer, startRabbitMq } from '../../support/rabbitmq-server.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { outbound } from './conformance.ts'

let server: RabbitMqServer
beforeAll(async () => {
  server = await startRabbitMq()
}, 120_000)
afterAll(() => server?.[Symbol.asyncDispose]())

const settings = { concurrency: 10, onError: () => {} }

test('somebody deletes the queue of those that are to come again: no message is lost with it', async () => {
  const got: InboundMessage[] = []
  const admin = await amqp.connect(server.url)
  const channel = await admin.createChannel()
  const subscription = await createRabbitMqSubscriber({ url: server.url, queue: 'deleted' }).subscribe(
    async (message) => {
      got.push(message)
      if (got.length > 1) return { kind: 'ack' }
      await channel.deleteQueue('deleted.again.100ms')
      return { kind: 'again', delayMs: 100 }
    },
    settings,
  )
  const publisher = createRabbitMqPublisher({ url: server.url })
  try {
    await publisher.publish(outbound('deleted', 1), new AbortController().signal)
    await eventually('the message to come again', () => got.length === 2, { withinMs: 10_000 })
    expect(got[1]!.messageId).toBe(got[0]!.messageId)
  } finally {
    await subscription.close()
    await publisher.close()
    await admin.close()
  }
})

test('closed while it connects again: it takes no message any more, and leaves no connection behind', async () => {
  const clock = new VirtualClock()
  const door = await openDoor({ host: '127.0.0.1', port: server.port })
  const url = server.url.replace(/:\d+$/, `:${door.port}`)
  const subscriber = createRabbitMqSubscriber({ url, queue: 'closed', clock })
  const subscription = await subscriber.subscribe(async () => ({ kind: 'ack' }), settings)
  door.turn('held')
  await eventually('the next try', () => clock.pendingTimers > 0)
  await clock.advance(500)
  await eventually('it to be on its way', () => door.attempts() === 2)
  await subscription.close()
  door.turn('open')
  await eventually('nobody inside', () => door.inside() === 0, { withinMs: 10_000 })
})
