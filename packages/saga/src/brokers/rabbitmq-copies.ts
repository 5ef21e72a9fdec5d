/**
 * Sends copies of messages into the delay queues, each confirmed before it counts.
 *
 * Owns a connection that only publishes. While the node has an alarm (memory, disk) it reads nothing more from a
 * connection that has published: on the one that consumes, no acknowledgement would reach it. Without a confirm in time the connection
 * is made anew.
 *
 * Source: RabbitMQ documentation, "Memory and Disk Alarms".
 */
import type { ConsumeMessage } from 'amqplib'
import type { Clock } from '../core.ts'
import { BrokerUnavailableError, PublishDeferredError, PublishRefusedError } from '../errors.ts'
import { delayBucketMs, delayQueue } from './rabbitmq-declarations.ts'
import { copyHeader, copyOptions } from './rabbitmq-delivery.ts'
import {
  ChannelRefusedError,
  confirmed,
  connect,
  cut,
  type Link,
  NotCarriedError,
  type RabbitMqOptions,
} from './rabbitmq-link.ts'

/**
 * There is no copy, and another try would make none now: the node takes no publishes, the delay queue is full, or a message of
 * another system has so many headers that there is no room for those of the copy.
 */
export class NotCopiedError extends Error {}

/**
 * A queue that has lost its majority confirms nothing, and its channel may go on so when the majority is back. What waits for the
 * confirm is in progress, and takes the place of others.
 */
const confirmMaxMs = 10_000

export class Copies {
  readonly #options: RabbitMqOptions & { readonly queue: string }
  readonly #concurrency: number
  readonly #clock: Clock
  #link: Promise<Link> | undefined

  constructor(options: RabbitMqOptions & { readonly queue: string }, concurrency: number, clock: Clock) {
    this.#options = options
    this.#concurrency = concurrency
    this.#clock = clock
  }

  /** @throws NotCopiedError */
  async send(raw: ConsumeMessage, delayMs: number): Promise<void> {
    const queue = delayQueue(this.#options.queue, delayBucketMs(delayMs))
    try {
      await this.#sendTo(queue, raw)
    } catch (error) {
      const isAway = error instanceof BrokerUnavailableError && !(error instanceof ChannelRefusedError)
      if (isAway || error instanceof PublishDeferredError || error instanceof NotCarriedError)
        throw new NotCopiedError(`no copy in the queue ${queue}`, { cause: error })
      throw error
    }
  }

  async close(): Promise<void> {
    const link = await this.#link?.catch(() => undefined)
    await link?.model.close().catch(() => {})
  }

  async #sendTo(queue: string, raw: ConsumeMessage): Promise<void> {
    const link = await this.#open()
    const { channel } = link
    const copyId = crypto.randomUUID()
    let returned = false
    // A return precedes the confirm: the queue was deleted, and no queue has the copy.
    const onReturn = ({ properties }: Pick<ConsumeMessage, 'properties'>) => {
      returned ||= properties.headers?.[copyHeader.id] === copyId
    }
    channel.on('return', onReturn)
    const late = () => cut(link, new Error(`RabbitMQ has not confirmed a copy in the queue ${queue}`))
    const timer = this.#clock.timer(confirmMaxMs, late)
    const options = copyOptions(raw, copyId)
    try {
      await confirmed(link, copyId, { exchange: '', routingKey: queue }, raw.content, options)
    } finally {
      timer.cancel()
      channel.off('return', onReturn)
    }
    if (returned) throw new PublishRefusedError(`the queue ${queue} is gone`)
  }

  #open(): Promise<Link> {
    this.#link ??= this.#connect()
    return this.#link
  }

  async #connect(): Promise<Link> {
    const forget = () => {
      this.#link = undefined
    }
    try {
      const link = await connect(this.#options)
      // One for each delivery that is being delayed.
      link.channel.setMaxListeners(this.#concurrency + 10)
      link.model.on('blocked', () => cut(link, new Error('RabbitMQ has blocked publishers')))
      link.closed.catch(forget)
      return link
    } catch (error) {
      forget()
      throw new BrokerUnavailableError('RabbitMQ is out of reach', { cause: error })
    }
  }
}
