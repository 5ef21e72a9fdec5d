/**
 * Traces in other headers than W3C's: B3, in its one header and in its several, and X-Ray's.
 *
 * Owns reading the caller's span from them, and writing ours in its place, in the form in which the caller's came: an application that
 * reads only that form then stands below the sidecar's span, in the caller's trace. Where a request has a usable `traceparent`, that one
 * counts, and the others pass as they are.
 *
 * Sources: https://github.com/openzipkin/b3-propagation; AWS X-Ray, "Tracing header".
 */

import type { HeaderList } from '../core/header-list.ts'
import type { ClaimTrace } from '../core/tracing.ts'

/** `recorded` undefined: the caller leaves the decision to us. */
export type ForeignCaller = ClaimTrace & { readonly recorded: boolean | undefined }

type Read = (name: string) => string | undefined
type Span = ClaimTrace & { readonly recorded: boolean }
type Form = {
  readonly caller: (read: Read) => ForeignCaller | undefined
  /** The lines that take the place of the caller's. */
  readonly lines: (span: Span, read: Read) => readonly (readonly [string, string])[]
}

const B3 = /^((?!0+-)(?:[0-9a-f]{16}){1,2})-((?!0{16})[0-9a-f]{16})(?:-([01d])(?:-[0-9a-f]{16})?)?$/i
const TRACE_ID = /^(?!0+$)(?:[0-9a-f]{16}){1,2}$/i
const SPAN_ID = /^(?!0+$)[0-9a-f]{16}$/i
const RECORDED: Readonly<Record<string, boolean>> = {
  '1': true,
  d: true,
  true: true,
  '0': false,
  false: false,
}

const ONE_HEADER: Form = {
  caller: (read) => {
    const [, traceId, spanId, flag] = B3.exec(read('b3') ?? '') ?? []
    if (traceId === undefined || spanId === undefined) return undefined
    return {
      traceId: whole(traceId),
      spanId: spanId.toLowerCase(),
      recorded: RECORDED[flag?.toLowerCase() ?? ''],
    }
  },
  lines: ({ traceId, spanId, recorded }) => [['b3', `${asShort(traceId)}-${spanId}-${recorded ? 1 : 0}`]],
}

const SEVERAL_HEADERS: Form = {
  caller: (read) => {
    const [traceId, spanId] = [read('x-b3-traceid') ?? '', read('x-b3-spanid') ?? '']
    if (!TRACE_ID.test(traceId) || !SPAN_ID.test(spanId)) return undefined
    const recorded = read('x-b3-flags') === '1' || RECORDED[read('x-b3-sampled')?.toLowerCase() ?? '']
    return { traceId: whole(traceId), spanId: spanId.toLowerCase(), recorded }
  },
  lines: ({ traceId, spanId, recorded }, read) => [
    ['X-B3-TraceId', asShort(traceId)],
    ['X-B3-SpanId', spanId],
    ['X-B3-ParentSpanId', (read('x-b3-spanid') as string).toLowerCase()],
    ['X-B3-Sampled', recorded ? '1' : '0'],
  ],
}

const X_RAY: Form = {
  caller: (read) => {
    const members = membersOf(read('x-amzn-trace-id'))
    const [, time, unique] = /^1-([0-9a-f]{8})-([0-9a-f]{24})$/i.exec(members.get('root') ?? '') ?? []
    const spanId = members.get('parent') ?? ''
    // A load balancer of AWS names a trace and no span: nothing that ours could stand below.
    if (time === undefined || unique === undefined || !SPAN_ID.test(spanId)) return undefined
    const traceId = (time + unique).toLowerCase()
    return { traceId, spanId: spanId.toLowerCase(), recorded: RECORDED[members.get('sampled') ?? ''] }
  },
  lines: ({ traceId, spanId, recorded }) => {
    const root = `Root=1-${traceId.slice(0, 8)}-${traceId.slice(8)}`
    return [['X-Amzn-Trace-Id', `${root};Parent=${spanId};Sampled=${recorded ? 1 : 0}`]]
  },
}

const FORMS: readonly Form[] = [ONE_HEADER, SEVERAL_HEADERS, X_RAY]

/** Where the request has no usable `traceparent`. */
export function foreignCaller(read: Read): ForeignCaller | undefined {
  for (const { caller } of FORMS) {
    const found = caller(read)
    if (found !== undefined) return found
  }
  return undefined
}

/** Our span in every form in which the caller named one. */
export function foreignLines(span: Span, read: Read): HeaderList {
  return FORMS.flatMap((form) => (form.caller(read) === undefined ? [] : form.lines(span, read)))
}

function membersOf(header = ''): ReadonlyMap<string, string> {
  return new Map(
    header.split(';').map((member): [string, string] => {
      const [name = '', value = ''] = member.split('=')
      return [name.trim().toLowerCase(), value.trim()]
    }),
  )
}

/** Zipkin's older ids have half the length. */
function whole(traceId: string): string {
  return traceId.toLowerCase().padStart(32, '0')
}

function asShort(traceId: string): string {
  return traceId.startsWith('0'.repeat(16)) ? traceId.slice(16) : traceId
}
