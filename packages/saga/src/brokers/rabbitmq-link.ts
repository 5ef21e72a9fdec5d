/**
 * Connections and channels of RabbitMQ, and how they end: the connection broke, or the node closed the channel because
 * of a message.
 *
 * Owns distinguishing the two. `rabbitmq.ts` decides what happens to messages in flight.
 * Source: AMQP 0-9-1, "Constants" (soft errors) and channel.close.
 */
import type { Socket } from 'node:net'
import amqp, { type ChannelModel, type ConfirmChannel, IllegalOperationError, type Options } from 'amqplib'
import { errorText } from '../error-meaning.ts'
import { BrokerUnavailableError, PublishDeferredError, PublishRefusedError } from '../errors.ts'
import { noRoomDelayMs } from '../messages.ts'

export type Route = { readonly exchange: string; readonly routingKey: string }

export type RabbitMqOptions = {
  /** `amqp://user:password@host:5672/vhost`; `amqps:` for TLS. */
  readonly url: string
  readonly heartbeatSeconds?: number
}

/** A confirm channel; `closed` rejects when it ends, and always has a handler. */
export type Lane = {
  readonly channel: ConfirmChannel
  readonly closed: Promise<never>
  readonly end: (error?: Error) => void
  /**
   * One for each publish without a confirm, by its id; all are called when the channel ends. A race with `closed` would leave a
   * reaction there for every message, for as long as the channel lives.
   */
  readonly unconfirmed: Map<string, (error: BrokerUnavailableError) => void>
  /** Called before a publish: what is published in one turn of the event loop is one write. */
  readonly gather: () => void
  /** Ids of messages that no queue takes. A return precedes the message's confirm (AMQP 0-9-1, basic.return). */
  readonly returned: Set<string>
}

/** One connection with one channel; the connection closes when the channel ends. */
export type Link = Lane & { readonly model: ChannelModel }

/** The node closed the channel and kept the connection: some message was wrong. It does not say which. */
export class ChannelRefusedError extends BrokerUnavailableError {}

/** Soft errors of AMQP 0-9-1: content too large, access refused, not found, resource locked, precondition failed. */
const softErrors: readonly unknown[] = [311, 403, 404, 405, 406]

export async function laneOn(model: ChannelModel): Promise<Lane> {
  const channel = await model.createConfirmChannel()
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => {})
  const unconfirmed: Lane['unconfirmed'] = new Map()
  const endWith = (error: BrokerUnavailableError) => {
    ended.reject(error)
    for (const reject of unconfirmed.values()) reject(error)
    unconfirmed.clear()
  }
  const end = (error?: Error) =>
    endWith(new BrokerUnavailableError('the connection to RabbitMQ ended', { cause: error }))
  channel.on('error', (error: Error & { code?: unknown }) => {
    if (softErrors.includes(error.code)) endWith(new ChannelRefusedError(error.message, { cause: error }))
    else end(error)
  })
  // Before amqplib's own listener, which hands every unconfirmed message back as if the node had refused it.
  channel.prependListener('close', () => end())
  const returned = new Set<string>()
  channel.on('return', (message) => returned.add(String(message.properties.messageId)))
  return { channel, closed: ended.promise, end, unconfirmed, gather: gathering(model), returned }
}

/**
 * amqplib writes each message to the socket by itself: a system call here and a packet for the node. It writes in the
 * check phase after the publish, so the socket is held back until the one after that.
 */
function gathering({ connection }: ChannelModel): () => void {
  // No part of its interface: without it every message is written alone, as before.
  const { stream } = connection as typeof connection & { readonly stream?: Partial<Socket> }
  let held = false
  return () => {
    if (held || stream?.cork === undefined) return
    held = true
    stream.cork()
    setImmediate(() =>
      setImmediate(() => {
        held = false
        stream.uncork?.()
      }),
    )
  }
}

export async function connect({ url, heartbeatSeconds = 10 }: RabbitMqOptions): Promise<Link> {
  const model = await amqp.connect(url, {
    heartbeat: heartbeatSeconds,
    // Shorter than the relay waits, which would count it against the message.
    timeout: 5_000,
    noDelay: true,
  } as object)
  let lane: Lane | undefined
  const end = (error?: Error) => lane?.end(error)
  model.on('error', end)
  model.on('close', end)
  const close = () => model.close().catch(() => {})
  try {
    lane = await laneOn(model)
  } catch (error) {
    await close()
    throw error
  }
  lane.closed.catch(close)
  return { ...lane, model }
}

export function confirmed(
  { channel, unconfirmed, gather }: Lane,
  id: string,
  { exchange, routingKey }: Route,
  body: Buffer,
  options: Options.Publish,
): Promise<void> {
  return new Promise((resolve, reject) => {
    unconfirmed.set(id, reject)
    gather()
    try {
      channel.publish(exchange, routingKey, body, options, (error) => {
        unconfirmed.delete(id)
        if (error === null || error === undefined) resolve()
        else reject(noRoom(error))
      })
    } catch (error) {
      unconfirmed.delete(id)
      reject(notSent(error))
    }
  })
}

/**
 * A nack is no judgement of the message: its queue is full (`reject-publish`), or the process of the queue failed. What RabbitMQ
 * refuses of a message is returned, or ends the channel.
 */
function noRoom(cause: unknown): PublishDeferredError {
  return new PublishDeferredError(
    'RabbitMQ takes the message later: its queue is full, or failed',
    noRoomDelayMs,
    { cause },
  )
}

/** It was not sent, and the channel is as it was. */
export class NotCarriedError extends PublishRefusedError {}

/**
 * amqplib throws where the channel is closed, and where it can't encode the message: one byte holds the length of a type,
 * an exchange, a routing key and a header's name, and 64 KiB all headers. Only the first passes.
 */
function notSent(cause: unknown): Error {
  return cause instanceof IllegalOperationError
    ? new BrokerUnavailableError('the channel to RabbitMQ is closed', { cause })
    : new NotCarriedError(`RabbitMQ's protocol cannot carry the message: ${errorText(cause)}`, { cause })
}

/** Without the handshake, which a node that blocks the connection does not read. */
export function cut({ model }: Link, reason: Error): void {
  const { stream } = model.connection as typeof model.connection & { readonly stream?: Partial<Socket> }
  stream?.destroy?.(reason)
}
