/**
 * The canonical form of a JSON document, where it has one that loses nothing.
 *
 * Two documents have the same canonical form exactly when they mean the same. That is true of RFC 8785 only for
 * documents without what it silently merges, so each of these makes the document `raw` instead, to be compared byte for
 * byte: a member name twice in one object, a number that a double does not keep, minus zero, a lone surrogate. What is
 * no JSON at all, begins with a byte order mark, or is beyond a limit of `json.ts` is `raw` too. Raw is never wrong: it
 * may tell two equal documents apart, it never takes two different ones for one.
 *
 * A selection is applied first. What it drops does not count: a lossy number in an excluded member does no harm.
 *
 * Source: RFC 8785, section 3.2; RFC 7493 (I-JSON), section 2, for what must not be relied upon.
 */

import { type Json, type JsonRefusal, parseJson } from './json.ts'
import { type Selection, select } from './json-pointer.ts'

export type RawJsonReason =
  | JsonRefusal
  | 'duplicate_member'
  | 'number_not_exact'
  | 'negative_zero'
  | 'lone_surrogate'
  /** No pointer of an `include` matched: comparing empty selections would make all such bodies one. */
  | 'nothing_included'

export type CanonicalJson =
  | { readonly kind: 'canonical'; readonly text: string }
  | { readonly kind: 'raw'; readonly reason: RawJsonReason; readonly detail: string }

export function canonicalJson(bytes: Uint8Array, selection?: Selection): CanonicalJson {
  const parsed = parseJson(bytes)
  if (parsed.kind === 'refused') return { kind: 'raw', reason: parsed.reason, detail: parsed.detail }
  const chosen = selection === undefined ? parsed.value : select(parsed.value, selection)
  if (chosen === undefined)
    return { kind: 'raw', reason: 'nothing_included', detail: 'no included pointer chose a value' }
  return writeCanonical(chosen)
}

/** Whether the bytes are JSON text in UTF-8 from first to last, also where the canonical form would lose something. */
export function isJsonText(json: CanonicalJson): boolean {
  if (json.kind === 'canonical') return true
  switch (json.reason) {
    case 'duplicate_member':
    case 'number_not_exact':
    case 'negative_zero':
    case 'lone_surrogate':
    case 'nothing_included':
      return true
    // Beyond a limit the rest was not read.
    case 'too_deep':
    case 'too_many_values':
    case 'byte_order_mark':
    case 'invalid_utf8':
    case 'syntax':
      return false
  }
}

type Loss = Extract<CanonicalJson, { kind: 'raw' }>

/** The RFC 8785 text of a document, or why it would lose something. */
export function writeCanonical(document: Json): CanonicalJson {
  const pieces: string[] = []
  const loss = write(document, pieces)
  return loss ?? { kind: 'canonical', text: pieces.join('') }
}

function write(value: Json, out: string[]): Loss | undefined {
  switch (value.kind) {
    case 'null':
      out.push('null')
      return undefined
    case 'boolean':
      out.push(value.value ? 'true' : 'false')
      return undefined
    case 'number':
      return writeNumber(value.text, out)
    case 'string':
      return writeString(value.value, out)
    case 'array':
      return writeArray(value, out)
    case 'object':
      return writeObject(value, out)
  }
}

function writeNumber(text: string, out: string[]): Loss | undefined {
  const number = canonicalNumber(text)
  if (number.kind === 'lossless') {
    out.push(number.text)
    return undefined
  }
  const detail =
    number.reason === 'negative_zero' ? 'minus zero would become 0' : 'a number is no exact double'
  return { kind: 'raw', reason: number.reason, detail }
}

function writeString(value: string, out: string[]): Loss | undefined {
  if (!value.isWellFormed())
    return { kind: 'raw', reason: 'lone_surrogate', detail: 'a string has a lone surrogate' }
  // For well-formed text JSON.stringify escapes exactly what RFC 8785, section 3.2.2.2, escapes, in the same way.
  out.push(JSON.stringify(value))
  return undefined
}

