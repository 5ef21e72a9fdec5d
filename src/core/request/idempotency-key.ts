/**
 * Reads the idempotency key out of the lines of its header.
 *
 * Owns the rule of what a key is; does not own what a missing or invalid one means to a route, nor how a key reaches
 * Redis (`identity.ts`: only ever hashed). The standard has the quoted form, most clients send the raw form; both forms
 * of one key are one key, because a client library that learns to quote must not execute twice.
 *
 * Source: draft-ietf-httpapi-idempotency-key-header-07, section 2.1; RFC 9651, section 3.3.3.
 */

import { parseStringItem } from '../formats/structured-field.ts'
import { trimOws } from '../header-list.ts'

/** Longest key in bytes. A longer one is refused, never cut: two keys may begin alike. */
export const KEY_BYTES_MAX = 255

/** Of a key that is made of parts, encoded: they name resources by whole paths, and each slash of them takes three bytes. */
export const KEY_OF_PARTS_BYTES_MAX = 4_096

type KeyFault =
  | 'several_lines'
  | 'empty'
  | 'not_a_structured_string'
  | 'unquoted'
  | 'not_visible_ascii'
  | 'list'
  | 'too_long'
  | 'too_short'
  | 'not_a_uuid'
  /** A part read from the query or the body is an object, an array, or is there more than once. */
  | 'not_one_scalar'
  /** The body that a part should be read from is not readable JSON. */
  | 'unreadable_body'

export type ParsedKey =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'missing' }
  /** `detail` is a sentence for the client, with the limit where there is one; it never repeats the key. */
  | { readonly kind: 'invalid'; readonly reason: KeyFault; readonly detail: string }

export type KeyOptions = {
  /** Only the quoted form. */
  readonly strict: boolean
  /** Fewest characters, at least 1. */
  readonly minLength: number
  /** Default {@link KEY_BYTES_MAX}. */
  readonly bytesMax?: number
  /** RFC 9562 textual form, any version, either case. The key is still compared byte for byte. */
  readonly format?: 'any' | 'uuid'
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const VISIBLE_ASCII = /^[!-~]*$/

/** @param lines the values of all header lines of that name, each as it crossed the wire (Latin-1) */
export function parseIdempotencyKey(lines: readonly string[], options: KeyOptions): ParsedKey {
  const [line] = lines
  if (line === undefined) return { kind: 'missing' }
  if (lines.length > 1)
    return invalidKey('several_lines', `the key has ${lines.length} header lines, at most 1 is accepted`)

  const value = trimOws(line)
  if (value.startsWith('"')) {
    const key = parseStringItem(value)
    if (key === undefined)
      return invalidKey(
        'not_a_structured_string',
        'the key begins with a quote and is no structured-field string',
      )
    return checkKey(key, options)
  }
  if (value === '') return invalidKey('empty', 'the key is empty, at least 1 character is expected')
  if (options.strict) return invalidKey('unquoted', 'only a quoted structured-field string is accepted')
  if (value.includes(','))
    return invalidKey('list', 'an unquoted key has no comma: one key is expected, no list')
  if (!VISIBLE_ASCII.test(value))
    return invalidKey('not_visible_ascii', 'an unquoted key consists of visible ASCII characters')
  return checkKey(value, options)
}

/** The rules for every key, whatever its source. */
export function checkKey(key: string, options: KeyOptions): ParsedKey {
  if (key === '') return invalidKey('empty', 'the key is empty, at least 1 character is expected')
  const { bytesMax = KEY_BYTES_MAX } = options
  if (key.length > bytesMax)
    return invalidKey('too_long', `the key has ${key.length} bytes, at most ${bytesMax} are accepted`)
  if (key.length < options.minLength)
    return invalidKey(
      'too_short',
      `the key has ${key.length} characters, at least ${options.minLength} are expected`,
    )
  if (options.format === 'uuid' && !UUID.test(key)) return invalidKey('not_a_uuid', 'the key is not a UUID')
  return { kind: 'key', key }
}

export function invalidKey(reason: KeyFault, detail: string): Extract<ParsedKey, { kind: 'invalid' }> {
  return { kind: 'invalid', reason, detail }
}
