/**
 * NATS JetStream: a publisher that waits for the stream's acknowledgement, and a subscriber on a durable pull consumer.
 *
 * The message id is sent as `Nats-Msg-Id`, so the stream drops repetitions within its window; the inbox does the rest.
 * The server confirms acknowledgements (`ackAck`). While a handler runs, `working` keeps the message ours. On power
 * loss a stream loses what was not yet written, unless the server has `sync_interval: always` (or the stream has
 * replicas on several machines): no client can detect that.
 *
 * Source: NATS documentation, JetStream; jepsen.io, "NATS 2.12.1" (2025) on the default of sync_interval.
 */
import {
  AckPolicy,
  type Consumer,
  type ConsumerMessages,
  DeliverPolicy,
  type JetStreamClient,
  type JsMsg,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream'
import {
  connect,
  type NatsConnection,
  type NodeConnectionOptions,
  headers as natsHeaders,
} from '@nats-io/transport-node'
import { processClock } from '../ambient.ts'
import type { Clock } from '../core.ts'
import { BrokerUnavailableError } from '../errors.ts'
import {
  bodyOf,
  type Delivery,
  type MessagePublisher,
  type MessageSubscriber,
  propertiesOf,
} from '../messages.ts'
import { given, requirePositive } from '../option-checks.ts'
import { accessRefusal, type Deliveries, type Session, subscriberOf } from './deliveries.ts'
import { declarationRefusal, faultOf, isGone } from './nats-refusals.ts'

export type NatsOptions = { readonly connection: NodeConnectionOptions }

/** For ever, at a steady pace: the caller decides when to give up. */
const reconnecting: NodeConnectionOptions = {
  reconnect: true,
  maxReconnectAttempts: -1,
  reconnectTimeWait: 250,
  // Otherwise two refusals of the user end the connection for good.
  ignoreAuthErrorAbort: true,
  // Of one try to connect: shorter than the relay waits, which would count it against the message.
  timeout: 5_000,
}

export type NatsPublisherOptions = NatsOptions & {
  /** Time for the stream's acknowledgement. Default 5 s. */
  readonly timeoutMs?: number
}

/** The longest wait for it: together with the time for the confirm it must fit the relay's `publishTimeoutMs`. */
const lookUpMaxMs = 2_000

async function lookUp(connection: NatsConnection, subject: string, timeoutMs: number): Promise<void> {
  const timeout = Math.min(timeoutMs, lookUpMaxMs)
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout })
  await manager.streams.find(subject)
}

/** Publishes to the subject that the destination names; a stream must have it. */
export function createNatsPublisher({
  connection,
  timeoutMs = 5_000,
}: NatsPublisherOptions): MessagePublisher {
  requirePositive({ timeoutMs })
  let opened: Promise<{ connection: NatsConnection; stream: JetStreamClient }> | undefined
  const open = () => {
    opened ??= connect({ ...reconnecting, ...given(connection) }).then((made) => ({
      connection: made,
      stream: jetstream(made),
    }))
    return opened.catch((error: unknown) => {
      opened = undefined
      throw (
        accessRefusal('NATS', error) ?? new BrokerUnavailableError('NATS is out of reach', { cause: error })
      )
    })
  }
  return {
    silenceIsOutage: true,
    async publish(message) {
      const { connection, stream } = await open()
      const { destination } = message
      const sentTo = connection.info
      const headers = natsHeaders()
      for (const [name, value] of Object.entries({ ...message.headers, ...propertiesOf(message) }))
        headers.set(name, value)
      try {
        const options = { msgID: message.messageId, timeout: timeoutMs, headers, retries: 0 }
        const confirm = await stream.publish(destination, message.body, options)
        // The client takes any JSON for a confirm.
        if (typeof confirm.stream !== 'string') throw new SyntaxError('the reply names no stream')
      } catch (error) {
        throw await faultOf(error, {
          subject: destination,
          lookUp: () => lookUp(connection, destination, timeoutMs),
          isSameConnection: () =>
            connection.info?.server_id === sentTo?.server_id &&
            connection.info?.client_id === sentTo?.client_id,
        })
      }
    },
    async close() {
      const made = await opened?.catch(() => undefined)
      opened = undefined
      await made?.connection.close()
    },
  }
}

export type NatsSubscriberOptions = NatsOptions & {
  readonly stream: string
  /** Creates the stream with these `subjects` if it does not exist; default: the stream must exist. */
  readonly subjects?: readonly string[]
  /** The durable consumer's name. */
  readonly durable: string
  /** After this time a dead consumer's message is redelivered. Default 30 s. */
  readonly ackWaitMs?: number
  readonly clock?: Clock
}

export function createNatsSubscriber(options: NatsSubscriberOptions): MessageSubscriber {
  requirePositive({ ackWaitMs: options.ackWaitMs })
  return subscriberOf(
    'NATS',
    (deliveries) => new NatsSession(options, deliveries),
    (error) => declarationRefusal(options, error) ?? accessRefusal('NATS', error),
  )
}

