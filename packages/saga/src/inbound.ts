/**
 * Reads a delivery: which message it is, by the mappings that the consumer was given (`inbound`).
 *
 * Owns the order of the mappings, what makes a mapped message valid, and the words for one that no mapping reads. The
 * ready mappings are in `inbound-formats.ts`; what becomes of an unread message is decided in `unhandled.ts`.
 */
import { UnmappedMessageError } from './errors.ts'
import type { Delivery, Headers, InboundMessage } from './messages.ts'

/** What a mapping reads in a delivery. */
export type Mapped = {
  /** Of any text, unique for the message, and the same in every delivery of it. */
  readonly id: string
  /** Chooses the handler. */
  readonly type: string
  /** Messages with the same key are handled in order; null: this one in none. Default: by its aggregate. */
  readonly orderingKey?: string | null | undefined
  /** What the handler gets as `payload`. Left out: the body, parsed as JSON. */
  readonly payload?: unknown
  readonly aggregateType?: string | undefined
  readonly aggregateId?: string | undefined
  /** ISO 8601. */
  readonly createdAt?: string | undefined
  /** What the handler gets as `headers`. Default: those of the delivery. */
  readonly headers?: Headers | undefined
}

/** Returns undefined for a message of another format, and throws for one of its own that it cannot read. */
export type InboundMapping = (delivery: Delivery) => Mapped | undefined

/** One mapping, or several: the first that knows the format reads the message. */
export type Inbound = InboundMapping | readonly InboundMapping[]

export type Arrival = {
  readonly message: InboundMessage
  readonly delivery?: Delivery
  /** Present if the mapping read the payload itself. */
  readonly payload?: { readonly value: unknown }
  readonly orderingKey?: string | null | undefined
}

/** @throws UnmappedMessageError if no mapping reads it */
export function readDelivery(inbound: Inbound, delivery: Delivery): Arrival {
  const mapped = firstMapped(typeof inbound === 'function' ? [inbound] : inbound, delivery)
  for (const part of ['id', 'type'] as const)
    if (typeof mapped[part] !== 'string' || mapped[part] === '')
      throw new UnmappedMessageError(
        `the inbound mapping gave no ${part} for the message, but ${JSON.stringify(mapped[part]) ?? 'undefined'}`,
      )
  const message: InboundMessage = {
    messageId: delivery.signedId ?? mapped.id,
    type: mapped.type,
    aggregateType: mapped.aggregateType ?? '',
    aggregateId: mapped.aggregateId ?? '',
    createdAt: mapped.createdAt ?? '',
    body: delivery.body,
    headers: mapped.headers ?? delivery.headers,
    redelivered: delivery.redelivered,
  }
  return {
    message,
    delivery,
    orderingKey: mapped.orderingKey,
    ...('payload' in mapped ? { payload: { value: mapped.payload } } : {}),
  }
}

function firstMapped(mappings: readonly InboundMapping[], delivery: Delivery): Mapped {
  for (const mapping of mappings) {
    const mapped = tried(mapping, delivery)
    // Plain JavaScript returns null as easily.
    if (mapped !== undefined && mapped !== null) return mapped
  }
  const { headers, properties } = delivery
  throw new UnmappedMessageError(
    `no inbound mapping knows the format of the message (headers: ${namesIn(headers)}; of the broker: ${namesIn(properties)}); give ` +
      'createConsumer an `inbound` that does: fencepostMessages, cloudEventMessages, headerMessages() or your own',
  )
}

/** More would fill the log without telling more. */
const namesMax = 12

/** Names alone: a value may be a secret. */
function namesIn(headers: Headers): string {
  const names = Object.keys(headers)
  if (names.length === 0) return 'none'
  return [...names.slice(0, namesMax), ...(names.length > namesMax ? ['…'] : [])].join(', ')
}

function tried(mapping: InboundMapping, delivery: Delivery): Mapped | undefined {
  try {
    return mapping(delivery)
  } catch (error) {
    if (error instanceof UnmappedMessageError) throw error
    throw new UnmappedMessageError(
      `the inbound mapping could not read the message: ${String((error as Error)?.message ?? error)}`,
      { cause: error },
    )
  }
}
