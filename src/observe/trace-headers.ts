/**
 * The headers that carry a trace: whether the caller's is recorded, and what is sent on to the application.
 *
 * Decided on the text of the headers, so that a request that is not recorded costs no span and no context.
 *
 * Source: W3C Trace Context, https://www.w3.org/TR/trace-context/ (section 3.2).
 */

import { mergedBaggage } from '../core/baggage.ts'
import type { Random } from '../core/clock.ts'
import type { HeaderList } from '../core/header-list.ts'

export const SAMPLED = 1
/** Version, trace, parent, flags; a later version may have more behind it. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:$|-)/

/** A caller's decision is followed; of the traces that begin here a share is recorded. */
export function isRecorded(
  traceparent: string | undefined,
  { sampleRatio, random }: { readonly sampleRatio: number; readonly random: Pick<Random, 'fraction'> },
): boolean {
  const flags = traceparent === undefined ? undefined : TRACEPARENT.exec(traceparent)?.[1]
  return flags === undefined ? random.fraction() < sampleRatio : (Number.parseInt(flags, 16) & SAMPLED) !== 0
}

export type TraceHeaders = { readonly traceparent?: string; readonly tracestate?: string }

/** What the caller sent passes as it is; where it sent nothing usable the application is told that nothing is recorded. */
export function inheritedOr(headers: HeaderList, random: Pick<Random, 'fraction'>): TraceHeaders | undefined {
  for (const [name, value] of headers)
    if (name.length === 11 && name.toLowerCase() === 'traceparent' && TRACEPARENT.test(value))
      return undefined
  return { traceparent: `00-${randomHex(4, random)}-${randomHex(2, random)}-00` }
}

/** Not to be guessed it need not be: it names a trace. Eight digits a word. */
function randomHex(words: number, random: Pick<Random, 'fraction'>): string {
  let digits = ''
  for (let word = 0; word < words; word += 1)
    digits += (Math.floor(random.fraction() * 0xffff_ffff) + 1).toString(16).padStart(8, '0')
  return digits
}

/** @param ours instead of the caller's; undefined where its own go on */
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

/** Of `baggage`, `tracestate` and `traceparent`: no other name is looked at more closely. */
const TRACE_HEADER_LENGTHS: ReadonlySet<number> = new Set([7, 10, 11])
