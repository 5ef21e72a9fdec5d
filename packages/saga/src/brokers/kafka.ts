/**
 * Kafka, on @platformatic/kafka: a publisher that waits for all in-sync replicas, and a member of a consumer group.
 *
 * The application makes the client's producer and consumers (security and brokers are its own). A message is keyed by
 * its aggregate, so an aggregate stays in one partition, in order. Kafka is a log and no queue, without "again later":
 * so the member waits in place, which also keeps the order; a poison message becomes a dead letter of the inbox. The
 * offset is committed after each verdict, so only the first message of each partition after a join can be a repetition:
 * it counts as redelivered, because Kafka can't tell.
 *
 * Source: Kafka documentation, "Design: message delivery semantics"; conformance by hand, see docs/guide/saga.md.
 */
import type { Consumer, MessagesStream, Producer } from '@platformatic/kafka'
import { processClock } from '../ambient.ts'
import type { Clock } from '../core.ts'
import { BrokerUnavailableError, PublishDeferredError, PublishRefusedError } from '../errors.ts'
import {
  type Delivery,
  type MessagePublisher,
  type MessageSubscriber,
  noRoomDelayMs,
  type OutboundMessage,
  propertiesOf,
} from '../messages.ts'
import { type Deliveries, type Session, subscriberOf } from './deliveries.ts'

/** Create it with `stringSerializers`. */
export type StringProducer = Producer<string, string, string, string>

/** Create it with `stringDeserializers`. */
export type StringConsumer = Consumer<string, string, string, string>

type Stream = MessagesStream<string, string, string, string>

/** -1: all in-sync replicas. */
const acksOfAll = -1

/** Messages of one batch; the others go with the next one. */
const batchMax = 500

type Waiting = {
  readonly message: OutboundMessage
  readonly signal: AbortSignal
  readonly confirm: () => void
  readonly fail: (error: Error) => void
}

/**
 * Publishes to the topic that the destination names. Messages that arrive while a batch is in flight go with the next
 * one: a round trip for each would cost a fiftieth of a second each.
 *
 * Kafka answers for each partition, and the client fails the whole batch for one. So a topic that failed is sent alone until it takes
 * messages again: the others would wait with it, and be written once more with each try.
 */
export function createKafkaPublisher(producer: StringProducer): MessagePublisher {
  const waiting: Waiting[] = []
  /** The one that failed last is the last. */
  const failing = new Set<string>()
  let sending = false

  /** Answers why Kafka is away, where it is. */
  async function send(batch: readonly Waiting[]): Promise<BrokerUnavailableError | undefined> {
    const wanted = batch.filter(isWanted)
    if (wanted.length === 0) return undefined
    const topics = new Set(wanted.map(topicOf))
    try {
      const messages = wanted.map(({ message }) => recordOf(message))
      await producer.send({ messages, acks: acksOfAll, idempotent: true })
      for (const { confirm } of wanted) confirm()
      for (const topic of topics) failing.delete(topic)
      return undefined
    } catch (error) {
      const half = Math.ceil(wanted.length / 2)
      if (wanted.length > 1 && isRefusal(error)) {
        // One message is to blame. Kafka may have some of the others already; the inbox absorbs the repetitions.
        return await sendEach([wanted.slice(0, half), wanted.slice(half)])
      }
      if (topics.size > 1) return await sendEach(Map.groupBy(wanted, topicOf).values())
      const [topic = ''] = topics
      failing.delete(topic)
      failing.add(topic)
      const reason = translated(error, topic)
      for (const { fail } of wanted) fail(reason)
      return reason instanceof BrokerUnavailableError ? reason : undefined
    }
  }
  /** Where Kafka is away the rest is not tried: each would wait for the same. */
  async function sendEach(
    batches: Iterable<readonly Waiting[]>,
  ): Promise<BrokerUnavailableError | undefined> {
    let outage: BrokerUnavailableError | undefined
    for (const batch of batches) {
      if (outage === undefined) outage = await send(batch)
      else for (const { fail } of batch) fail(outage)
    }
    return outage
  }
  async function sendAll(): Promise<void> {
    if (sending) return
    sending = true
    while (waiting.length > 0) {
      const batch = waiting.splice(0, batchMax)
      const alone = [...failing]
      const ofTopic = Map.groupBy(batch, topicOf)
      const together = batch.filter((one) => !failing.has(topicOf(one)))
      await sendEach([together, ...alone.map((topic) => ofTopic.get(topic) ?? [])])
    }
    sending = false
  }
  return {
    silenceIsOutage: true,
    publish: (message, signal) =>
      new Promise<void>((confirm, fail) => {
        waiting.push({ message, signal, confirm, fail })
        void sendAll()
      }),
    close: () => producer.close(),
  }
}

const topicOf = ({ message }: Waiting) => message.destination

/** Behind a node that says nothing the relay gives a message up, and tries it again: only its last try is sent. */
function isWanted({ signal, fail }: Waiting): boolean {
  if (signal.aborted) fail(signal.reason)
  return !signal.aborted
}

function recordOf(message: OutboundMessage) {
  const headers = { ...message.headers, ...propertiesOf(message) }
  const key = `${message.aggregateType}/${message.aggregateId}`
  return { topic: message.destination, key, value: message.body, headers }
}

function translated(error: unknown, topic: string): Error {
  if (isRefusal(error))
    return new PublishRefusedError(`Kafka refused a message for ${topic}`, { cause: error })
  if (isNotReady(error))
    return new PublishDeferredError(
      `the topic ${topic} takes the message later: it has too few replicas in sync, or no leader now`,
      noRoomDelayMs,
      { cause: error },
    )
  return new BrokerUnavailableError('Kafka did not answer', { cause: error })
}

