/**
 * A message of RabbitMQ as a delivery, and the copy that waits for its next attempt: the copy must be read as the message
 * itself was, so it keeps its properties and where it was sent to. It goes to the delay queue alone.
 */
import { isUtf8 } from 'node:buffer'
import type { ConsumeMessage, Options } from 'amqplib'
import { bodyOf, type Delivery } from '../messages.ts'

/** Headers of a copy; no part of the message. */
export const copyHeader = {
  id: 'x-fencepost-copy',
  exchange: 'x-fencepost-exchange',
  routingKey: 'x-fencepost-routing-key',
} as const

export function deliveryOf({ properties, fields, content }: ConsumeMessage): Delivery {
  const {
    contentType,
    contentEncoding,
    type,
    messageId,
    correlationId,
    appId,
    timestamp,
    headers = {},
  } = properties
  return {
    headers: Object.fromEntries(
      Object.entries(withoutOwn(headers)).flatMap(([name, value]) => {
        const text = textOf(name, value)
        return text === undefined ? [] : [[name, text]]
      }),
    ),
    properties: Object.fromEntries(
      Object.entries({
        exchange: headers[copyHeader.exchange] ?? fields.exchange,
        'routing-key': headers[copyHeader.routingKey] ?? fields.routingKey,
        'content-type': contentType,
        'content-encoding': contentEncoding,
        type,
        'message-id': messageId,
        'correlation-id': correlationId,
        'app-id': appId,
        timestamp,
      }).flatMap(([name, value]) => (value === undefined || value === null ? [] : [[name, String(value)]])),
    ),
    ...bodyOf(content),
    redelivered: fields.redelivered,
  }
}

/**
 * Without the user, which the node compares with that of the connection, and without a time to live, which would end the
 * copy in its delay queue.
 */
export function copyOptions({ properties, fields }: ConsumeMessage, copyId: string): Options.Publish {
  const { headers = {}, userId: _, expiration: __, deliveryMode: ___, ...kept } = properties
  return {
    ...definedOnly(kept),
    mandatory: true,
    persistent: true,
    headers: {
      [copyHeader.exchange]: fields.exchange,
      [copyHeader.routingKey]: fields.routingKey,
      // Those of an earlier copy win: they name where the message was sent to at first.
      ...withoutRoutes(headers),
      [copyHeader.id]: copyId,
    },
  }
}

function definedOnly(properties: object): object {
  return Object.fromEntries(
    Object.entries(properties).filter(([, value]) => value !== undefined && value !== null),
  )
}

/** Numbers are ids as often as texts are, and some clients send texts as bytes. The node's own headers (`x-…`) count only as texts. */
function textOf(name: string, value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (name.startsWith('x-')) return undefined
  if (value instanceof Uint8Array && isUtf8(value)) return Buffer.from(value).toString('utf8')
  if (typeof value === 'number' && isRounded(value)) return undefined
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined
}

/** The client has made a number of 64 bits that of a neighbour: as an id it would be that of another message. */
function isRounded(value: number): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) <= 2 ** 63
}

function withoutOwn(headers: Record<string, unknown>): Record<string, unknown> {
  const own: readonly string[] = Object.values(copyHeader)
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !own.includes(name)))
}

/**
 * RabbitMQ records every dead-lettering in the headers, and would one day take them for a loop. To the queues that the
 * sender named in CC it has sent the message, and would send them the copy, too.
 */
function withoutRoutes(headers: Record<string, unknown>): Record<string, unknown> {
  const ofRoutes = /^(x-(first-|last-)?death.*|CC|BCC)$/
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !ofRoutes.test(name)))
}