function writeArray(array: Extract<Json, { kind: 'array' }>, out: string[]): Loss | undefined {
  out.push('[')
  for (const [index, item] of array.items.entries()) {
    if (index > 0) out.push(',')
    const loss = write(item, out)
    if (loss !== undefined) return loss
  }
  out.push(']')
  return undefined
}

function writeObject(object: Extract<Json, { kind: 'object' }>, out: string[]): Loss | undefined {
  // By UTF-16 code units, as RFC 8785, section 3.2.3, wants it: that is how JavaScript compares strings.
  const members = object.members.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  out.push('{')
  let before: string | undefined
  for (const member of members) {
    if (before === member.name)
      return { kind: 'raw', reason: 'duplicate_member', detail: 'a member name is there twice in one object' }
    if (before !== undefined) out.push(',')
    before = member.name
    const nameLoss = writeString(member.name, out)
    if (nameLoss !== undefined) return nameLoss
    out.push(':')
    const loss = write(member.value, out)
    if (loss !== undefined) return loss
  }
  out.push('}')
  return undefined
}

/**
 * JSON numbers as exact decimals, and whether a double keeps one.
 *
 * Owns the decision "lossless": the double nearest to the number, printed as the shortest text that reads back as that
 * double, is the same decimal value again. So 0.1, 1.0, 1e0 and 1.50 are; 9007199254740993, 1e400 and the 55
 * digits of what a double makes of 0.1 are not. Compared on the digits, never by another double.
 *
 * Minus zero is refused. RFC 8785 prints it as 0, but a double, and so an application, distinguishes the two.
 *
 * Source: RFC 8785, section 3.2.2.3 and appendix B; ECMA-262, Number::toString.
 */

/** `digits` × 10^`exponent`, digits without zeros at either end; no digits at all: zero. */
type Decimal = { readonly negative: boolean; readonly digits: string; readonly exponent: number }

type CanonicalNumber =
  | { readonly kind: 'lossless'; readonly text: string }
  | { readonly kind: 'lossy'; readonly reason: 'negative_zero' | 'number_not_exact' }

/** @param text a number in the grammar of JSON */
export function decimalOf(text: string): Decimal {
  const negative = text.startsWith('-')
  const exponentAt = text.search(/[eE]/)
  const mantissa = text.slice(negative ? 1 : 0, exponentAt === -1 ? text.length : exponentAt)
  const pointAt = mantissa.indexOf('.')
  const fraction = pointAt === -1 ? '' : mantissa.slice(pointAt + 1)
  const all = (pointAt === -1 ? mantissa : mantissa.slice(0, pointAt)) + fraction

  let from = 0
  while (from < all.length && all.charCodeAt(from) === 0x30) from++
  let to = all.length
  while (to > from && all.charCodeAt(to - 1) === 0x30) to--
  if (from === to) return { negative, digits: '', exponent: 0 }
  // An exponent above 2^53 is rounded here. No double is near such a value, so none passes for lossless.
  const written = exponentAt === -1 ? 0 : Number(text.slice(exponentAt + 1))
  return { negative, digits: all.slice(from, to), exponent: written - fraction.length + (all.length - to) }
}

/** @param text a number in the grammar of JSON */
export function canonicalNumber(text: string): CanonicalNumber {
  const shortest = String(Number(text))
  // The common case, without comparing digits.
  if (shortest === text) return { kind: 'lossless', text }
  const exact = decimalOf(text)
  if (exact.digits === '')
    return exact.negative ? { kind: 'lossy', reason: 'negative_zero' } : { kind: 'lossless', text: '0' }
  // An overflow prints "Infinity", an underflow "0": other digits, so not lossless.
  const kept = decimalOf(shortest)
  return kept.digits === exact.digits && kept.exponent === exact.exponent
    ? { kind: 'lossless', text: shortest }
    : { kind: 'lossy', reason: 'number_not_exact' }
}
