// What a consumer does while the node has an alarm and takes no publishes.
import amqp from 'amqplib'
import { test } from 'vitest'
import {
  createRabbitMqPublisher,
  createRabbitMqSubscriber,
} from '../../../packages/saga/src/brokers/rabbitmq.ts'
import { duringTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { startRabbitMq } from '../../support/rabbitmq-server.ts'
import { outbound } from './conformance.ts'

const server = duringTests(() => startRabbitMq(), 300_000)

// Bug: a retry was published on the connection that consumes, which the node then read no more: no acknowledgement arrived, and close waited for ever.
test('while the node has an alarm, messages are acknowledged beside one that is to be retried, and close ends', async () => {
  const publisher = createRabbitMqPublisher({ url: server.url })
  const got: string[] = []
  const subscription = await createRabbitMqSubscriber({ url: server.url, queue: 'alarmed' }).subscribe(
    async ({ body }) => {
      got.push(body)
      if (got.length === 1) await server.memoryAlarm(true)
      return body === '{"n":1}' ? { kind: 'again', delayMs: 100 } : { kind: 'ack' }
    },
    { concurrency: 2, onError: () => {} },
  )
  const admin = await amqp.connect(server.url)
  const channel = await admin.createChannel()
  try {
    const signal = new AbortController().signal
    await Promise.all([1, 2, 3].map((n) => publisher.publish(outbound('alarmed', n), signal)))
    await eventually('the others', () => got.includes('{"n":3}'), { withinMs: 10_000 })
    await subscription.close()
    await eventually(
      'one message to be left',
      async () => (await channel.checkQueue('alarmed')).messageCount === 1,
    )
  } finally {
    await server.memoryAlarm(false)
    await publisher.close()
    await admin.close()
  }
})
