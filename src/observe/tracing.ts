/**
 * Spans: one for each request, and of each claim its life as `fencepost.acquire → hold → renew → release`.
 *
 * Written by hand on OpenTelemetry's API, from the events of the core. The ready-made instrumentation of ioredis would
 * export the arguments of EVAL, which are keys and owners; none of ours carries a key, an owner, a path or a header. No
 * span is kept open between two calls: a hold is written when it is over, and what follows a claim in another call or
 * trace links to it. Loaded only where tracing is on.
 *
 * Sources: OpenTelemetry semantic conventions for HTTP spans and database client calls.
 */

import {
  type Attributes,
  context,
  type Link,
  propagation,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { NodeSDK, type NodeSDKConfiguration } from '@opentelemetry/sdk-node'
import { mergedBaggage } from '../core/baggage.ts'
import { lockIdOf } from '../core/claims/lease.ts'
import type { CoreEvent } from '../core/events.ts'
import type { RecordNode } from '../core/ports.ts'
import type { Tracing } from '../core/tracing.ts'
import type { Subscriber } from './fan-out.ts'

export type TracingOptions = {
  readonly serviceName: string
  readonly version: string
  readonly sampleRatio: number
  readonly baggage: boolean
  readonly nodeCount: number
  readonly required: number
}

export type ActiveTrace = { readonly traceId: string; readonly spanId: string }

export type OpenTracing = Tracing &
  AsyncDisposable & {
    readonly subscriber: Subscriber
    /** Of the span that is active and recorded. */
    active(): ActiveTrace | undefined
    /** One span for each command to a node, where its request is recorded. */
    tracedNode(node: RecordNode): RecordNode
  }

/** Claims whose later spans link to them. Beyond it the oldest is forgotten, and its later spans have no link. */
const ACQUIRED_MAX = 10_000
/** How long the end of the process waits for what is still to be sent. */
const FLUSH_MS = 1_000

type Acquired = { readonly span: SpanContext; readonly atWallMs: number; readonly attributes: Attributes }

export function openTracing(options: TracingOptions): OpenTracing {
  const sdk = new NodeSDK({
    serviceName: options.serviceName,
    sampler: ratioSampler(options.sampleRatio),
    instrumentations: [],
    // Metrics have Prometheus and logs have standard output: the SDK would send both as well.
    metricReaders: [],
    logRecordProcessors: [],
  })
  sdk.start()
  const tracer = trace.getTracer('fencepost', options.version)

  return {
    request: ({ method, route, protocolVersion, header }) => {
      const inbound = propagation.extract(context.active(), header, HEADERS)
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
          // Of a server only 5xx is an error: 409 is an answer.
          if (status !== undefined && status >= 500)
            span.setAttribute('error.type', String(status)).setStatus({ code: SpanStatusCode.ERROR })
          span.end()
        },
      }
    },
    outgoing: (headers, lockId) => {
      const injected: Record<string, string> = {}
      propagation.inject(context.active(), injected)
      const { traceparent, tracestate } = injected
      const replaced = new Set(
        traceparent === undefined ? ['baggage'] : ['baggage', 'traceparent', 'tracestate'],
      )
      const lines = headers.filter(([name]) => name.toLowerCase() === 'baggage').map(([, value]) => value)
      const own = options.baggage && lockId !== undefined ? ownBaggage(lockId) : {}
      const baggage = mergedBaggage(lines, own)
      return [
        ...headers.filter(([name]) => !replaced.has(name.toLowerCase())).map(pair),
        ...(traceparent === undefined ? [] : [pair(['traceparent', traceparent])]),
        ...(tracestate === undefined ? [] : [pair(['tracestate', tracestate])]),
        ...(baggage === '' ? [] : [pair(['baggage', baggage])]),
      ]
    },
    baggage: (inbound, lockId) =>
      options.baggage ? mergedBaggage(inbound === undefined ? [] : [inbound], ownBaggage(lockId)) : undefined,
    subscriber: lifecycle(options),
    active,
    tracedNode: (node) => tracedNode(node),
    [Symbol.asyncDispose]: async () => {
      const late = new Promise<void>((resolve) => setTimeout(resolve, FLUSH_MS).unref())
      await Promise.race([sdk.shutdown().catch(() => {}), late])
    },
  }
}

function active(): ActiveTrace | undefined {
  const span = trace.getActiveSpan()
  if (span === undefined || !span.isRecording()) return undefined
  const { traceId, spanId } = span.spanContext()
  return { traceId, spanId }
}

/** The spans of a claim, from its events. */
function lifecycle({ version, nodeCount, required }: TracingOptions): Subscriber {
  const tracer = trace.getTracer('fencepost', version)
  const acquired = new Map<string, Acquired>()

  /** A span that is over: from so long ago until now, beneath whatever is active. */
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
        // A claim of the sidecar's own, for no request.
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
        acquired.set(recordKey, { span, atWallMs: Date.now(), attributes })
        if (acquired.size > ACQUIRED_MAX) acquired.delete(acquired.keys().next().value as string)
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
      // Only where a request is recorded: renewals by the clock and watches have no parent worth five spans.
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

const HEADERS = {
  keys: () => ['traceparent', 'tracestate', 'baggage'],
  get: (header: (name: string) => string | undefined, name: string) => header(name),
}

const pair = ([name, value]: readonly [string, string]): [string, string] => [name, value]

/** The first 16 digits of the hash in the record's key: enough to find the record, and nobody's key. */
function keyHashOf(recordKey: string): string {
  return recordKey.slice(recordKey.lastIndexOf(':') + 1).slice(0, 16)
}

function ownBaggage(lockId: string): Record<string, string> {
  return { lock_id: lockId, key_hash: lockId.split('-')[0] as string }
}

/** A caller's decision is followed; of the traces that begin here a share is recorded, the same share by any sidecar. */
function ratioSampler(ratio: number): NonNullable<NodeSDKConfiguration['sampler']> {
  return {
    shouldSample: (parent, traceId) => {
      const caller = trace.getSpanContext(parent)
      const sampled =
        caller === undefined
          ? Number.parseInt(traceId.slice(-8), 16) / 2 ** 32 < ratio
          : (caller.traceFlags & 1) === 1
      return { decision: sampled ? RECORD : DROP }
    },
    toString: () => `fencepost{${ratio}}`,
  }
}

const DROP = 0
const RECORD = 2
