// The RabbitMQ adapter, on a real node.
import amqp from 'amqplib'
import {
  createRabbitMqPublisher,
  createRabbitMqSubscriber,
} from '../../../packages/saga/src/brokers/rabbitmq.ts'
import { startRabbitMq } from '../../support/rabbitmq-server.ts'
import { brokerConformance } from './conformance.ts'

brokerConformance(
  async () => {
    const server = await startRabbitMq()
    const publisher = createRabbitMqPublisher({ url: server.url })
    const send = async (queue: string, body: Buffer, options: amqp.Options.Publish) => {
      const connection = await amqp.connect(server.url)
      const channel = await connection.createConfirmChannel()
      channel.sendToQueue(queue, body, options)
      await channel.waitForConfirms()
      await connection.close()
    }
    return {
      publisher,
      freshPublisher: () => createRabbitMqPublisher({ url: server.url }),
      sendForeign: (queue, { headers, contentType, body }) =>
        send(queue, Buffer.from(body), { headers, ...(contentType === undefined ? {} : { contentType }) }),
      sendBytes: (queue, headers, body) => send(queue, Buffer.from(body), { headers }),
      nowhere: 'no-such-queue',
      channel: async (name) => {
        const options = { url: server.url, queue: name }
        const subscriber = createRabbitMqSubscriber(options)
        // The queue must exist before something is published to it: as in a deployment, the consumer declares it.
        const first = await subscriber.subscribe(async () => ({ kind: 'again', delayMs: 0 }), {
          concurrency: 1,
          onError: () => {},
        })
        await first.close()
        return {
          destination: name,
          subscriber,
          elsewhere: {
            module: `${import.meta.dirname}/../../../packages/saga/src/brokers/rabbitmq.ts`,
            factory: 'createRabbitMqSubscriber',
            options,
          },
        }
      },
      kill: () => server.kill(),
      start: () => server.start(),
      async [Symbol.asyncDispose]() {
        await publisher.close()
        await server[Symbol.asyncDispose]()
      },
    }
  },
  { carriesBytes: true },
)
