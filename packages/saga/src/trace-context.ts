/**
 * The creation context of a message: written into its headers when it is inserted into the outbox, so that the trace
 * continues at the consumer, however long the message waited and whichever relay sent it.
 *
 * Owns the few spans of the kit: `create` at insertion, `send` at the relay, `process` at the consumer. Without an
 * OpenTelemetry SDK in the process every call here does nothing.
 * Source: OpenTelemetry semantic conventions, messaging spans.
 */
import { type Context, context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { type Headers, shownDestination } from './messages.ts'

const tracer = trace.getTracer('fencepost/saga')

/** The headers with traceparent and tracestate of a new `create` span; the caller's headers win. */
export function withCreationContext(headers: Headers, destination: string, messageId: string): Headers {
  const to = shownDestination(destination)
  const span = tracer.startSpan(`create ${to}`, {
    kind: SpanKind.PRODUCER,
    attributes: { ...attributesOf('create', messageId), [DESTINATION]: to },
  })
  const carrier: Record<string, string> = {}
  propagation.inject(trace.setSpan(context.active(), span), carrier)
  span.end()
  return { ...carrier, ...headers }
}

/** The context that is active now, as headers. */
export function activeContext(): Headers {
  const carrier: Record<string, string> = {}
  propagation.inject(context.active(), carrier)
  return carrier
}

export function inSendSpan(
  headers: Headers,
  destination: string,
  messageId: string,
  send: () => Promise<void>,
): Promise<void> {
  const creation = trace.getSpanContext(propagation.extract(context.active(), headers))
  const to = shownDestination(destination)
  return inSpan(
    `send ${to}`,
    SpanKind.CLIENT,
    { ...attributesOf('send', messageId), [DESTINATION]: to },
    context.active(),
    creation === undefined ? [] : [creation],
    send,
  )
}

export function inProcessSpan<T>(
  headers: Headers,
  consumerId: string,
  messageId: string,
  work: () => Promise<T>,
): Promise<T> {
  const parent = propagation.extract(context.active(), headers)
  return inSpan(
    `process ${consumerId}`,
    SpanKind.CONSUMER,
    { ...attributesOf('process', messageId), 'messaging.consumer.group.name': consumerId },
    parent,
    [],
    work,
  )
}

function inSpan<T>(
  name: string,
  kind: SpanKind,
  attributes: Record<string, string>,
  parent: Context,
  links: readonly { traceId: string; spanId: string; traceFlags: number }[],
  work: () => Promise<T>,
): Promise<T> {
  const options = { kind, attributes, links: links.map((linked) => ({ context: linked })) }
  return tracer.startActiveSpan(name, options, parent, async (span) => {
    try {
      return await work()
    } catch (error) {
      const type = (error as Error)?.name ?? '_OTHER'
      span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR, message: type })
      throw error
    } finally {
      span.end()
    }
  })
}

const DESTINATION = 'messaging.destination.name'

function attributesOf(operation: 'create' | 'send' | 'process', messageId: string): Record<string, string> {
  return {
    'messaging.system': 'fencepost',
    'messaging.operation.name': operation,
    'messaging.operation.type': operation,
    'messaging.message.id': messageId,
  }
}
