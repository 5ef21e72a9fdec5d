/**
 * RabbitMQ: a publisher that trusts only confirms, and a subscriber on a quorum queue.
 *
 * A publish is `mandatory`: a message that no queue takes is returned and then confirmed all the same, so the return
 * decides. When the node closes the channel (no such exchange, too large), every message in flight is sent once more on
 * a channel of its own, which shows the one to blame. "Again later" is a copy into a delay queue (fixed time to live,
 * dead-lettered back into the main queue, at least once), confirmed before the original is acknowledged
 * (`rabbitmq-copies.ts`); this needs RabbitMQ 3.10, and leaves counting attempts to the inbox. Connections (`rabbitmq-link.ts`) are made when needed, and
 * forgotten when they break.
 *
 * Source: RabbitMQ documentation, "Consumer Acknowledgements and Publisher Confirms", "Quorum Queues".
 */
import type { ConsumeMessage, Options } from 'amqplib'
import { processClock } from '../ambient.ts'
import type { Clock } from '../core.ts'
import { pause } from '../core.ts'
import { BrokerUnavailableError, PublishRefusedError } from '../errors.ts'
import {
  type MessagePublisher,
  type MessageSubscriber,
  type OutboundMessage,
  propertiesOf,
} from '../messages.ts'
import { requireNotNegative } from '../option-checks.ts'
import { type Deliveries, type Session, subscriberOf } from './deliveries.ts'
import { Copies, NotCopiedError } from './rabbitmq-copies.ts'
import { type Declaration, declare } from './rabbitmq-declarations.ts'
import { deliveryOf } from './rabbitmq-delivery.ts'
import {
  ChannelRefusedError,
  confirmed,
  connect,
  type Lane,
  type Link,
  laneOn,
  type RabbitMqOptions,
  type Route,
} from './rabbitmq-link.ts'
import { refusalOf } from './rabbitmq-refusals.ts'

export type { Route }

export type RabbitMqPublisherOptions = RabbitMqOptions & {
  /** Default: the queue that the destination names, over the default exchange. */
  readonly route?: (message: OutboundMessage) => Route
}

/**
 * The channel of a destination whose queue has lost its majority: RabbitMQ confirms nothing then, and a channel that has waited for the
 * queue may get no confirm of it when the majority is back, while a new one does.
 */
type Apart = { readonly opening: Promise<Lane>; lane: Lane | undefined }

export function createRabbitMqPublisher(options: RabbitMqPublisherOptions): MessagePublisher {
  requireNotNegative({ heartbeatSeconds: options.heartbeatSeconds })
  const route = options.route ?? (({ destination }) => ({ exchange: '', routingKey: destination }))
  let link: Promise<Link> | undefined
  let blocked = false
  let trials: Promise<unknown> = Promise.resolve()
  /** By destination. */
  const apart = new Map<string, Apart>()

  async function open(): Promise<Link> {
    link ??= connect(options).then((fresh) => {
      blocked = false
      fresh.model.on('blocked', () => {
        blocked = true
      })
      fresh.model.on('unblocked', () => {
        blocked = false
      })
      fresh.closed.catch(forget)
      return fresh
    })
    return link.catch((error: unknown) => {
      forget()
      throw (
        refusalOf(options.url, error) ??
        new BrokerUnavailableError('RabbitMQ is out of reach', { cause: error })
      )
    })
  }
  const forget = () => {
    link = undefined
    apart.clear()
  }

  function openLane({ model, closed }: Link): Promise<Lane> {
    return Promise.race([laneOn(model), closed]).catch((error: unknown) => {
      throw new BrokerUnavailableError('RabbitMQ gives no channel', { cause: error })
    })
  }

  /** The next try of a message whose last one was not confirmed goes over a new channel, and so does what follows to its destination. */
  function laneFor(link: Link, { destination, messageId }: OutboundMessage): Lane | Promise<Lane> {
    const own = apart.get(destination)
    const lane = own === undefined ? link : own.lane
    if (lane === undefined) return own!.opening
    if (!lane.unconfirmed.has(messageId)) return lane
    const fresh: Apart = { opening: openLane(link), lane: undefined }
    apart.set(destination, fresh)
    if (own !== undefined) void lane.channel.close().catch(() => {})
    const leave = () => {
      if (apart.get(destination) === fresh) apart.delete(destination)
    }
    fresh.opening.then((opened) => {
      fresh.lane = opened
      opened.closed.catch(leave)
    }, leave)
    return fresh.opening
  }

  async function send(lane: Lane, message: OutboundMessage): Promise<void> {
    if (blocked) throw new BrokerUnavailableError('RabbitMQ has blocked publishers (memory or disk alarm)')
    const { returned } = lane
    returned.delete(message.messageId)
    const { body, messageId } = message
    await confirmed(lane, messageId, route(message), Buffer.from(body), optionsOf(message))
    if (returned.delete(message.messageId))
      throw new PublishRefusedError(`no queue would get a message for ${message.destination}`)
  }

  /** Each on a channel of its own, one after the other: this shows which message the node refuses. */
  function sendAlone(message: OutboundMessage, signal: AbortSignal): Promise<void> {
    const trial = trials.then(async () => {
      signal.throwIfAborted()
      const lane = await openLane(await open())
      try {
        await send(lane, message)
      } catch (error) {
        if (!(error instanceof ChannelRefusedError)) throw error
        throw new PublishRefusedError(`RabbitMQ refused the message: ${error.message}`, { cause: error })
      } finally {
        await lane.channel.close().catch(() => {})
      }
    })
    trials = trial.catch(() => {})
    return trial
  }

  return {
    silenceIsOutage: true,
    async publish(message, signal) {
      try {
        await send(await laneFor(await open(), message), message)
      } catch (error) {
        if (!(error instanceof ChannelRefusedError)) throw error
        await sendAlone(message, signal)
      }
    },
    async close() {
      const open = await link?.catch(() => undefined)
      await open?.model.close().catch(() => {})
    },
  }
}

