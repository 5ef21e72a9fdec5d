/** Numbers, times, texts and addresses of the page, as a person reads and writes them. */

import type { DeadLetterDecided, Decided } from '../http/operator/schemas.ts'

/** What came of a decision about a record or a question: what it is about has the members of its own. */
export type AnyDecided = Pick<Decided, 'decided'> & Partial<Decided & DeadLetterDecided>

/** `840 ms`, `21 s`, `3 min 4 s`, `2 h 10 min`, `5 d`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return both(`${minutes} min`, seconds % 60, 's')
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? both(`${hours} h`, minutes % 60, 'min') : `${Math.floor(hours / 24)} d`
}

function both(large: string, small: number, unit: string): string {
  return small === 0 ? large : `${large} ${small} ${unit}`
}

/** What is measured, with two digits at least: `0.7 ms`, `12 ms`, `1.2 s`. */
export function milliseconds(ms: number | undefined): string {
  if (ms === undefined) return '–'
  if (ms < 10) return `${ms.toFixed(1)} ms`
  return ms >= 1_000 && ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : duration(ms)
}

/** In UTC, as logs have it: two people compare notes across zones. */
export function timeOf(iso: string): string {
  const at = new Date(iso)
  return Number.isNaN(at.getTime())
    ? iso
    : at
        .toISOString()
        .replace('T', ' ')
        .replace(/\.\d+Z$/, ' UTC')
}

/**
 * Text that came from outside, with its control and format characters written out: they could reverse or hide what stands around
 * them. Line feeds and tabs stay.
 */
export function visible(text: string): string {
  return text.replace(/[^\P{C}\n\t]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16) ?? ''}}`)
}

/** What came of a decision, in one line. */
export function reportOf(
  name: string,
  { decided, because }: Pick<AnyDecided, 'decided' | 'because'>,
): string {
  if (decided) return `${name}: done.`
  return `${name}: not decided.${because === undefined ? '' : ` It had moved on: ${because}.`}`
}

/** What is said of a value, where there is one. */
export function said<T, S>(value: T | undefined, of: (value: T) => S): S | undefined {
  return value === undefined ? undefined : of(value)
}

export function asText(value: unknown): string {
  return visible(typeof value === 'string' ? value : (JSON.stringify(value, undefined, 2) ?? ''))
}

/** Where the reader is: the part of the address behind `#`, which no browser sends to anybody. */
export type Route =
  | { readonly view: 'overview' | 'find' | 'audit' }
  | { readonly view: 'record'; readonly record: string }

export function routeIn(hash: string): Route {
  const [view = '', ...rest] = hash.replace(/^#\/?/, '').split('/')
  const name = decoded(rest.join('/'))
  if (view === 'record' && name !== '') return { view, record: name }
  if (view === 'overview' || view === 'audit') return { view }
  return { view: 'find' }
}

export function linkTo(route: Route): string {
  return route.view === 'record' ? `#/record/${encodeURIComponent(route.record)}` : `#/${route.view}`
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

/** The headers of an answer that an operator types, one a line; a text is what is wrong with them. */
export function headersIn(text: string): Readonly<Record<string, string>> | string {
  const headers = new Map<string, string>()
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (line === '') continue
    const colon = line.indexOf(':')
    if (!/^[^\s:]+:/.test(line)) return `A header is NAME: VALUE, and this line is not: ${line}`
    const name = line.slice(0, colon).toLowerCase()
    // Of two lines one would be lost without a word.
    if (headers.has(name)) return `${name} is given twice; put its values into one line.`
    headers.set(name, line.slice(colon + 1).trim())
  }
  return Object.fromEntries(headers)
}
