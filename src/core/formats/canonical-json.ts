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

import { canonicalNumber } from './decimal.ts'
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
