/**
 * A urlencoded form as the ordered list of its pairs, where that loses nothing.
 *
 * Each pair is a name and a value with their escapes undone, so that `+` and `%20` are one. Order is relevant, also
 * between different names. What readers of forms do not agree on (a piece without `=`, an empty piece, an escape cut short, a byte that no
 * writer of forms leaves as it is, such as the `;` that divides for some) makes the form `raw`.
 *
 * Source: WHATWG URL, "application/x-www-form-urlencoded parsing".
 */

import { hasOnlyWholeEscapes, percentDecode } from './query.ts'

/** Most pairs of one form; with more the form is compared byte for byte. */
export const FORM_PAIRS_MAX = 10_000

export type UrlencodedForm =
  | { readonly kind: 'pairs'; readonly pairs: readonly (readonly [name: string, value: string])[] }
  | { readonly kind: 'raw'; readonly reason: RawFormReason; readonly detail: string }

export type RawFormReason = 'too_many_pairs' | 'piece_without_value' | 'broken_escape' | 'unescaped_byte'

/** Names and values are Latin-1 text, one character a byte. */
export function readUrlencodedForm(body: Uint8Array): UrlencodedForm {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1')
  if (text === '') return { kind: 'pairs', pairs: [] }
  const pieces = text.split('&')
  if (pieces.length > FORM_PAIRS_MAX)
    return {
      kind: 'raw',
      reason: 'too_many_pairs',
      detail: `${pieces.length} pairs, at most ${FORM_PAIRS_MAX}`,
    }
  if (!pieces.every((piece) => piece.includes('=')))
    return { kind: 'raw', reason: 'piece_without_value', detail: 'a piece of the form has no =' }
  if (!hasOnlyWholeEscapes(text))
    return { kind: 'raw', reason: 'broken_escape', detail: 'a % is not followed by two hex digits' }
  if (!/^[!-:<-~]*$/.test(text))
    return {
      kind: 'raw',
      reason: 'unescaped_byte',
      detail: 'a ; or a byte that is no printable ASCII is not escaped',
    }
  return {
    kind: 'pairs',
    pairs: pieces.map((piece) => {
      const equals = piece.indexOf('=')
      return [percentDecode(piece.slice(0, equals)), percentDecode(piece.slice(equals + 1))] as const
    }),
  }
}
