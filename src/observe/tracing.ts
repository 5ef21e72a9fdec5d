/**
 * Spans: one for each request and for each command to a node; those of claims are `claim-spans.ts`.
 *
 * Written by hand on OpenTelemetry's API. The ready-made instrumentation of ioredis would
 * export the arguments of EVAL, which are keys and owners; no span here has a key, an owner, a path or a header. No
 * span stays open between two calls: a hold is written when it is over, and later spans of a claim, in another call or
 * trace, link to it. Loaded only if tracing is on.
 *
 * Whether a trace is recorded is decided first: a request that is not recorded has no span, no context and no
 * attribute, only the `traceparent` that says so to the application.
 *
 * Sources: OpenTelemetry, semantic conventions for HTTP spans and database client calls; SDK environment variables.
 */

import {
  type Attributes,
  type Context,
  context,
  createTraceState,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { NodeSDK, type NodeSDKConfiguration } from '@opentelemetry/sdk-node'
import type { Logger } from 'pino'
import type { Random } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import type { RecordNode } from '../core/ports.ts'
import {
  type ClaimShown,
  mergedBaggage,
  type RequestTrace,
  type TracedRequest,
  type Tracing,
} from '../core/tracing.ts'
import { claimSpans, decisionAttributes } from './claim-spans.ts'
import { diagnosisTo, speakThrough } from './trace-diagnosis.ts'
import {
  type Caller,
  callerOf,
  inheritedOr,
  isRecorded,
  linesOfSpan,
  SAMPLED,
  withTrace,
} from './trace-headers.ts'

type TracingOptions = {
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

type OpenTracing = Tracing &
  AsyncDisposable & {
    readonly subscriber: Events['publish']
    /** The active span, if it is recorded. */
    active(): ActiveTrace | undefined
    /** One span for each command to a node, if its request is recorded. */
    tracedNode(node: RecordNode): RecordNode
  }

/** How long the end of the process waits for spans to be sent. */
const FLUSH_MS = 1_000

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
  const claims = claimSpans(options)

  return {
    request: (traced) => {
      const caller = callerOf(traced.header)
      if (!isRecorded(caller, options)) return UNRECORDED
      const inbound = contextOf(caller)
      const { name, attributes } = serverSpan(traced)
      const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, inbound)
      const within = trace.setSpan(inbound, span)
      return {
        run: (work) => context.with(within, work),
        ended: (status, decided) => {
          if (decided !== undefined) span.setAttributes(decisionAttributes(decided))
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
      const ours =
        span === undefined ? inheritedOr(headers, options.random) : linesOfSpan(span.spanContext(), headers)
      return withTrace(headers, ours, own)
    },
    baggage: (inbound, claim) =>
      options.baggage ? mergedBaggage(inbound === undefined ? [] : [inbound], ownBaggage(claim)) : undefined,
    claimed: claims.claimed,
    resumed: claims.resumed,
    subscriber: claims.subscriber,
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
  if (span === undefined) return undefined
  const { traceId, spanId, traceFlags } = span.spanContext()
  // Also of a span that has ended: the line about a tunnel is written when the tunnel ends.
  if ((traceFlags & SAMPLED) === 0) return undefined
  return { traceId, spanId }
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

/** The caller's span around ours, if it named one. That the request is recorded is decided. */
function contextOf(caller: Caller | undefined): Context {
  if (caller === undefined) return ROOT_CONTEXT
  const { traceId, spanId, tracestate } = caller
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: SAMPLED,
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  })
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

/** RFC 9110, section 9.3, and RFC 5789: to the conventions every other method is `_OTHER`. */
const KNOWN_METHODS: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'CONNECT',
  'OPTIONS',
  'TRACE',
])
/** A name or an address, in brackets where it has colons, and a port. */
const HOST = /^(\[[^\]]+\]|[^:]+)(?::([0-9]{1,5}))?$/

/**
 * Method and host are the client's, so each method that is not a known one has the same name. Its address, user agent, path and query are
 * not there: they say who somebody is, or carry keys.
 */
export function serverSpan({ method, route, scheme, host, protocolVersion }: TracedRequest): {
  readonly name: string
  readonly attributes: Attributes
} {
  const known = KNOWN_METHODS.has(method)
  const verb = known ? method : 'HTTP'
  const [statedScheme, addressed] = [scheme(), host()]
  return {
    name: route === undefined ? verb : `${verb} ${route}`,
    attributes: {
      'http.request.method': known ? method : '_OTHER',
      ...(known ? {} : { 'http.request.method_original': method }),
      ...(statedScheme === undefined ? {} : { 'url.scheme': statedScheme }),
      ...(protocolVersion === undefined ? {} : { 'network.protocol.version': protocolVersion }),
      ...(route === undefined ? {} : { 'http.route': route }),
      ...(addressed === undefined ? {} : addressOf(addressed)),
    },
  }
}

function addressOf(host: string): Attributes {
  const [, address, port] = HOST.exec(host.trim()) ?? []
  if (address === undefined) return {}
  const plain = address.startsWith('[') ? address.slice(1, -1) : address
  return { 'server.address': plain, ...(port === undefined ? {} : { 'server.port': Number(port) }) }
}

const DEFAULT = 'fencepost'

export type NamingVariables = {
  /** `OTEL_SERVICE_NAME` */
  readonly serviceName?: string | undefined
  /** `OTEL_RESOURCE_ATTRIBUTES` */
  readonly resourceAttributes?: string | undefined
}

/** `OTEL_SERVICE_NAME` goes before `service.name` in `OTEL_RESOURCE_ATTRIBUTES`; an empty variable is as one that is not set. */
export function serviceNameOf({ serviceName = '', resourceAttributes = '' }: NamingVariables): string {
  return serviceName.trim() || attribute('service.name', resourceAttributes) || DEFAULT
}

/** Of `key=value,key=value`, where values are percent-encoded. */
function attribute(key: string, attributes: string): string | undefined {
  for (const member of attributes.split(',')) {
    const [name, ...value] = member.split('=')
    if (name?.trim() === key) return decoded(value.join('=').trim())
  }
  return undefined
}

function decoded(value: string): string | undefined {
  try {
    return decodeURIComponent(value)
  } catch {
    return undefined
  }
}
