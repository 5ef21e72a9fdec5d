/**
 * Text as a part of a larger text in which `:` and everything else outside `A-Z a-z 0-9 . _ -` has a meaning.
 *
 * Injective: two texts never have one encoding. UTF-8, upper-case hex digits, nothing normalised: case and Unicode form
 * make different texts.
 */

import { utf8Bytes } from './framing.ts'

const PLAIN = /^[A-Za-z0-9._-]*$/

/** undefined for text with a lone surrogate, which has no UTF-8. */
export function percentEncode(text: string): string | undefined {
  if (PLAIN.test(text)) return text
  const bytes = utf8Bytes(text)
  if (bytes === undefined) return undefined
  let encoded = ''
  for (const byte of bytes) {
    const char = String.fromCharCode(byte)
    encoded += PLAIN.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return encoded
}
