/**
 * The headers of a trace: whether the caller's is recorded, and what the application gets.
 *
 * Decides on the text of the headers, so that a request that is not recorded costs no span and no context. They are W3C's, whatever
 * `OTEL_PROPAGATORS` says: the decision to record is read from them, and only one trace goes on to the application. A caller that has
 * none of them may name its trace in another form (`foreign-traces.ts`).
 *
 * Source: W3C Trace Context, https://www.w3.org/TR/trace-context/ (section 3.2).
 */

import type { SpanContext } from '@opentelemetry/api'
import type { Random } from '../core/clock.ts'
import { linesOf } from '../core/formats/header-lines.ts'
import type { HeaderList } from '../core/header-list.ts'
import { type ClaimTrace, mergedBaggage } from '../core/tracing.ts'
import { foreignCaller, foreignLines } from './foreign-traces.ts'

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
export type TraceLines = HeaderList

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
