/**
 * Spans: one for each request, and the life of each claim as `fencepost.acquire → hold → renew → release`.
 *
 * Written by hand on OpenTelemetry's API, from the events of the core. The ready-made instrumentation of ioredis would
 * export the arguments of EVAL, which are keys and owners; no span here has a key, an owner, a path or a header. No
 * span stays open between two calls: a hold is written when it is over, and later spans of a claim, in another call or
 * trace, link to it. Loaded only if tracing is on.
 *
 * Whether a trace is recorded is decided first: a request that is not recorded has no span, no context and no
 * attribute, only the `traceparent` that says so to the application.
 *
 * Sources: OpenTelemetry semantic conventions for HTTP spans and database client calls.
 */

import {
  type Attributes,
  type Context,
  context,
  createTraceState,
  type Link,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { NodeSDK, type NodeSDKConfiguration } from '@opentelemetry/sdk-node'
import type { Logger } from 'pino'
import { mergedBaggage } from '../core/baggage.ts'
import { lockIdOf } from '../core/claims/lease.ts'
import type { Random } from '../core/clock.ts'
import type { CoreEvent } from '../core/events.ts'
import type { RecordNode } from '../core/ports.ts'
import { millisecondOf } from '../core/record/token.ts'
import type { ClaimShown, RequestTrace, Tracing } from '../core/tracing.ts'
import type { Subscriber } from './fan-out.ts'
import { diagnosisTo, speakThrough } from './trace-diagnosis.ts'
import { callerOf, inheritedOr, isRecorded, SAMPLED, type TraceHeaders, withTrace } from './trace-headers.ts'

export type TracingOptions = {
  readonly serviceName: string
  readonly version: string
  readonly sampleRatio: number
  readonly baggage: boolean
  readonly nodeCount: number
  readonly required: number
  readonly random: Pick<Random, 'fraction'>
  readonly monoMs: () => number
  /** Gets what OpenTelemetry says about itself. */
  readonly log: Pick<Logger, 'warn' | 'debug' | 'isLevelEnabled'>
  /** Spans are still being sent at the end. */
  readonly leaveOpen: () => void
}

type ActiveTrace = { readonly traceId: string; readonly spanId: string }

export type OpenTracing = Tracing &
  AsyncDisposable & {
    readonly subscriber: Subscriber
    /** The active span, if it is recorded. */
    active(): ActiveTrace | undefined
    /** One span for each command to a node, if its request is recorded. */
    tracedNode(node: RecordNode): RecordNode
  }

/** Claims whose later spans link to them. Beyond it the oldest is forgotten, and its later spans have no link. */
const ACQUIRED_MAX = 10_000
/** How long the end of the process waits for spans to be sent. */
const FLUSH_MS = 1_000

type Acquired = { readonly span: SpanContext; readonly atWallMs: number; readonly attributes: Attributes }

/** @returns undefined where nothing is sent, because the variables of OpenTelemetry say so or make no sense */
export function openTracing(options: TracingOptions): OpenTracing | undefined {
  const diagnosis = diagnosisTo(options.log, options.monoMs)
  const sdk = new NodeSDK({
    serviceName: options.serviceName,
    sampler: ALREADY_DECIDED,
    instrumentations: [],
    // Prometheus has the metrics and standard output the logs: the SDK would send both as well.
    metricReaders: [],
    logRecordProcessors: [],
    // Those of `OTEL_PROPAGATORS` would read and write other headers than `trace-headers.ts`.
    textMapPropagator: null,
  })
  // After the constructor, which has the console of `OTEL_LOG_LEVEL` speak.
  speakThrough(diagnosis, options.log.isLevelEnabled('debug'))
  try {
    sdk.start()
  } catch (cause) {
    // Telemetry that can't be sent is no reason to serve no request.
    diagnosis.refused(cause)
    return undefined
  }
  const tracer = trace.getTracer('fencepost', options.version)
  // Without a provider no span is recorded, and to tell the application so would have it record none either.
  if (!tracer.startSpan('', { root: true }).isRecording()) return undefined
  const acquired = new Map<string, Acquired>()

  return {
    request: ({ method, route, protocolVersion, header }) => {
      if (!isRecorded(header('traceparent'), options)) return UNRECORDED
      const inbound = contextOf(header)
      const attributes = {
        'http.request.method': method,
        'url.scheme': 'http',
        'network.protocol.version': protocolVersion,
        ...(route === undefined ? {} : { 'http.route': route }),
      }
      const name = route === undefined ? method : `${method} ${route}`
      const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, inbound)
      const within = trace.setSpan(inbound, span)
      return {
        run: (work) => context.with(within, work),
        ended: (status) => {
          if (status === undefined) span.setAttribute('error.type', 'client_gone')
          else span.setAttribute('http.response.status_code', status)
          // For a server only 5xx is an error: 409 is an answer.
          if (status !== undefined && status >= 500)
            span.setAttribute('error.type', String(status)).setStatus({ code: SpanStatusCode.ERROR })
          span.end()
        },
      }
    },
    outgoing: (headers, claim) => {
      const own = options.baggage && claim !== undefined ? ownBaggage(claim) : {}
      const span = trace.getActiveSpan()
      const ours = span === undefined ? inheritedOr(headers, options.random) : headersOf(span.spanContext())
      return withTrace(headers, ours, own)
    },
    baggage: (inbound, claim) =>
      options.baggage ? mergedBaggage(inbound === undefined ? [] : [inbound], ownBaggage(claim)) : undefined,
    claimed: (recordKey) => {
      const span = acquired.get(recordKey)?.span
      return span === undefined ? undefined : { traceId: span.traceId, spanId: span.spanId }
    },
    resumed: (recordKey, token, claim) => {
      if (acquired.has(recordKey)) return
      remember(acquired, recordKey, {
        span: { ...claim, traceFlags: SAMPLED, isRemote: true },
        // The millisecond in a token is that of its claim, by the clock of the sidecar that claimed.
        atWallMs: millisecondOf(token),
        attributes: {
          'fencepost.key_hash': keyHashOf(recordKey),
          'fencepost.lock_id': lockIdOf({ key: recordKey, token }),
        },
      })
    },
    subscriber: lifecycle(options, acquired),
    active,
    tracedNode: (node) => tracedNode(node),
    [Symbol.asyncDispose]: async () => {
      const sent = sdk.shutdown().then(
        () => true,
        () => true,
      )
      const late = new Promise<false>((resolve) => setTimeout(resolve, FLUSH_MS, false).unref())
      // The SDK has no means to give up: it tries again for ten seconds.
      if (!(await Promise.race([sent, late]))) options.leaveOpen()
    },
  }
}

