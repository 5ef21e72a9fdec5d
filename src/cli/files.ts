/**
 * Files of an operator: the text that one has written (configuration, secret, certificate, request), and standard output where it is a file.
 */

import type { AppEnvironment } from '../app.ts'
import { decodeUtf8 } from '../core/formats/framing.ts'

/** Which says nothing: editors on Windows write it, and it would be the first character of a password. */
const BYTE_ORDER_MARK = '\ufeff'

/**
 * Read leniently, `/café` in Latin-1 would become a route that fits no request, and a password another one.
 *
 * @throws where the bytes are no UTF-8
 */
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

/**
 * Node's own stream of a file tells of a failed write later, as an error of the stream, not of every one, and goes on in the middle of a
 * line that was cut off. Here the failure is that of one line, and known at once.
 *
 * @param writeSome writes the beginning of the bytes and returns how many; throws where it can write none
 */
export function logFile(writeSome: (bytes: Uint8Array) => number): AppEnvironment['logTo'] {
  /** The file ends within a line: the next one must not become a part of it. */
  let isCut = false
  return {
    write: (line) => {
      let rest = Buffer.from(isCut ? `\n${line}` : line)
      while (rest.length > 0) {
        rest = rest.subarray(writeSome(rest))
        isCut = rest.length > 0
      }
    },
  }
}
