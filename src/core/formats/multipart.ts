/**
 * A multipart form as the ordered list of its parts, where that loses nothing.
 *
 * The boundary changes with every attempt, so the bytes cannot be compared; the parts can. A part is its name, file
 * name, type, remaining header fields and the SHA-256 of its content. Reading is strict, because what one reader skips
 * another may take for content: text before the first or after the last boundary, bare line feeds, padding behind a
 * boundary, an unknown or repeated parameter all make the body `raw`.
 *
 * Source: RFC 7578; RFC 2046, section 5.1.1.
 */

import { TOKEN_PATTERN, trimOws } from '../header-list.ts'
import { sha256 } from './framing.ts'
import { splitOutsideQuotes } from './media-type.ts'

/** Most parts of one body; with more the body is compared byte for byte. */
export const PARTS_MAX = 1_000

/** Longest head of one part in bytes; beyond it the body is compared byte for byte. */
export const PART_HEAD_BYTES_MAX = 16_384

/** Texts are Latin-1, one character a byte, parameters as written between their quotes. */
export type FormPart = {
  readonly name: string
  readonly filename: string | undefined
  /** `filename*` of RFC 5987, which RFC 7578 forbids and some clients send. */
  readonly extendedFilename: string | undefined
  readonly type: string | undefined
  /** Other fields in their order, names in lower case. */
  readonly otherFields: readonly (readonly [name: string, value: string])[]
  readonly contentSha256: Buffer
}

export type RawMultipartReason =
  | 'no_valid_boundary'
  | 'broken_boundaries'
  | 'too_many_parts'
  | 'part_head_too_long'
  | 'broken_part_head'

type MultipartForm =
  | { readonly kind: 'parts'; readonly parts: readonly FormPart[] }
  | { readonly kind: 'raw'; readonly reason: RawMultipartReason; readonly detail: string }

type Raw = Extract<MultipartForm, { kind: 'raw' }>

const BOUNDARY = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/
const CRLF = '\r\n'

export function readMultipartForm(body: Uint8Array, boundary: string | undefined): MultipartForm {
  if (boundary === undefined || !BOUNDARY.test(boundary))
    return raw('no_valid_boundary', 'the type names no boundary of 1 to 70 allowed characters')
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const opening = `--${boundary}${CRLF}`
  const delimiter = `${CRLF}--${boundary}`
  if (isWithoutParts(bytes, boundary)) return { kind: 'parts', parts: [] }
  if (!startsWith(bytes, 0, opening)) return raw('broken_boundaries', 'does not begin with its boundary')

  const parts: FormPart[] = []
  let at = opening.length
  for (;;) {
    if (parts.length === PARTS_MAX) return raw('too_many_parts', `more than ${PARTS_MAX} parts`)
    // A part without content may end right where its head does; the head's own last CRLF is then the delimiter's.
    const end = bytes.indexOf(delimiter, at, 'latin1')
    if (end === -1) return raw('broken_boundaries', 'does not end with its boundary')
    const part = readPart(bytes.subarray(at, end))
    if ('kind' in part) return part
    parts.push(part)
    at = end + delimiter.length
    if (startsWith(bytes, at, '--')) break
    if (!startsWith(bytes, at, CRLF))
      return raw('broken_boundaries', 'a boundary is not followed by a line end')
    at += CRLF.length
  }
  const tail = bytes.subarray(at + 2)
  if (tail.length > 0 && !(tail.length === CRLF.length && startsWith(tail, 0, CRLF)))
    return raw('broken_boundaries', 'something follows the last boundary')
  return { kind: 'parts', parts }
}

/** What a form without fields is written as: the end alone, which Go precedes by a line end. */
function isWithoutParts(bytes: Buffer, boundary: string): boolean {
  const end = `--${boundary}--`
  if (bytes.length > end.length + 2 * CRLF.length) return false
  const text = bytes.toString('latin1')
  return [end, end + CRLF, CRLF + end, CRLF + end + CRLF].includes(text)
}

function readPart(bytes: Buffer): FormPart | Raw {
  const headEnd = bytes.subarray(0, PART_HEAD_BYTES_MAX + 4).indexOf('\r\n\r\n')
  if (headEnd === -1)
    return bytes.length > PART_HEAD_BYTES_MAX
      ? raw('part_head_too_long', `the head of a part is longer than ${PART_HEAD_BYTES_MAX} bytes`)
      : raw('broken_part_head', 'a part has no empty line after its head')
  const fields = readFields(bytes.toString('latin1', 0, headEnd))
  const disposition = fields?.get('content-disposition')
  const parameters = disposition === undefined ? undefined : readDisposition(disposition)
  const name = parameters?.get('name')
  if (fields === undefined || parameters === undefined || name === undefined)
    return raw('broken_part_head', 'a part has no form-data disposition with a name, or an unreadable head')
  const named = new Set(['content-disposition', 'content-type'])
  return {
    name,
    filename: parameters.get('filename'),
    extendedFilename: parameters.get('filename*'),
    type: fields.get('content-type'),
    otherFields: [...fields].filter(([field]) => !named.has(field)),
    contentSha256: sha256(bytes.subarray(headEnd + 4)),
  }
}

/** Fields by lower-case name; undefined where a line is none, is folded, or repeats a name. */
function readFields(head: string): ReadonlyMap<string, string> | undefined {
  const fields = new Map<string, string>()
  for (const line of head.split(CRLF)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(colon, 0)).toLowerCase()
    const value = trimOws(line.slice(colon + 1))
    if (!TOKEN_PATTERN.test(name) || fields.has(name) || /[\r\n\0]/.test(value)) return undefined
    fields.set(name, value)
  }
  return fields
}

function readDisposition(value: string): ReadonlyMap<string, string> | undefined {
  const [kind, ...pieces] = splitOutsideQuotes(value)
  if (trimOws(kind!).toLowerCase() !== 'form-data') return undefined
  const parameters = new Map<string, string>()
  for (const piece of pieces) {
    const text = trimOws(piece)
    const equals = text.indexOf('=')
    const name = text.slice(0, Math.max(equals, 0)).toLowerCase()
    const parameter = unquoted(text.slice(equals + 1))
    if (!['name', 'filename', 'filename*'].includes(name) || parameters.has(name)) return undefined
    if (parameter === undefined) return undefined
    parameters.set(name, parameter)
  }
  return parameters
}

/** Escapes stay as written: clients disagree on them, and the same client writes the same again. */
function unquoted(text: string): string | undefined {
  if (TOKEN_PATTERN.test(text)) return text
  const whole = text.length >= 2 && text.startsWith('"') && text.endsWith('"')
  const inner = text.slice(1, -1)
  return whole && !/(?:^|[^\\])"/.test(inner) ? inner : undefined
}

function startsWith(bytes: Buffer, at: number, text: string): boolean {
  return bytes.subarray(at, at + text.length).equals(Buffer.from(text, 'latin1'))
}

function raw(reason: RawMultipartReason, detail: string): Raw {
  return { kind: 'raw', reason, detail }
}