function active(): ActiveTrace | undefined {
  const span = trace.getActiveSpan()
  if (span === undefined || !span.isRecording()) return undefined
  const { traceId, spanId } = span.spanContext()
  return { traceId, spanId }
}

function remember(acquired: Map<string, Acquired>, recordKey: string, of: Acquired): void {
  acquired.set(recordKey, of)
  if (acquired.size > ACQUIRED_MAX) acquired.delete(acquired.keys().next().value as string)
}

/** The spans of a claim, from its events. */
function lifecycle(
  { version, nodeCount, required }: TracingOptions,
  acquired: Map<string, Acquired>,
): Subscriber {
  const tracer = trace.getTracer('fencepost', version)

  /** Writes a span that is over: from then until now, below the active span. */
  const write = (name: string, startWallMs: number, attributes: Attributes, links: Link[] = []) => {
    const options = { kind: SpanKind.INTERNAL, startTime: startWallMs, attributes, links }
    const span = tracer.startSpan(name, options)
    if (attributes['error.type'] !== undefined) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end()
    return span.spanContext()
  }
  const linkTo = (recordKey: string): Link[] => {
    const of = acquired.get(recordKey)
    return of === undefined ? [] : [{ context: of.span }]
  }
  const held = (recordKey: string, ended: string, attributes: Attributes = {}) => {
    const of = acquired.get(recordKey)
    if (of === undefined) return
    acquired.delete(recordKey)
    write('fencepost.hold', of.atWallMs, { ...of.attributes, ...attributes, 'fencepost.outcome': ended }, [
      { context: of.span },
    ])
  }
  const step = (
    event: Extract<CoreEvent, { kind: 'lease_renewed' | 'lease_released' | 'outcome_offered' }>,
    name: string,
    failed: boolean,
  ) => {
    const links = linkTo(event.recordKey)
    if (links.length === 0 && trace.getActiveSpan() === undefined) return
    const attributes = {
      'fencepost.key_hash': keyHashOf(event.recordKey),
      'fencepost.outcome': event.result,
      ...(failed ? { 'error.type': event.result } : {}),
    }
    write(name, Date.now() - event.durationMs, attributes, links)
  }

  return (event) => {
    switch (event.kind) {
      case 'claim_ended': {
        // The sidecar's own claim, or that of a request that is not recorded.
        if (trace.getActiveSpan() === undefined) return
        const { recordKey, result, token } = event
        const attributes: Attributes = {
          'fencepost.key_hash': keyHashOf(recordKey),
          'fencepost.quorum.nodes': nodeCount,
          'fencepost.quorum.required': required,
          ...(token === undefined ? {} : { 'fencepost.lock_id': lockIdOf({ key: recordKey, token }) }),
        }
        const span = write('fencepost.acquire', Date.now() - event.durationMs, {
          ...attributes,
          'fencepost.outcome': result,
          'fencepost.attempts': event.rounds,
          ...(event.answered === undefined ? {} : { 'fencepost.quorum.reached': event.answered }),
          ...(result === 'unavailable' || result === 'damaged' ? { 'error.type': result } : {}),
        })
        if (result !== 'granted') return
        remember(acquired, recordKey, { span, atWallMs: Date.now(), attributes })
        return
      }
      case 'lease_renewed':
        step(event, 'fencepost.renew', event.result !== 'renewed')
        return
      case 'outcome_offered':
        step(event, 'fencepost.release', event.result !== 'recorded')
        if (event.result === 'recorded') held(event.recordKey, 'completed')
        return
      case 'lease_released':
        step(event, 'fencepost.release', event.result !== 'released')
        if (event.result === 'released') held(event.recordKey, 'released')
        return
      case 'lease_ended':
        held(event.recordKey, event.ended, { 'fencepost.lease.remaining_ms': Math.round(event.remainingMs) })
        return
      case 'decided':
        trace.getActiveSpan()?.setAttributes({
          'fencepost.outcome': event.decision,
          'fencepost.entrypoint': event.entrypoint,
          ...(event.lockId === undefined ? {} : { 'fencepost.lock_id': event.lockId }),
        })
        return
      default:
        return
    }
  }
}

