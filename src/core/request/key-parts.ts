/**
 * A key made of parts of the request: headers, query parameters, values of a JSON body, parameters of the path.
 *
 * Each part is percent-encoded and the parts are joined by colons, so that `a` + `b:c` and `a:b` + `c` are two keys. A
 * missing part means that there is no key; `null` is missing, `0`, `false` are values. A value of the body keeps its
 * type: the number 1 and the string "1" are two keys, the numbers 1 and 1.0 are one.
 */

import { canonicalNumber, decimalOf } from '../formats/canonical-json.ts'
import { decodeUtf8, percentEncode } from '../formats/framing.ts'
import { type Json, parseJson } from '../formats/json.ts'
import { parsePointer, valuesAt } from '../formats/json-pointer.ts'
import { percentDecode, queryValues } from '../formats/query.ts'
import { type HeaderList, linesReadAs } from '../header-list.ts'
import type { EntitySource, KeyPart, KeySource } from '../routes/route.ts'
import {
  checkKey,
  invalidKey,
  KEY_OF_PARTS_BYTES_MAX,
  type KeyOptions,
  type ParsedKey,
  parseIdempotencyKey,
} from './idempotency-key.ts'

export type KeyCarrier = {
  readonly headers: HeaderList
  /** Without `?`; undefined where the target has none. */
  readonly query: string | undefined
  readonly pathParameters: Readonly<Record<string, string>>
  /** Without content codings. */
  readonly body: Uint8Array
}

/** The key of a request as its route wants it: the first header that is present, or all parts together. */
export function keyOf(source: KeySource, carrier: KeyCarrier): ParsedKey {
  if (source.parts.length > 0) {
    const joined = joinKeyParts(source.parts, carrier)
    return joined.kind === 'key'
      ? checkKey(joined.key, { ...source, bytesMax: KEY_OF_PARTS_BYTES_MAX })
      : joined
  }
  for (const name of source.headers) {
    const parsed = parseIdempotencyKey(linesReadAs(carrier.headers, name), source)
    if (parsed.kind !== 'missing') return parsed
  }
  return { kind: 'missing' }
}

/**
 * The name of an entity that a route serialises by, encoded like a part of a key. Of a path or a query it is what an application reads
 * there: whoever chose another spelling would otherwise work on the entity beside its holder.
 */
export function entityName(source: EntitySource, carrier: KeyCarrier): ParsedKey {
  const found = readPart(source, carrier)
  if (found.kind !== 'key') return found
  switch (source.in) {
    case 'header':
    case 'body':
      return encodedPart(found.key)
    case 'query':
      return encodedPart(textOf(found.key).trim())
    case 'path':
      // Without the parameters of its segments (RFC 3986, section 3.3); a plus is no space there.
      return encodedPart(textOf(found.key.replaceAll(/;[^/]*/g, '').replaceAll('+', '%2B')).trim())
  }
}

/** What an escaped text stands for; as it is written where that is no text. */
function textOf(escaped: string): string {
  return decodeUtf8(Buffer.from(percentDecode(escaped), 'latin1')) ?? escaped
}

/** All parts together, of whatever length. */
function joinKeyParts(parts: readonly KeyPart[], carrier: KeyCarrier): ParsedKey {
  const texts: string[] = []
  for (const part of parts) {
    const found = readPart(part, carrier)
    const encoded = found.kind === 'key' ? encodedPart(found.key) : found
    if (encoded.kind !== 'key') return encoded
    texts.push(encoded.key)
  }
  return { kind: 'key', key: texts.join(':') }
}

function encodedPart(text: string): ParsedKey {
  if (text === '') return invalidKey('empty', 'a part of the key is empty')
  const key = percentEncode(text)
  return key === undefined
    ? invalidKey('not_one_scalar', 'a part of the key has a lone surrogate')
    : { kind: 'key', key }
}

const ANY_KEY: KeyOptions = { strict: false, minLength: 1, bytesMax: KEY_OF_PARTS_BYTES_MAX }

function readPart(part: KeyPart, carrier: KeyCarrier): ParsedKey {
  switch (part.in) {
    case 'header':
      return parseIdempotencyKey(linesReadAs(carrier.headers, part.name), ANY_KEY)
    case 'query':
      return only(queryValues(carrier.query, part.name))
    case 'path': {
      const own = Object.hasOwn(carrier.pathParameters, part.parameter)
      return only(own ? [carrier.pathParameters[part.parameter]!] : [])
    }
    case 'body':
      return readBodyPart(part.pointer, carrier.body)
  }
}

function only(values: readonly string[]): ParsedKey {
  const [value] = values
  if (value === undefined) return { kind: 'missing' }
  if (values.length > 1)
    return invalidKey('not_one_scalar', `a part of the key is there ${values.length} times, expected once`)
  return { kind: 'key', key: value }
}

function readBodyPart(pointer: string, body: Uint8Array): ParsedKey {
  if (body.length === 0) return { kind: 'missing' }
  const parsed = parseJson(body)
  if (parsed.kind === 'refused') return invalidKey('unreadable_body', `the body is no JSON: ${parsed.detail}`)
  const tokens = parsePointer(pointer)
  const texts = tokens === undefined ? [] : valuesAt(parsed.value, tokens).map(scalarText)
  if (texts.includes(undefined))
    return invalidKey(
      'not_one_scalar',
      'a part of the key is no scalar, is empty, or cannot be written exactly',
    )
  return only(texts.filter((text): text is string => text !== undefined && text !== 'null'))
}

/** Distinct for distinct scalars, also of different types; undefined for what can be no part of a key. */
function scalarText(value: Json): string | undefined {
  switch (value.kind) {
    case 'null':
      return 'null'
    case 'boolean':
      return String(value.value)
    case 'number':
      return numberText(value.text)
    case 'string':
      return value.value === '' || !value.value.isWellFormed() ? undefined : JSON.stringify(value.value)
    case 'object':
    case 'array':
      return undefined
  }
}

/** A number that a double does not keep, such as a 64-bit identifier, keeps its exact digits. */
function numberText(text: string): string | undefined {
  const number = canonicalNumber(text)
  if (number.kind === 'lossless') return number.text
  const { negative, digits, exponent } = decimalOf(text)
  // Beyond, two exponents may have been rounded to one.
  if (!Number.isSafeInteger(exponent)) return undefined
  return `${negative ? '-' : ''}${digits === '' ? '0' : digits}e${exponent}`
}
