/**
 * The ready mappings: our own format, CloudEvents, and an id in a header. docs/reference/messages.md is their page.
 *
 * Source: CloudEvents 1.0.2, JSON event format, and its bindings for HTTP, NATS, Kafka and AMQP;
 * draft-ietf-httpapi-idempotency-key-header (the value of `Idempotency-Key` is a quoted string).
 */
import { UnmappedMessageError } from './errors.ts'
import type { InboundMapping, Mapped } from './inbound.ts'
import { type Delivery, type Headers, parsedJson, propertyHeader } from './messages.ts'

/** What this kit's relay sends. The default. */
export const fencepostMessages: InboundMapping = ({ headers }) => {
  const id = headerOf(headers, propertyHeader.messageId)
  if (id === undefined) return undefined
  const type = headerOf(headers, propertyHeader.type)
  if (type === undefined)
    throw new UnmappedMessageError(
      `the message has the header ${propertyHeader.messageId} and no ${propertyHeader.type}`,
    )
  const own = new Set<string>(Object.values(propertyHeader))
  return {
    id,
    type,
    aggregateType: headerOf(headers, propertyHeader.aggregateType),
    aggregateId: headerOf(headers, propertyHeader.aggregateId),
    createdAt: headerOf(headers, propertyHeader.createdAt),
    headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !own.has(name.toLowerCase()))),
  }
}

/** Prefixes of attributes in binary mode: HTTP and NATS, Kafka, AMQP (both of them are allowed there). */
const attributePrefixes = ['ce-', 'ce_', 'cloudevents:', 'cloudevents_'] as const

/**
 * CloudEvents 1.0, structured (JSON) and binary. A producer promises that source and id together are unique, so both make
 * the id. Order: the extension `partitionkey`, otherwise the subject, within its source.
 */
export const cloudEventMessages: InboundMapping = (delivery) =>
  binaryCloudEvent(delivery) ?? structuredCloudEvent(delivery)

function binaryCloudEvent({ headers, properties, body, bytes }: Delivery): Mapped | undefined {
  const prefix = attributePrefixes.find((one) => headerOf(headers, `${one}specversion`) !== undefined)
  if (prefix === undefined) return undefined
  const attributes: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase()
    // HTTP and NATS carry what is no printable ASCII percent-encoded.
    if (lower.startsWith(prefix))
      attributes[lower.slice(prefix.length)] = prefix === 'ce-' ? percentDecoded(value) : value
  }
  const mapped = mappedEvent(attributes, headers)
  const contentType = properties['content-type'] ?? headerOf(headers, 'content-type') ?? 'application/json'
  // JSON is parsed by the consumer, which makes a dead letter of what is none.
  return isJson(contentType) ? mapped : { ...mapped, payload: bytes ?? body }
}

function structuredCloudEvent({ headers, properties, body, bytes }: Delivery): Mapped | undefined {
  const contentType = properties['content-type'] ?? headerOf(headers, 'content-type') ?? ''
  if (/^application\/cloudevents-batch/i.test(contentType))
    throw new UnmappedMessageError(
      'the message is a batch of CloudEvents; let its producer send one event a message',
    )
  const declared = /^application\/cloudevents/i.test(contentType)
  const envelope = bytes === undefined ? objectIn(body) : undefined
  if (!declared && typeof envelope?.specversion !== 'string') return undefined
  if (envelope === undefined)
    throw new UnmappedMessageError(
      `the message is declared as ${contentType}, and its body is no JSON object`,
    )
  const { data, data_base64: base64, ...attributes } = envelope
  const payload = typeof base64 === 'string' ? Buffer.from(base64, 'base64') : (data ?? null)
  return { ...mappedEvent(attributes, headers), payload }
}

function mappedEvent(attributes: Readonly<Record<string, unknown>>, headers: Headers): Mapped {
  const { specversion } = attributes
  if (specversion !== '1.0')
    throw new UnmappedMessageError(
      `the message is a CloudEvent of version ${specversion}; 1.0 is the one that is read`,
    )
  const text = (name: string) => {
    const value = attributes[name]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const required = (name: string) => {
    const value = text(name)
    if (value === undefined) throw new UnmappedMessageError(`the CloudEvent has no attribute ${name}`)
    return value
  }
  const source = required('source')
  // A URI reference has no blank, so two different pairs of source and id never make the same id.
  if (/\s/.test(source))
    throw new UnmappedMessageError('the source of the CloudEvent is no URI reference: it has a blank')
  const trace = Object.fromEntries(
    ['traceparent', 'tracestate'].flatMap((name) => (text(name) === undefined ? [] : [[name, text(name)!]])),
  )
  return {
    id: `${source} ${required('id')}`,
    type: required('type'),
    aggregateType: source,
    aggregateId: text('partitionkey') ?? text('subject'),
    createdAt: text('time'),
    headers: { ...headers, ...trace },
  }
}

export type HeaderMessagesOptions = {
  /** Name of the header that has the id. Default `idempotency-key`. */
  readonly id?: string
  /** Default: the header `type`, the broker's own property of that name, or the member `type` of a JSON body. */
  readonly type?: (delivery: Delivery) => string | undefined
  /** Default: none, so the messages are handled in any order. */
  readonly orderingKey?: (delivery: Delivery) => string | undefined
}

/** The id in a header, as most tutorials have it, and the body as the payload. */
export function headerMessages(options: HeaderMessagesOptions = {}): InboundMapping {
  const { id: name = 'idempotency-key', type: typeOf = usualType, orderingKey } = options
  return (delivery) => {
    const id = headerOf(delivery.headers, name) ?? headerOf(delivery.properties, name)
    if (id === undefined) return undefined
    const type = typeOf(delivery)
    if (type === undefined || type === '')
      throw new UnmappedMessageError(
        `the message has the header ${name} and no type; say where it is with headerMessages({ type: (delivery) => … })`,
      )
    return { id: unquoted(id), type, orderingKey: orderingKey?.(delivery) ?? null }
  }
}

function usualType({ headers, properties, body }: Delivery): string | undefined {
  const given = headerOf(headers, 'type') ?? properties.type
  if (given !== undefined) return given
  const type = objectIn(body)?.type
  return typeof type === 'string' ? type : undefined
}

/** Names of headers are compared without case: brokers and clients change it. */
function headerOf(headers: Headers, name: string): string | undefined {
  if (Object.hasOwn(headers, name)) return headers[name]
  const lower = name.toLowerCase()
  return Object.entries(headers).find(([one]) => one.toLowerCase() === lower)?.[1]
}

/** A structured string (RFC 8941) is the same key as its bare text. */
function unquoted(value: string): string {
  return /^"(?:[^"\\]|\\["\\])*"$/.test(value) ? value.slice(1, -1).replace(/\\(["\\])/g, '$1') : value
}

function percentDecoded(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    // Sent without encoding, as some producers do.
    return value
  }
}

function isJson(contentType: string): boolean {
  return /[/+]json\s*(;|$)/i.test(contentType)
}

function objectIn(body: string): Record<string, unknown> | undefined {
  try {
    const value = parsedJson(body)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}