function tracedNode(node: RecordNode): RecordNode {
  const tracer = trace.getTracer('fencepost')
  return {
    name: node.name,
    execute: async (command) => {
      // Only for recorded requests: timed renewals and watches have no parent worth five spans.
      if (trace.getActiveSpan()?.isRecording() !== true) return node.execute(command)
      const attributes = {
        'db.system.name': 'redis',
        'db.operation.name': 'EVALSHA',
        'db.stored_procedure.name': command.kind,
        'fencepost.node': node.name,
      }
      const span = tracer.startSpan(`EVALSHA ${command.kind}`, { kind: SpanKind.CLIENT, attributes })
      const answer = await node.execute(command)
      span.setAttribute('fencepost.answer', answer.kind)
      if (answer.kind === 'unreachable')
        span.setAttribute('error.type', answer.reason).setStatus({ code: SpanStatusCode.ERROR })
      span.end()
      return answer
    },
  }
}

/** The caller's span around ours, if it named one. */
function contextOf(header: (name: string) => string | undefined): Context {
  const caller = callerOf(header('traceparent'))
  if (caller === undefined) return ROOT_CONTEXT
  const { traceId, spanId, flags } = caller
  const state = header('tracestate')
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: flags,
    isRemote: true,
    ...(state === undefined ? {} : { traceState: createTraceState(state) }),
  })
}

/** The first 16 digits of the hash in the record's key: enough to find the record, and not the client's key. */
function keyHashOf(recordKey: string): string {
  return recordKey.slice(recordKey.lastIndexOf(':') + 1).slice(0, 16)
}

/** The state of the key: `taken_over` where an earlier holder ended without an outcome, so this may be the second execution. */
function ownBaggage({ lockId, attempt }: ClaimShown): Record<string, string> {
  const keyState = attempt > 1 ? 'taken_over' : 'claimed'
  return { lock_id: lockId, key_hash: lockId.split('-')[0] as string, key_state: keyState }
}

/** For a request that is not recorded: none of its spans may join the recorded trace of its caller. */
const UNRECORDED: RequestTrace = {
  run: (work) => (context.active() === ROOT_CONTEXT ? work() : context.with(ROOT_CONTEXT, work)),
  ended: () => {},
}

/** The SDK asks for each span; spans exist only after the decision to record. */
const ALREADY_DECIDED: NonNullable<NodeSDKConfiguration['sampler']> = {
  shouldSample: (parent) => {
    const caller = trace.getSpanContext(parent)
    const recorded = caller === undefined || (caller.traceFlags & SAMPLED) !== 0
    return { decision: recorded ? RECORD : DROP }
  },
  toString: () => 'fencepost',
}

const DROP = 0
const RECORD = 2

/** The headers of a span towards the application. */
function headersOf({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceHeaders {
  const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
  const tracestate = traceState?.serialize() ?? ''
  return tracestate === '' ? { traceparent } : { traceparent, tracestate }
}