/** JetStream's number for a consumer that is there with other settings. Servers before 2.10 change it instead. */
const consumerExists = 10148

/** Pause after a fault. */
const againMs = 250

/** How long the server keeps a pull that it has no messages for. */
const pullMs = 5_000

class NatsSession implements Session {
  readonly #options: NatsSubscriberOptions
  readonly #deliveries: Deliveries
  readonly #clock: Clock
  readonly #ackWaitMs: number
  #connection: NatsConnection | undefined
  #messages: ConsumerMessages | undefined
  #reading: Promise<void> = Promise.resolve()

  constructor(options: NatsSubscriberOptions, deliveries: Deliveries) {
    this.#options = options
    this.#deliveries = deliveries
    this.#clock = options.clock ?? processClock
    this.#ackWaitMs = options.ackWaitMs ?? 30_000
  }

  async begin(): Promise<void> {
    const connection = await connect({ ...reconnecting, ...given(this.#options.connection) })
    this.#connection = connection
    await this.#declare(connection)
    this.#reading = this.#deliveries.repeat(this.#clock, againMs, () => this.#read(connection))
  }

  async stop(): Promise<void> {
    this.#messages?.stop()
    await this.#reading
  }

  async leave(): Promise<void> {
    await this.#connection?.close()
  }

  async #declare(connection: NatsConnection): Promise<void> {
    const { stream, subjects, durable } = this.#options
    const manager = await jetstreamManager(connection)
    if (subjects !== undefined)
      await manager.streams.info(stream).catch((error: unknown) => {
        if (!isGone(error)) throw error
        return manager.streams.add({ name: stream, subjects: [...subjects] })
      })
    const changeable = {
      ack_wait: this.#ackWaitMs * 1_000_000,
      // The inbox counts attempts.
      max_deliver: -1,
      // More than are handled at once: messages that wait for their delay count as well.
      max_ack_pending: 10_000,
    }
    const fixed = { ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.All }
    try {
      await manager.consumers.add(stream, { durable_name: durable, ...fixed, ...changeable })
    } catch (error) {
      if ((error as { code?: unknown } | null)?.code !== consumerExists) throw error
      await manager.consumers.update(stream, durable, changeable)
    }
  }

  /**
   * Pulls no more messages than there is room for: one that waited in the client would count as lost after `ackWaitMs`.
   */
  async #read(connection: NatsConnection): Promise<void> {
    const deliveries = this.#deliveries
    const consumer = await this.#consumerOf(connection)
    while (!deliveries.stopped) {
      await deliveries.untilRoom()
      this.#messages = await consumer.fetch({ max_messages: deliveries.room, expires: pullMs })
      if (deliveries.stopped) this.#messages.stop()
      for await (const message of this.#messages) {
        // A pull is made anew when the client has reconnected.
        await deliveries.untilRoom()
        deliveries.begin(message, () => this.#deliver(message))
      }
    }
  }

  /** Somebody may have deleted it, or its stream: then it is declared as at the beginning, and begins where a new one does. */
  async #consumerOf(connection: NatsConnection): Promise<Consumer> {
    const { stream, durable } = this.#options
    try {
      return await jetstream(connection).consumers.get(stream, durable)
    } catch (error) {
      if (!isGone(error)) throw error
      await this.#declare(connection).catch((refusal: unknown) => {
        throw declarationRefusal(this.#options, refusal) ?? refusal
      })
      throw new Error(
        `the consumer ${durable} of the stream ${stream} was gone, and begins anew with the oldest message that the stream has; what was handled longer ago than the consumer's retentionMs is handled again`,
        { cause: error },
      )
    }
  }

  async #deliver(raw: JsMsg): Promise<void> {
    const stopKeeping = this.#keeping(raw)
    try {
      const verdict = await this.#deliveries.verdictOn(deliveryOf(raw))
      if (verdict.kind === 'again') raw.nak(Math.max(1, Math.round(verdict.delayMs)))
      else await raw.ackAck()
    } finally {
      stopKeeping()
    }
  }

  #keeping(raw: JsMsg): () => void {
    const next = () =>
      this.#clock.timer(this.#ackWaitMs / 3, () => {
        raw.working()
        timer = next()
      })
    let timer = next()
    return () => timer.cancel()
  }
}

/** The server's own headers are no part of the message; the id that it knows the message by is a property. */
function deliveryOf(raw: JsMsg): Delivery {
  const headers: Record<string, string> = {}
  for (const [name, [value]] of raw.headers ?? [])
    if (value !== undefined && !name.startsWith('Nats-')) headers[name] = value
  const id = raw.headers?.get('Nats-Msg-Id') ?? ''
  const { stream, streamSequence, timestampNanos } = raw.info
  return {
    headers,
    properties: { subject: raw.subject, ...(id === '' ? {} : { 'message-id': id }) },
    ...bodyOf(raw.data),
    redelivered: raw.redelivered,
    deliveryId: `${stream} ${streamSequence} ${timestampNanos}`,
  }
}
