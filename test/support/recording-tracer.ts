/**
 * The minimum of an OpenTelemetry SDK that shows the parents of spans: it records them, and propagates their context in
 * `traceparent` (W3C Trace Context). Disposing removes it from the process.
 */
import {
  type Attributes,
  type AttributeValue,
  type Context,
  type Link,
  propagation,
  type Span,
  type SpanContext,
  type SpanKind,
  type SpanOptions,
  type SpanStatus,
  type Tracer,
  trace,
} from '@opentelemetry/api'

export type RecordedSpan = {
  readonly name: string
  readonly context: SpanContext
  readonly parent: SpanContext | undefined
  readonly links: readonly Link[]
  readonly kind: SpanKind | undefined
  readonly attributes: Attributes
  readonly status: SpanStatus | undefined
}

/** Of the recording that goes on. The kit keeps the first tracer of its process, and a worker runs one file after the other. */
let recording: RecordedSpan[] = []
let count = 0

function begin(name: string, options: SpanOptions, around: Context | undefined): Span {
  count += 1
  const id = count.toString(16)
  const parent = around === undefined ? undefined : trace.getSpanContext(around)
  const context = {
    traceId: parent?.traceId ?? id.padStart(32, '0'),
    spanId: id.padStart(16, '0'),
    traceFlags: 1,
  }
  const recorded = {
    name,
    context,
    parent,
    links: options.links ?? [],
    kind: options.kind,
    attributes: { ...options.attributes },
    status: undefined as SpanStatus | undefined,
  }
  recording.push(recorded)
  const span = {
    spanContext: () => context,
    end: () => {},
    setAttribute: (key: string, value: AttributeValue) => {
      recorded.attributes[key] = value
      return span
    },
    setStatus: (status: SpanStatus) => {
      recorded.status = status
      return span
    },
  }
  return span as unknown as Span
}

const TRACER = {
  startSpan: (name: string, options: SpanOptions, around?: Context) => begin(name, options, around),
  startActiveSpan: (name: string, options: SpanOptions, around: Context, work: (span: Span) => unknown) =>
    work(begin(name, options, around)),
} as unknown as Tracer

export function recordSpans(): Disposable & { readonly spans: RecordedSpan[] } {
  const spans: RecordedSpan[] = []
  recording = spans
  trace.setGlobalTracerProvider({ getTracer: () => TRACER })
  propagation.setGlobalPropagator({
    inject(context, carrier, setter) {
      const span = trace.getSpanContext(context)
      if (span !== undefined) setter.set(carrier, 'traceparent', `00-${span.traceId}-${span.spanId}-01`)
    },
    extract(context, carrier, getter) {
      const [, traceId, spanId] = String(getter.get(carrier, 'traceparent') ?? '').split('-')
      return traceId === undefined || spanId === undefined
        ? context
        : trace.setSpanContext(context, { traceId, spanId, traceFlags: 1 })
    },
    fields: () => ['traceparent'],
  })
  return {
    spans,
    [Symbol.dispose]() {
      trace.disable()
      propagation.disable()
    },
  }
}
