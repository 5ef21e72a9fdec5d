/**
 * The headers of a trace: whether the caller's is recorded, and what the application gets.
 *
 * Decides on the text of the headers, so that a request that is not recorded costs no span and no context. They are W3C's, whatever
 * `OTEL_PROPAGATORS` says: the decision to record is read from them, and only one trace goes on to the application. A caller that has
 * none of them may name its trace in B3's one header or its several, or in X-Ray's: our span takes its place in the same form, so that an
 * application that reads only that form stands below it, in the caller's trace.
 *
 * Sources: W3C Trace Context, https://www.w3.org/TR/trace-context/ (section 3.2); https://github.com/openzipkin/b3-propagation; AWS X-Ray,
 * "Tracing header".
 */

import type { SpanContext } from '@opentelemetry/api'
import type { Random } from '../core/clock.ts'
import { type HeaderList, linesOf } from '../core/header-list.ts'
import { type ClaimTrace, mergedBaggage } from '../core/tracing.ts'

export const SAMPLED = 1
/** Trace Context Level 2: the digits at the end of the id are random, so that samplers may count on them. */
const RANDOM = 2
/** Version, trace, parent, flags; a later version than the first may append more. */
const TRACEPARENT =
  /^(?:00(?=.{53}$)|(?!00|ff)[0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/

/** The caller's span. `recorded` undefined: it leaves the decision to us. */
export type Caller = ClaimTrace & {
  readonly recorded: boolean | undefined
  readonly tracestate: string | undefined
}

export function callerOf(read: (name: string) => string | undefined): Caller | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(read('traceparent') ?? '') ?? []
  if (traceId !== undefined && spanId !== undefined && flags !== undefined)
    return {
      traceId,
      spanId,
      recorded: (Number.parseInt(flags, 16) & SAMPLED) !== 0,
      tracestate: read('tracestate'),
    }
  const foreign = foreignCaller(read)
  return foreign && { ...foreign, tracestate: undefined }
}

/** Follows a caller's decision; records a share of the traces that begin here, and of those whose caller left it to us. */
export function isRecorded(
  caller: Caller | undefined,
  { sampleRatio, random }: { readonly sampleRatio: number; readonly random: Pick<Random, 'fraction'> },
): boolean {
  return caller?.recorded ?? random.fraction() < sampleRatio
}

/** What takes the place of the caller's lines, each of another name. */
type TraceLines = HeaderList

/** The caller's own lines pass unchanged; without a usable one the application gets a trace that is not recorded. */
export function inheritedOr(headers: HeaderList, random: Pick<Random, 'fraction'>): TraceLines | undefined {
  if (callerOf(readerOf(headers)) !== undefined) return undefined
  return [['traceparent', `00-${randomHex(4, random)}-${randomHex(2, random)}-00`]]
}

/**
 * Of our span, in W3C's form and in those in which its caller named its own. What the caller says of the whole trace goes on as it came:
 * its `tracestate`, of which the library keeps only 512 characters or nothing, and that the trace's id is random.
 */
export function linesOfSpan(
  { traceId, spanId, traceFlags }: Pick<SpanContext, 'traceId' | 'spanId' | 'traceFlags'>,
  headers: HeaderList,
): TraceLines {
  const read = readerOf(headers)
  const [, , , callersFlags] = TRACEPARENT.exec(read('traceparent') ?? '') ?? []
  const flags = traceFlags | (Number.parseInt(callersFlags ?? '0', 16) & RANDOM)
  const ours = ['traceparent', `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`] as const
  if (callersFlags === undefined)
    return [ours, ...foreignLines({ traceId, spanId, recorded: (traceFlags & SAMPLED) !== 0 }, read)]
  const tracestate = read('tracestate')
  return tracestate === undefined ? [ours] : [ours, ['tracestate', tracestate]]
}

/** Several lines are one list, and several `traceparent` are none. */
function readerOf(headers: HeaderList): (name: string) => string | undefined {
  return (name) => linesOf(headers, name).join(',') || undefined
}

/** It only names a trace and may be guessed. Eight digits per word. */
function randomHex(words: number, random: Pick<Random, 'fraction'>): string {
  let digits = ''
  for (let word = 0; word < words; word += 1)
    digits += (Math.floor(random.fraction() * 0xffff_ffff) + 1).toString(16).padStart(8, '0')
  return digits
}

/** @param ours replaces the caller's; undefined keeps the caller's */
export function withTrace(
  headers: HeaderList,
  ours: TraceLines | undefined,
  own: Readonly<Record<string, string>>,
): [string, string][] {
  const passed: [string, string][] = []
  const baggageLines: string[] = []
  const replaced = ours === undefined ? NONE : new Set([...W3C, ...ours.map(([name]) => name.toLowerCase())])
  for (const [name, value] of headers) {
    // Without a trace of ours only the baggage is looked at.
    const lower = ours === undefined && name.length !== 7 ? '' : name.toLowerCase()
    if (lower === 'baggage') baggageLines.push(value)
    else if (!replaced.has(lower)) passed.push([name, value])
  }
  for (const [name, value] of ours ?? []) passed.push([name, value])
  const baggage = mergedBaggage(baggageLines, own)
  if (baggage !== '') passed.push(['baggage', baggage])
  return passed
}

const NONE: ReadonlySet<string> = new Set()
const W3C = ['traceparent', 'tracestate']

/** `recorded` undefined: the caller leaves the decision to us. */
type ForeignCaller = ClaimTrace & { readonly recorded: boolean | undefined }

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
function foreignCaller(read: Read): ForeignCaller | undefined {
  for (const { caller } of FORMS) {
    const found = caller(read)
    if (found !== undefined) return found
  }
  return undefined
}

/** Our span in every form in which the caller named one. */
function foreignLines(span: Span, read: Read): HeaderList {
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
