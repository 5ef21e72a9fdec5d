/**
 * The query of a target in canonical form.
 *
 * The order of different names is not relevant, the order of the values of one name is. Names are different where the first letters
 * and digits of each are (in any case, escapes undone), because others may be one value to an application: `a[]` and `a[0]` to PHP and Rack,
 * `a.b` and `a_b` to PHP, `A` and `a` to ASP.NET. Percent-encoding is undone for unreserved characters only (letters, digits, `-._~`),
 * everything else stays byte for byte, `%2f` and `%2F` included. A query with a `;`, which divides for Rack 2, Perl and older Python, or with
 * an escape cut short, is taken as it came.
 *
 * Source: RFC 3986, sections 2.3 and 6.2.2.2.
 */

import { wireBytes } from './framing.ts'

/** Most parameters that are sorted. A query with more is taken as it came: its order is then relevant. */
export const QUERY_PARAMETERS_MAX = 10_000

type CanonicalQuery =
  | { readonly kind: 'absent' }
  | { readonly kind: 'sorted'; readonly text: string }
  | { readonly kind: 'verbatim'; readonly text: string }

/** @param query as it crossed the wire (Latin-1), without the `?` */
export function canonicalQuery(query: string | undefined): CanonicalQuery {
  if (query === undefined) return { kind: 'absent' }
  const segments = query.split('&')
  if (segments.length > QUERY_PARAMETERS_MAX || query.includes(';') || !hasOnlyWholeEscapes(query))
    return { kind: 'verbatim', text: query }
  const parameters = segments.map((segment) => ({ text: normalise(segment), name: sharedName(segment) }))
  // Latin-1 text compares by code as its bytes do; equal names keep their order, because sorting is stable.
  parameters.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  return { kind: 'sorted', text: parameters.map((parameter) => parameter.text).join('&') }
}

/**
 * The values of one name as written, in order, normalised; a parameter without `=` has the empty value. Where a `;` divides for some
 * applications, what they read as well.
 *
 * @param name as an application reads it: text without escapes
 */
export function queryValues(query: string | undefined, name: string): readonly string[] {
  if (query === undefined) return []
  const wanted = Buffer.from(name, 'utf8').toString('latin1')
  const valuesIn = (segments: readonly string[]) =>
    segments.filter((segment) => nameText(segment) === wanted).map((segment) => normalise(valueText(segment)))
  const values = valuesIn(query.split('&'))
  if (!query.includes(';')) return values
  const others = valuesIn(query.split(/[&;]/))
  return values.length === others.length && values.every((value, at) => value === others[at])
    ? values
    : [...values, ...others]
}

/**
 * Latin-1 text of the bytes that a form or query component stands for; malformed escapes stay as they are.
 * Over bytes, because a form may be megabytes of escapes. Text that no wire carries stands for itself.
 */
export function percentDecode(text: string): string {
  const bytes = wireBytes(text)
  if (bytes === undefined) return text
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    const escaped = byte === PERCENT ? hexDigit(bytes[at + 1]) * 16 + hexDigit(bytes[at + 2]) : Number.NaN
    if (!Number.isNaN(escaped)) at += 2
    bytes[length++] = Number.isNaN(escaped) ? (byte === PLUS ? SPACE : byte) : escaped
  }
  return bytes.toString('latin1', 0, length)
}

/** Every `%` begins an escape of two hex digits. */
export function hasOnlyWholeEscapes(text: string): boolean {
  return !/%(?![0-9A-Fa-f]{2})/.test(text)
}

const PERCENT = 0x25
const PLUS = 0x2b
const SPACE = 0x20

/** NaN for what is no hex digit. */
function hexDigit(code: number | undefined): number {
  if (code === undefined) return Number.NaN
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : Number.NaN
}

const ESCAPE = /%([0-9A-Fa-f]{2})/g
const UNRESERVED = /[A-Za-z0-9\-._~]/

function normalise(segment: string): string {
  // Undoing escapes next to a stray `%` could make a new escape of it.
  if (!hasOnlyWholeEscapes(segment)) return segment
  return segment.replace(ESCAPE, (encoded, hex: string) => {
    const char = String.fromCharCode(Number.parseInt(hex, 16))
    return UNRESERVED.test(char) ? char : encoded
  })
}

function sharedName(segment: string): string {
  return /[a-z0-9]+/.exec(nameText(segment).toLowerCase())?.[0] ?? ''
}

function nameText(segment: string): string {
  const equals = segment.indexOf('=')
  return percentDecode(equals === -1 ? segment : segment.slice(0, equals))
}

function valueText(segment: string): string {
  const equals = segment.indexOf('=')
  return equals === -1 ? '' : segment.slice(equals + 1)
}
