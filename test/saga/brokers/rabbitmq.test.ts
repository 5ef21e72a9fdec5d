// The RabbitMQ adapter, on a real node.
import {
  createRabbitMqPublisher,
  createRabbitMqSubscriber,
} from '../../../packages/saga/src/brokers/rabbitmq.ts'
import { startRabbitMq } from '../../support/rabbitmq-server.ts'
import { brokerConformance } from './conformance.ts'

brokerConformance(async () => {
  const server = await startRabbitMq()
  const publisher = createRabbitMqPublisher({ url: server.url })
  return {
    publisher,
    freshPublisher: () => createRabbitMqPublisher({ url: server.url }),
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
})
