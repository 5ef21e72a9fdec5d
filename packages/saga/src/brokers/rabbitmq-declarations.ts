/**
 * What a subscriber declares on RabbitMQ: its quorum queue, one delay queue for each delay, its bindings.
 *
 * Owns the arguments of queues, and what becomes of a queue that is there with others.
 * Source: RabbitMQ documentation, "Quorum Queues" (delivery limit) and "Single Active Consumer".
 */
import { type Link, laneOn, type Route } from './rabbitmq-link.ts'
import { lacksDeliveryLimit, limitedDeliveries } from './rabbitmq-refusals.ts'

export type Declaration = {
  /** Declared as a durable quorum queue, beside one delay queue for each delay. */
  readonly queue: string
  /**
   * Of all processes that consume the queue one gets its messages, and the next one after its end: the order then holds across
   * processes. For a queue that does not exist yet, because RabbitMQ changes it for none. Default false.
   */
  readonly singleActiveConsumer?: boolean
  /** Bound to the queue; the exchanges must exist. */
  readonly bindings?: readonly Route[]
}

export const delayQueue = (queue: string, delayMs: number) => `${queue}.again.${delayMs}ms`

/** The queue, its delay queues and its bindings. `report` gets what is used as it is, though it should be otherwise. */
export async function declare(
  link: Link,
  { queue, singleActiveConsumer = false, bindings = [] }: Declaration,
  report: (error: unknown) => void,
): Promise<void> {
  const { channel } = link
  const quorum = { 'x-queue-type': 'quorum' }
  const order = singleActiveConsumer ? { 'x-single-active-consumer': true } : {}
  await declareQueue(link, queue, { ...quorum, ...order }, report)
  for (const delayMs of delayBucketsMs)
    await channel.assertQueue(delayQueue(queue, delayMs), {
      durable: true,
      arguments: {
        ...quorum,
        'x-message-ttl': delayMs,
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': queue,
        'x-dead-letter-strategy': 'at-least-once',
        'x-overflow': 'reject-publish',
      },
    })
  for (const { exchange, routingKey } of bindings) await channel.bindQueue(queue, exchange, routingKey)
}

/**
 * From 4.0 on a quorum queue drops a message after 20 deliveries; here the inbox counts attempts. A queue that was declared by an
 * earlier RabbitMQ keeps the arguments that it has, so it is used as it is, and only a policy can lift its limit.
 */
async function declareQueue(
  { model, channel }: Link,
  queue: string,
  own: Record<string, unknown>,
  report: (error: unknown) => void,
): Promise<void> {
  const version = String(model.connection.serverProperties.version ?? '')
  if (Number.parseInt(version, 10) >= 4) {
    // The node closes the channel of what it refuses.
    const trial = await laneOn(model)
    const unlimited = { durable: true, arguments: { ...own, 'x-delivery-limit': -1 } }
    try {
      return void (await trial.channel.assertQueue(queue, unlimited))
    } catch (error) {
      if (!lacksDeliveryLimit(error)) throw error
      report(limitedDeliveries(queue, error))
    } finally {
      await trial.channel.close().catch(() => {})
    }
  }
  await channel.assertQueue(queue, { durable: true, arguments: own })
}

/**
 * Fixed delays for brokers that can't delay a single message: the largest one that is not above the requested delay.
 *
 * A message that returns too early does no harm: the inbox knows when its next attempt is due, and sends it away again.
 * A queue for every possible delay would do harm.
 */
const delayBucketsMs = [100, 1_000, 5_000, 30_000, 300_000] as const

export function delayBucketMs(delayMs: number): number {
  return delayBucketsMs.findLast((bucketMs) => bucketMs <= delayMs) ?? delayBucketsMs[0]
}