/** What the client itself refuses to send: to an unknown topic, for example. */
const refusedByClient = 'PLT_KFK_USER'

/** Refusals of this message or its topic, by their names in the Kafka protocol. */
const refusals: ReadonlySet<unknown> = new Set([
  'UNKNOWN_TOPIC_OR_PARTITION',
  'INVALID_TOPIC_EXCEPTION',
  'TOPIC_AUTHORIZATION_FAILED',
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_RECORD',
  'POLICY_VIOLATION',
])

/** What a node answers about a partition that can take nothing now, by the same names. Other topics may. */
const notReady: ReadonlySet<unknown> = new Set([
  'NOT_ENOUGH_REPLICAS',
  'NOT_ENOUGH_REPLICAS_AFTER_APPEND',
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_OR_FOLLOWER',
  'REQUEST_TIMED_OUT',
  'KAFKA_STORAGE_ERROR',
])

const isRefusal = (error: unknown) =>
  has(error, ({ code, apiId }) => code === refusedByClient || refusals.has(apiId))

const isNotReady = (error: unknown) => has(error, ({ apiId }) => notReady.has(apiId))

type ClientError = Partial<Record<'code' | 'apiId' | 'cause' | 'errors', unknown>>

/** The client wraps the broker's reply in errors of its own, some with several inside. */
function has(error: unknown, matches: (error: ClientError) => boolean): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { cause, errors } = error as ClientError
  return (
    matches(error) ||
    has(cause, matches) ||
    (Array.isArray(errors) && errors.some((inner) => has(inner, matches)))
  )
}

export type KafkaSubscriberOptions = {
  /** Makes a new member of the group: for each subscription, and again after a fault. The subscriber closes it. */
  readonly connect: () => StringConsumer
  readonly topics: readonly string[]
  readonly clock?: Clock
}

/** One message at a time; more members of the group handle more at once. */
export function createKafkaSubscriber(options: KafkaSubscriberOptions): MessageSubscriber {
  return subscriberOf('Kafka', (deliveries) => new KafkaSession(options, deliveries))
}

/** Pause after a fault, before the next member. */
const againMs = 250

class KafkaSession implements Session {
  readonly #options: KafkaSubscriberOptions
  readonly #deliveries: Deliveries
  readonly #clock: Clock
  #consumer: StringConsumer | undefined
  #stream: Stream | undefined
  readonly #begunPartitions = new Set<string>()
  #reading: Promise<void> = Promise.resolve()

  constructor(options: KafkaSubscriberOptions, deliveries: Deliveries) {
    this.#options = options
    this.#deliveries = deliveries
    this.#clock = options.clock ?? processClock
  }

  async begin(): Promise<void> {
    this.#stream = await this.#join()
    this.#reading = this.#deliveries.repeat(this.#clock, againMs, () => this.#read())
  }

  async stop(): Promise<void> {
    // Deliveries in flight commit on the same connection: only reading ends here.
    this.#stream?.pause()
    await this.#deliveries.allEnded()
    await this.#stream?.close().catch(this.#deliveries.report)
    await this.#reading
  }

  async leave(): Promise<void> {
    await this.#consumer?.close(true)
  }

  async #join(): Promise<Stream> {
    const consumer = this.#options.connect()
    this.#consumer = consumer
    consumer.on('consumer:group:join', () => this.#begunPartitions.clear())
    this.#begunPartitions.clear()
    return consumer.consume({
      topics: [...this.#options.topics],
      autocommit: false,
      mode: 'committed',
      fallbackMode: 'earliest',
    })
  }

  async #read(): Promise<void> {
    try {
      this.#stream ??= await this.#join()
      for await (const raw of this.#stream) {
        this.#deliveries.begin(raw, () => this.#deliver(raw))
        await this.#deliveries.allEnded()
        if (this.#deliveries.stopped) return
      }
    } finally {
      if (!this.#deliveries.stopped) await this.#abandon()
    }
  }

  async #abandon(): Promise<void> {
    const consumer = this.#consumer
    this.#stream = undefined
    this.#consumer = undefined
    await consumer?.close(true).catch(() => {})
  }

  #isFirst({ topic, partition }: Raw): boolean {
    const name = `${topic}/${partition}`
    const first = !this.#begunPartitions.has(name)
    this.#begunPartitions.add(name)
    return first
  }

  async #deliver(raw: Raw): Promise<void> {
    const delivery = deliveryOf(raw, this.#isFirst(raw))
    while (!this.#deliveries.stopped) {
      const verdict = await this.#deliveries.verdictOn(delivery)
      if (verdict.kind !== 'again') return void (await raw.commit())
      // No other delivery is in flight that could end it.
      await this.#deliveries.pause(this.#clock, verdict.delayMs)
    }
  }
}

function deliveryOf(
  { topic, partition, offset, timestamp, key, headers, value }: Raw,
  redelivered: boolean,
): Delivery {
  return {
    // A header of Kafka may have no value.
    headers: Object.fromEntries([...headers].map(([name, value]) => [name, value ?? ''])),
    properties: { topic, ...(typeof key === 'string' ? { key } : {}) },
    // A record without a value is a tombstone.
    body: value ?? '',
    redelivered,
    deliveryId: `${topic} ${partition} ${offset} ${timestamp}`,
  }
}

type Raw = {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  readonly timestamp: bigint
  readonly key: string | undefined
  readonly headers: Map<string, string | undefined>
  readonly value: string | undefined
  commit(): void | Promise<void>
}
