// The Kafka adapter, on a real node. By hand, because it needs Java and the jars of Kafka: see docs/guide/saga.md.
import { Admin } from '@platformatic/kafka'
import { createKafkaPublisher } from '../../../packages/saga/src/brokers/kafka.ts'
import type { MessagePublisher } from '../../../packages/saga/src/messages.ts'
import { eventually } from '../../support/eventually.ts'
import { createKafkaSubscriberFor, kafkaProducer } from '../../support/kafka-elsewhere.ts'
import { startKafka } from '../../support/kafka-server.ts'
import { brokerConformance, outbound } from './conformance.ts'

/** The relay of a test closes its publisher, and a producer of this client never opens again: the next test gets a new one. */
function reopening(open: () => MessagePublisher): MessagePublisher {
  let current = open()
  return {
    ...current,
    publish: (message, signal) => current.publish(message, signal),
    close: async () => {
      const closing = current
      current = open()
      await closing.close()
    },
  }
}

brokerConformance(async () => {
  const server = await startKafka()
  const { address } = server
  const admin = new Admin({ clientId: 'test', bootstrapBrokers: [address] })
  const publisher = reopening(() => createKafkaPublisher(kafkaProducer(address)))
  await admin.createTopics({ topics: ['warm-up'], partitions: 1, replicas: 1 })
  // A node that has just been made listens before it has coordinators.
  await eventually(
    'a node that takes messages',
    async () => {
      await publisher.publish(outbound('warm-up', 0), new AbortController().signal)
      return true
    },
    { withinMs: 60_000, everyMs: 200 },
  )
  return {
    publisher,
    freshPublisher: () => createKafkaPublisher(kafkaProducer(address)),
    sendForeign: async (topic, { headers, contentType, body }) => {
      const producer = kafkaProducer(address)
      const sent = contentType === undefined ? headers : { ...headers, 'content-type': contentType }
      await producer.send({ messages: [{ topic, value: body, headers: sent }], acks: -1 })
      await producer.close()
    },
    nowhere: 'no-such-topic',
    isLog: true,
    channel: async (topic) => {
      await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 })
      const options = { address, topic }
      return {
        destination: topic,
        subscriber: createKafkaSubscriberFor(options),
        elsewhere: {
          module: `${import.meta.dirname}/../../support/kafka-elsewhere.ts`,
          factory: 'createKafkaSubscriberFor',
          options,
        },
      }
    },
    kill: () => server.kill(),
    start: () => server.start(),
    async [Symbol.asyncDispose]() {
      await publisher.close()
      await admin.close()
      await server[Symbol.asyncDispose]()
    },
  }
})