function optionsOf(message: OutboundMessage): Options.Publish {
  return {
    mandatory: true,
    persistent: true,
    contentType: 'application/json',
    messageId: message.messageId,
    type: message.type,
    headers: { ...message.headers, ...propertiesOf(message) },
  }
}

export type RabbitMqSubscriberOptions = RabbitMqOptions & Declaration & { readonly clock?: Clock }

export function createRabbitMqSubscriber(options: RabbitMqSubscriberOptions): MessageSubscriber {
  requireNotNegative({ heartbeatSeconds: options.heartbeatSeconds })
  return subscriberOf(
    'RabbitMQ',
    (deliveries) => new RabbitMqSession(options, deliveries),
    (error) => refusalOf(options.url, error),
  )
}

const reconnectMs = 500

/** The first connection must succeed; later ones are retried. */
class RabbitMqSession implements Session {
  readonly #options: RabbitMqSubscriberOptions
  readonly #deliveries: Deliveries
  readonly #clock: Clock
  readonly #copies: Copies
  #link: Link | undefined
  #consumerTag = ''

  constructor(options: RabbitMqSubscriberOptions, deliveries: Deliveries) {
    this.#options = options
    this.#deliveries = deliveries
    this.#clock = options.clock ?? processClock
    this.#copies = new Copies(options, deliveries.concurrency, this.#clock)
  }

  begin(): Promise<void> {
    return this.#consume()
  }

  async stop(): Promise<void> {
    await this.#link?.channel.cancel(this.#consumerTag).catch(() => {})
  }

  async leave(): Promise<void> {
    await this.#copies.close()
    await this.#link?.model.close().catch(() => {})
  }

  async #consume(): Promise<void> {
    const link = await connect(this.#options)
    try {
      await declare(link, this.#options, this.#deliveries.report)
      await link.channel.prefetch(this.#deliveries.concurrency)
      const { consumerTag } = await link.channel.consume(
        this.#options.queue,
        (raw) => this.#receive(link, raw),
        { noAck: false },
      )
      this.#consumerTag = consumerTag
    } catch (error) {
      await link.model.close().catch(() => {})
      throw error
    }
    // Closed meanwhile: `close` did not know of this connection.
    if (this.#deliveries.stopped) return void (await link.model.close().catch(() => {}))
    this.#link = link
    link.closed.catch((error: unknown) => {
      if (this.#deliveries.stopped) return
      this.#deliveries.report(error)
      void this.#again()
    })
  }

  async #again(): Promise<void> {
    let back = false
    while (!back && !this.#deliveries.stopped) {
      await pause(this.#clock, reconnectMs)
      if (this.#deliveries.stopped) return
      back = await this.#consume().then(
        () => true,
        (error: unknown) => {
          this.#deliveries.report(refusalOf(this.#options.url, error) ?? error)
          return false
        },
      )
    }
  }

  #receive(link: Link, raw: ConsumeMessage | null): void {
    if (raw === null) {
      // The queue was deleted: reconnect, and declare it again.
      void link.model.close().catch(() => {})
      return
    }
    this.#deliveries.begin(raw, () => this.#deliver(link, raw))
  }

  async #deliver(link: Link, raw: ConsumeMessage): Promise<void> {
    const verdict = await this.#deliveries.verdictOn(deliveryOf(raw))
    if (verdict.kind === 'again')
      try {
        await this.#copies.send(raw, verdict.delayMs)
      } catch (error) {
        if (error instanceof NotCopiedError) return await this.#wait(link, raw, verdict.delayMs)
        // Unacknowledged, it is redelivered on a new connection, which declares the queues anew.
        await link.model.close().catch(() => {})
        throw error
      }
    link.channel.ack(raw)
  }

  async #wait(link: Link, raw: ConsumeMessage, delayMs: number): Promise<void> {
    await this.#deliveries.pause(this.#clock, delayMs)
    link.channel.nack(raw, false, true)
  }
}
