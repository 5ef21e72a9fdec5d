/**
 * Messages, and the two doors of a broker: a publisher takes one and confirms it, a subscriber hands one over and is told
 * what became of it. Every adapter under `brokers/` implements these and passes one conformance suite.
 *
 * What adapters may not do: decide about attempts (the inbox counts them), give up a message, or change its body.
 */

export type Headers = Readonly<Record<string, string>>

export type OutboundMessage = {
  /** A UUID; the consumer's inbox knows the message by it. */
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
   * Resolves when the broker has taken responsibility for the message, and only then.
   * @throws BrokerUnavailableError where the broker could not be asked, so that no attempt is spent
   * @throws PublishRefusedError where it refused this message, for example because no queue would get it
   */
  publish(message: OutboundMessage, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export type InboundMessage = {
  readonly messageId: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  readonly body: string
  readonly headers: Headers
  readonly createdAt: string
  /** The broker has handed it out before, and does not know that we asked it to come back. */
  readonly redelivered: boolean
}

/**
 * What became of a delivery. `retry` and `defer` both ask for it again after a while; the difference (an attempt was spent
 * or not) is in the inbox already. There is no "dead letter" for a broker: that row is committed before the `ack`.
 */
export type Verdict = { readonly kind: 'ack' } | { readonly kind: 'again'; readonly delayMs: number }

export interface Subscription {
  /** Takes no further messages, waits for those under way, and closes. What was not acknowledged comes again. */
  close(): Promise<void>
}

export type SubscribeOptions = {
  /** Deliveries under way at once. */
  readonly concurrency: number
  /** What went wrong between the broker and us; the adapter goes on by itself. */
  readonly onError: (error: unknown) => void
}

export interface MessageSubscriber {
  /** `handle` never rejects. */
  subscribe(
    handle: (message: InboundMessage) => Promise<Verdict>,
    options: SubscribeOptions,
  ): Promise<Subscription>
}

/** Names of our properties where a broker has only headers. */
const propertyHeader = {
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

/** undefined where something that is not ours was delivered. */
export function inboundFrom(
  properties: Readonly<Record<string, string | undefined>>,
  body: string,
  redelivered: boolean,
): InboundMessage | undefined {
  const read = (name: string) => properties[name]
  const messageId = read(propertyHeader.messageId)
  const type = read(propertyHeader.type)
  if (messageId === undefined || !uuidPattern.test(messageId) || type === undefined) return undefined
  const own = new Set<string>(Object.values(propertyHeader))
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(properties))
    if (!own.has(name) && value !== undefined) headers[name] = value
  return {
    messageId,
    type,
    aggregateType: read(propertyHeader.aggregateType) ?? '',
    aggregateId: read(propertyHeader.aggregateId) ?? '',
    createdAt: read(propertyHeader.createdAt) ?? '',
    body,
    headers,
    redelivered,
  }
}

export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
