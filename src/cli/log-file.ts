/**
 * Standard output where it is a file, for the log.
 *
 * Node's own stream of a file tells of a failed write later, as an error of the stream, not of every one, and goes on in the middle of a
 * line that was cut off. Here the failure is that of one line, and known at once.
 */

import type { AppEnvironment } from '../app.ts'

/** @param writeSome writes the beginning of the bytes and returns how many; throws where it can write none */
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
