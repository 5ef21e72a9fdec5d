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
import { bodyOf } from '../body.ts'
import type { Clock } from '../core.ts'
import { errorText } from '../error-json.ts'
import {
  BrokerDeclarationRefusedError,
  BrokerUnavailableError,
  PublishDeferredError,
  PublishRefusedError,
} from '../errors.ts'
import {
  type Delivery,
  type MessagePublisher,
  type MessageSubscriber,
  noRoomDelayMs,
  propertiesOf,
} from '../messages.ts'
import { given, requirePositive } from '../option-checks.ts'
import { accessRefusal, type Deliveries, type Session, subscriberOf } from './deliveries.ts'

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
      const headers = natsHeaders()
      for (const [name, value] of Object.entries({ ...message.headers, ...propertiesOf(message) }))
        headers.set(name, value)
      try {
        const options = { msgID: message.messageId, timeout: timeoutMs, headers, retries: 0 }
        const confirm = await stream.publish(destination, message.body, options)
        // The client takes any JSON for a confirm.
        if (typeof confirm.stream !== 'string') throw new SyntaxError('the reply names no stream')
      } catch (error) {
        if (mayBeWithoutStream(error) && !(await mayHaveStream(connection, destination, timeoutMs)))
          throw withoutStream(destination, error)
        throw translated(error, destination)
      }
    },
    async close() {
      const made = await opened?.catch(() => undefined)
      opened = undefined
      await made?.connection.close()
    },
  }
}

/** No responder at all, none that replies, and a reply that is no confirm: a plain subscriber, a service. */
const mayBeWithoutStream = (error: unknown) => nameOf(error) === 'TimeoutError' || isNoConfirm(error)

/** The client parses what replied as JSON, and reads its members. */
const isNoConfirm = (error: unknown) => ['SyntaxError', 'TypeError', 'JetStreamError'].includes(nameOf(error))

const nameOf = (error: unknown) => String((error as { name?: unknown } | null)?.name)

/** The longest wait for it: together with the time for the confirm it must fit the relay's `publishTimeoutMs`. */
const lookUpMaxMs = 2_000

/** False only if the server says so; also where the user may not ask, its silence is no answer. */
async function mayHaveStream(
  connection: NatsConnection,
  subject: string,
  timeoutMs: number,
): Promise<boolean> {
  const timeout = Math.min(timeoutMs, lookUpMaxMs)
  try {
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout })
    await manager.streams.find(subject)
    return true
  } catch (error) {
    return nameOf(error) !== 'StreamNotFoundError'
  }
}

const withoutStream = (subject: string, cause: unknown) =>
  new PublishRefusedError(`no stream takes the subject ${subject}`, { cause })

/**
 * The message's fault: an error that the stream replied (but that it has no room), a subject without a stream (the client says "JetStream is not
 * enabled", because no server responded), what the client refuses to send, such as too large a message, and a reply
 * that no stream makes. Everything about connections and time is the broker's fault.
 */
function translated(error: unknown, subject: string): Error {
  if (nameOf(error) === 'JetStreamNotEnabled') return withoutStream(subject, error)
  if (hasNoRoom(error))
    return new PublishDeferredError(
      `the stream of ${subject} takes the message later: ${errorText(error)}`,
      noRoomDelayMs,
      { cause: error },
    )
  const refused = ['JetStreamApiError', 'InvalidArgumentError', 'InvalidSubjectError'].includes(nameOf(error))
  if (refused || isNoConfirm(error))
    return new PublishRefusedError(`NATS refused a message for ${subject}: ${errorText(error)}`, {
      cause: error,
    })
  return new BrokerUnavailableError('NATS did not answer', { cause: error })
}

/** 5xx: the stream is full (`discard: new`), out of storage, or has no leader. What is wrong with a message is 4xx. */
function hasNoRoom(error: unknown): boolean {
  return nameOf(error) === 'JetStreamApiError' && Number((error as { status?: unknown }).status) >= 500
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

/** The server, or the client for it, refuses the stream or the consumer as it is declared here: it is not out of reach. */
function declarationRefusal({ stream, durable }: NatsSubscriberOptions, error: unknown): Error | undefined {
  if (!declarationErrors.includes(nameOf(error))) return undefined
  return new BrokerDeclarationRefusedError(
    `NATS refuses the consumer ${durable} of the stream ${stream} (${errorText(error)}); create the stream, or name its subjects, which no other stream may have`,
    { cause: error },
  )
}

const declarationErrors = [
  'JetStreamApiError',
  'JetStreamNotEnabled',
  'StreamNotFoundError',
  'InvalidArgumentError',
  'InvalidNameError',
]

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
      await manager.streams
        .info(stream)
        .catch(() => manager.streams.add({ name: stream, subjects: [...subjects] }))
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
    const { stream, durable } = this.#options
    const deliveries = this.#deliveries
    const consumer = await jetstream(connection).consumers.get(stream, durable)
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
