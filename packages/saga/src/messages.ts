/**
 * Messages, and the two interfaces of a broker: a publisher takes a message and confirms it, a subscriber delivers one
 * and learns the verdict. Every adapter under `brokers/` implements these and passes one conformance suite.
 *
 * Adapters may not decide about attempts (the inbox counts them), read, drop or give up a message, or change its body.
 */

import { isUtf8 } from 'node:buffer'
import type { Tx } from './database.ts'
import { hashOfText } from './request-hash.ts'

export type Headers = Readonly<Record<string, string>>

export type OutboundMessage = {
  /** A UUID; the consumer's inbox identifies the message by it. */
  readonly messageId: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  /** Exchange and routing key, subject, stream or URL, as the adapter reads it. */
  readonly destination: string
  /** JSON text. */
  readonly body: string
  readonly headers: Headers
  /** ISO 8601, the database's clock. */
  readonly createdAt: string
}

export interface MessagePublisher {
  /**
   * Resolves only when the broker has taken responsibility for the message.
   * @throws BrokerUnavailableError if the broker could not be reached, which costs no attempt
   * @throws PublishRefusedError if it refused this message, for example because no queue takes it
   * @throws PublishDeferredError if it takes this message later, for example because its queue is full: no attempt either
   */
  publish(message: OutboundMessage, signal: AbortSignal): Promise<void>
  /**
   * A message without a confirm within the relay's time says that the broker is away, or has lost a part of itself: that
   * costs no attempt. Default: it costs one, because nothing shows whose fault it is.
   */
  readonly silenceIsOutage?: boolean
  close(): Promise<void>
}

/** What a broker handed over, as the sender wrote it: a mapping (`inbound.ts`) reads it. */
export type Delivery = Body & {
  readonly headers: Headers
  /** What the broker itself says of the message, by the names of docs/reference/messages.md: `content-type`, `type`, … */
  readonly properties: Headers
  /** The broker delivered it before, and does not know that we requested the redelivery. */
  readonly redelivered: boolean
  /** The same for every delivery of this message, where the broker has such an identity. */
  readonly deliveryId?: string
  /** The id that a signature covers: the message is known by this one, whatever its other parts say. */
  readonly signedId?: string
  /** The sender waits for the verdict, and keeps a message that is refused. */
  readonly canRefuse?: boolean
}

/** A delivery that a mapping has read. */
export type InboundMessage = {
  /** Of any text; the consumer's inbox identifies the message by it. */
  readonly messageId: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  readonly body: string
  readonly headers: Headers
  readonly createdAt: string
  /** The broker delivered it before, and does not know that we requested the redelivery. */
  readonly redelivered: boolean
}

/**
 * The verdict on a delivery. `again` requests redelivery after a while; whether that cost an attempt is in the inbox
 * already. A broker needs no "dead letter": that row is committed before the `ack`. `refuse` leaves the message with its
 * sender, and comes only for a delivery that `canRefuse`.
 */
export type Verdict =
  | { readonly kind: 'ack' }
  | { readonly kind: 'again'; readonly delayMs: number }
  | { readonly kind: 'refuse'; readonly reason: string }

export interface Subscription {
  /** Takes no further messages, waits for those in flight, and closes. The rest is redelivered. */
  close(): Promise<void>
}

export type SubscribeOptions = {
  /** Most deliveries in flight at once. */
  readonly concurrency: number
  /** Faults between the broker and us; the adapter recovers by itself. */
  readonly onError: (error: unknown) => void
}

/** How long an aggregate waits whose queue or stream has no room: no broker says when it will. */
export const noRoomDelayMs = 5_000

export interface MessageSubscriber {
  /** `handle` never rejects. */
  subscribe(
    handle: (delivery: Delivery) => Promise<Verdict>,
    options: SubscribeOptions,
  ): Promise<Subscription>
}

/** Header names of our properties, on every broker: the wire format of docs/reference/messages.md. */
export const propertyHeader = {
  messageId: 'fencepost-message-id',
  aggregateType: 'fencepost-aggregate-type',
  aggregateId: 'fencepost-aggregate-id',
  type: 'fencepost-type',
  createdAt: 'fencepost-created-at',
} as const

export function propertiesOf(message: OutboundMessage): Record<string, string> {
  return {
    [propertyHeader.messageId]: message.messageId,
    [propertyHeader.aggregateType]: message.aggregateType,
    [propertyHeader.aggregateId]: message.aggregateId,
    [propertyHeader.type]: message.type,
    [propertyHeader.createdAt]: message.createdAt,
  }
}

export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export type Received<P = unknown> = InboundMessage & { readonly payload: P }

/**
 * Database only: executed in the transaction of the inbox row. `own` is that transaction as the application's library
 * knows it, where the consumer was given one (`transaction`).
 */
export type TransactionalHandler<P = unknown, O = unknown> = (
  tx: Tx,
  message: Received<P>,
  ...own: unknown extends O ? [own?: unknown] : [own: O]
) => Promise<unknown>

/**
 * With effects outside: executed before the inbox row is written, so it must be idempotent itself. It is, if it calls
 * only `runIdempotentStep` or `processSagaStep`.
 */
export type OutsideHandler<P = unknown> = { readonly outside: (message: Received<P>) => Promise<unknown> }

export type Handler<P = unknown, O = unknown> = TransactionalHandler<P, O> | OutsideHandler<P>

/**
 * One handler for each type of message. `M` maps the types to their payloads, for example
 * `{ OrderPlaced: { orderId: string } }`; without it every payload is unknown. The kit does not check payloads.
 */
export type Handlers<M extends object = Record<string, unknown>, O = unknown> = {
  readonly [T in keyof M & string]: Handler<M[T], O>
}

/**
 * The body of a message of any system: text where it is UTF-8, and beside that its bytes where it is not (compressed, Avro,
 * another character set), so that nothing of a message is lost on its way to a mapping or a dead letter.
 */
export type Body = {
  /** As UTF-8 text, with U+FFFD for what is none. */
  readonly body: string
  /** As they came. Present only if they are no UTF-8. */
  readonly bytes?: Uint8Array
}

export function bodyOf(bytes: Uint8Array): Body {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  return isUtf8(bytes) ? { body } : { body, bytes }
}

/** Two bodies that are different bytes may be the same text. */
export function hashOfBody({ body, bytes }: Body): Buffer {
  return hashOfText(bytes ?? body)
}

/** Some producers begin with a byte order mark, which is no JSON; a reader may pass over it (RFC 8259, section 8.1). */
export function parsedJson(body: string): unknown {
  return JSON.parse(body.startsWith('\u{FEFF}') ? body.slice(1) : body)
}

export function shownDestination(destination: string): string {
  return /^https?:/i.test(destination) && URL.canParse(destination) ? new URL(destination).host : destination
}
