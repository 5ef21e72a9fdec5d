/**
 * The body of a request in the form in which it is compared.
 *
 * Four forms. `json`, `urlencoded` and `multipart` stand for what the body means, where that is certain; `bytes` for
 * the body as it came. A body that a reader is not certain about is taken as `bytes`, and `doubt` says why: that may
 * separate two attempts of one request, and never takes two requests for one.
 */

import {
  type CanonicalJson,
  canonicalJson,
  isJsonText,
  type RawJsonReason,
} from '../formats/canonical-json.ts'
import { decodeBody, type EncodedReason } from '../formats/content-coding.ts'
import { frame, sha256Text } from '../formats/framing.ts'
import type { Selection } from '../formats/json-pointer.ts'
import { isJson, isMultipartForm, isUrlencodedForm, type MediaType } from '../formats/media-type.ts'
import { type FormPart, type RawMultipartReason, readMultipartForm } from '../formats/multipart.ts'
import { hasOnlyWholeEscapes, percentDecode } from '../formats/query.ts'

export type Doubt = {
  readonly reason: RawJsonReason | RawFormReason | RawMultipartReason | EncodedReason
  readonly detail: string
}

export type BodyForm = {
  readonly form: 'json' | 'urlencoded' | 'multipart' | 'bytes'
  /** Content codings that were not undone. */
  readonly codings: readonly string[]
  /** Of the canonical bytes, as a byte text (`framing.ts`). */
  readonly sha256: string
  /** What was hashed; undefined where it passed as a stream. */
  readonly canonical: Uint8Array | undefined
  readonly doubt: Doubt | undefined
  /**
   * A body of a JSON type that is JSON text in UTF-8, whatever its form, or has no bytes. A charset of utf-8 then
   * changes nothing: without one, readers detect UTF-16 and UTF-32 (RFC 4627, section 3) by a zero byte among the first
   * four, and JSON text in UTF-8 has none.
   */
  readonly jsonText: boolean
}

/** @param client whose body it is: clients take turns at having theirs decoded */
export async function bodyFormOf(
  body: Uint8Array,
  codings: readonly string[],
  media: MediaType | undefined,
  selection: Selection | undefined,
  decodedBytesMax: number,
  client: string,
): Promise<BodyForm> {
  const decoded = await decodeBody(body, codings, decodedBytesMax, client)
  if (decoded.kind === 'encoded') return asBytes(body, decoded.codings, decoded)
  return plainFormOf(decoded.bytes, media, selection)
}

/** @param plain without content codings */
export function plainFormOf(
  plain: Uint8Array,
  media: MediaType | undefined,
  selection: Selection | undefined,
): BodyForm {
  if (media === undefined) return asBytes(plain)
  if (isJson(media)) return ofJson(plain, canonicalJson(plain, selection))
  if (isUrlencodedForm(media)) {
    const form = readUrlencodedForm(plain)
    return form.kind === 'raw'
      ? asBytes(plain, [], form)
      : inForm('urlencoded', frame(form.pairs.map((pair) => frame(pair.map(latin1)))))
  }
  if (isMultipartForm(media)) {
    const form = readMultipartForm(plain, media.boundary)
    return form.kind === 'raw'
      ? asBytes(plain, [], form)
      : inForm('multipart', frame(form.parts.map(framePart)))
  }
  return asBytes(plain)
}

function ofJson(plain: Uint8Array, json: CanonicalJson): BodyForm {
  const form = json.kind === 'raw' ? asBytes(plain, [], json) : inForm('json', Buffer.from(json.text, 'utf8'))
  return { ...form, jsonText: plain.length === 0 || isJsonText(json) }
}

function asBytes(bytes: Uint8Array, codings: readonly string[] = [], doubt?: Doubt): BodyForm {
  return {
    form: 'bytes',
    codings,
    sha256: sha256Text(bytes),
    canonical: bytes,
    doubt: doubt && { reason: doubt.reason, detail: doubt.detail },
    jsonText: false,
  }
}

function inForm(form: BodyForm['form'], canonical: Buffer): BodyForm {
  return { form, codings: [], sha256: sha256Text(canonical), canonical, doubt: undefined, jsonText: false }
}

function framePart(part: FormPart): Buffer {
  const optional = (text: string | undefined) => frame(text === undefined ? [] : [latin1(text)])
  return frame([
    latin1(part.name),
    optional(part.filename),
    optional(part.extendedFilename),
    optional(part.type),
    frame(part.otherFields.flatMap((field) => field.map(latin1))),
    part.contentSha256,
  ])
}

function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1')
}

/**
 * A urlencoded form as the ordered list of its pairs, where that loses nothing. Each pair is a name and a value with their escapes undone,
 * so that `+` and `%20` are one. Order is relevant, also between different names. What readers of forms do not agree on (a piece without
 * `=`, an empty piece, an escape cut short, a byte that no writer of forms leaves as it is, such as the `;` that divides for some) makes the
 * form `raw`.
 *
 * Source: WHATWG URL, "application/x-www-form-urlencoded parsing".
 */

/** Most pairs of one form; with more the form is compared byte for byte. */
export const FORM_PAIRS_MAX = 10_000

type UrlencodedForm =
  | { readonly kind: 'pairs'; readonly pairs: readonly (readonly [name: string, value: string])[] }
  | { readonly kind: 'raw'; readonly reason: RawFormReason; readonly detail: string }

type RawFormReason = 'too_many_pairs' | 'piece_without_value' | 'broken_escape' | 'unescaped_byte'

/** Names and values are Latin-1 text, one character a byte. */
export function readUrlencodedForm(body: Uint8Array): UrlencodedForm {
  const raw = (reason: RawFormReason, detail: string) => ({ kind: 'raw', reason, detail }) as const
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1')
  if (text === '') return { kind: 'pairs', pairs: [] }
  const pieces = text.split('&')
  if (pieces.length > FORM_PAIRS_MAX)
    return raw('too_many_pairs', `${pieces.length} pairs, at most ${FORM_PAIRS_MAX}`)
  if (!pieces.every((piece) => piece.includes('=')))
    return raw('piece_without_value', 'a piece of the form has no =')
  if (!hasOnlyWholeEscapes(text)) return raw('broken_escape', 'a % is not followed by two hex digits')
  if (!/^[!-:<-~]*$/.test(text))
    return raw('unescaped_byte', 'a ; or a byte that is no printable ASCII is not escaped')
  return {
    kind: 'pairs',
    pairs: pieces.map((piece) => {
      const equals = piece.indexOf('=')
      return [percentDecode(piece.slice(0, equals)), percentDecode(piece.slice(equals + 1))] as const
    }),
  }
}
