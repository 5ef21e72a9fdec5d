/**
 * The headers of a trace: whether the caller's is recorded, and what the application gets.
 *
 * Decides on the text of the headers, so that a request that is not recorded costs no span and no context. They are W3C's, whatever
 * `OTEL_PROPAGATORS` says: the decision to record is read from them, and only one trace goes on to the application.
 *
 * Source: W3C Trace Context, https://www.w3.org/TR/trace-context/ (section 3.2).
 */

import { mergedBaggage } from '../core/baggage.ts'
import type { Random } from '../core/clock.ts'
import type { HeaderList } from '../core/header-list.ts'
import type { ClaimTrace } from '../core/tracing.ts'

export const SAMPLED = 1
/** Version, trace, parent, flags; a later version than the first may append more. */
const TRACEPARENT =
  /^(?:00(?=.{53}$)|(?!00|ff)[0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/

/** The caller's span, as its header names it. */
export function callerOf(
  traceparent: string | undefined,
): (ClaimTrace & { readonly flags: number }) | undefined {
  const [, traceId, spanId, flags] = (traceparent === undefined ? null : TRACEPARENT.exec(traceparent)) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  return { traceId, spanId, flags: Number.parseInt(flags, 16) }
}

/** Follows a caller's decision; records a share of the traces that begin here. */
export function isRecorded(
  traceparent: string | undefined,
  { sampleRatio, random }: { readonly sampleRatio: number; readonly random: Pick<Random, 'fraction'> },
): boolean {
  const caller = callerOf(traceparent)
  return caller === undefined ? random.fraction() < sampleRatio : (caller.flags & SAMPLED) !== 0
}

export type TraceHeaders = { readonly traceparent?: string; readonly tracestate?: string }

/** The caller's own header passes unchanged; without a usable one the application gets a trace that is not recorded. */
export function inheritedOr(headers: HeaderList, random: Pick<Random, 'fraction'>): TraceHeaders | undefined {
  for (const [name, value] of headers)
    if (name.length === 11 && name.toLowerCase() === 'traceparent' && TRACEPARENT.test(value))
      return undefined
  return { traceparent: `00-${randomHex(4, random)}-${randomHex(2, random)}-00` }
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
  ours: TraceHeaders | undefined,
  own: Readonly<Record<string, string>>,
): [string, string][] {
  const passed: [string, string][] = []
  const baggageLines: string[] = []
  for (const [name, value] of headers) {
    switch (TRACE_HEADER_LENGTHS.has(name.length) ? name.toLowerCase() : '') {
      case 'baggage':
        baggageLines.push(value)
        break
      case 'traceparent':
      case 'tracestate':
        if (ours !== undefined) break
        passed.push([name, value])
        break
      default:
        passed.push([name, value])
    }
  }
  if (ours?.traceparent !== undefined) passed.push(['traceparent', ours.traceparent])
  if (ours?.tracestate !== undefined) passed.push(['tracestate', ours.tracestate])
  const baggage = mergedBaggage(baggageLines, own)
  if (baggage !== '') passed.push(['baggage', baggage])
  return passed
}

/** The lengths of `baggage`, `tracestate` and `traceparent`: a header of another length needs no further check. */
const TRACE_HEADER_LENGTHS: ReadonlySet<number> = new Set([7, 10, 11])
