/**
 * Kafka, on @platformatic/kafka: **unchecked**. It is written against the types of that client and has never met a broker,
 * because none can be had where this project is tested. Run the conformance suite before relying on it.
 *
 * The application makes the client's producer and consumer (security and brokers are its own) and hands them over. A
 * message is keyed by its aggregate, so that an aggregate stays in one partition, in order. Kafka knows no "again later":
 * the partition waits where it is, which also keeps the order; a poison message ends as a dead letter of the inbox.
 */
import type { Consumer, Producer } from '@platformatic/kafka'
import type { Clock } from '../../core/ports.ts'
import { pause } from '../../core/retry.ts'
import { keepProcessAlive, processClock } from '../ambient.ts'
import { BrokerUnavailableError, PublishRefusedError } from '../errors.ts'
import { inboundFrom, type MessagePublisher, type MessageSubscriber, propertiesOf } from '../messages.ts'

/** Made with `stringSerializers`. */
export type StringProducer = Producer<string, string, string, string>

/** Made with `stringDeserializers`. */
export type StringConsumer = Consumer<string, string, string, string>

/** -1: all in-sync replicas have it. */
const acksOfAll = -1

/** Publishes to the topic that the destination names. */
export function createKafkaPublisher(producer: StringProducer): MessagePublisher {
  return {
    async publish(message) {
      const headers = { ...message.headers, ...propertiesOf(message) }
      const key = `${message.aggregateType}/${message.aggregateId}`
      try {
        await producer.send({
          messages: [{ topic: message.destination, key, value: message.body, headers }],
          acks: acksOfAll,
          idempotent: true,
        })
      } catch (error) {
        const { canRetry } = error as { canRetry?: unknown }
        if (canRetry === false)
          throw new PublishRefusedError(`Kafka refused a message for ${message.destination}`, {
            cause: error,
          })
        throw new BrokerUnavailableError('Kafka did not answer', { cause: error })
      }
    },
    close: () => producer.close(),
  }
}

export type KafkaSubscriberOptions = {
  readonly consumer: StringConsumer
  readonly topics: readonly string[]
  readonly clock?: Clock
}

/** One message at a time; more at once by more members of the group. The offset is committed after the verdict. */
export function createKafkaSubscriber({
  consumer,
  topics,
  clock = processClock,
}: KafkaSubscriberOptions): MessageSubscriber {
  return {
    async subscribe(handle, { onError }) {
      const stream = await consumer.consume({
        topics: [...topics],
        autocommit: false,
        mode: 'committed',
        fallbackMode: 'earliest',
      })
      const release = keepProcessAlive()
      let closed = false
      const reading = (async () => {
        for await (const raw of stream) {
          const message = inboundFrom(Object.fromEntries(raw.headers), raw.value, false)
          for (;;) {
            const verdict = message === undefined ? ({ kind: 'ack' } as const) : await handle(message)
            if (verdict.kind === 'ack') {
              await raw.commit()
              break
            }
            if (closed) return
            await pause(clock, verdict.delayMs)
          }
          if (closed) return
        }
      })().catch(onError)
      return {
        async close() {
          closed = true
          await stream.close()
          await reading
          await consumer.close()
          release()
        },
      }
    },
  }
}
