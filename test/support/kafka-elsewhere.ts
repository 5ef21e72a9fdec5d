/**
 * Kafka's producer and subscriber from options that JSON can carry: for the conformance suite, here and in a process of
 * its own.
 */

import { createKafkaSubscriber, type StringProducer } from '@fencepost/saga/kafka'
import { Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'

/** Faults are reported early: the suite waits for them. */
const impatient = {
  connectTimeout: 1_000,
  requestTimeout: 2_000,
  timeout: 2_000,
  retries: 1,
  retryDelay: 100,
}

export function kafkaProducer(address: string): StringProducer {
  return new Producer({
    clientId: 'test',
    bootstrapBrokers: [address],
    serializers: stringSerializers,
    strict: false,
    ...impatient,
  })
}

export function createKafkaSubscriberFor({ address, topic }: { address: string; topic: string }) {
  return createKafkaSubscriber({
    topics: [topic],
    connect: () =>
      new Consumer({
        clientId: 'test',
        groupId: `group-${topic}`,
        bootstrapBrokers: [address],
        deserializers: stringDeserializers,
        sessionTimeout: 1_000,
        heartbeatInterval: 200,
        rebalanceTimeout: 2_000,
        maxWaitTime: 200,
        ...impatient,
        // A node that has just started has no coordinator for a while.
        retries: 50,
      }),
  })
}
