/**
 * The text of a file that an operator has written: configuration, secret, certificate, request.
 *
 * Owns that it is UTF-8, and says so where it is not. Read leniently, `/café` in Latin-1 would become a route that fits no request, and a
 * password another one.
 */

import { decodeUtf8 } from '../core/formats/framing.ts'

/** Which says nothing: editors on Windows write it, and it would be the first character of a password. */
const BYTE_ORDER_MARK = '\ufeff'

/** @throws where the bytes are no UTF-8 */
export function textOf(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes)
  if (text === undefined)
    throw new Error(`it is not text in UTF-8${isUtf16(bytes) ? ', but in UTF-16' : ''}; save it in UTF-8`)
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(BYTE_ORDER_MARK.length) : text
}

/** As `>` of Windows PowerShell writes it. */
function isUtf16([first, second]: Uint8Array): boolean {
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
}
