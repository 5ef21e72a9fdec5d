/** A status line: overwritten on a terminal, and a new line each time elsewhere. */

import type { Writable } from 'node:stream'

export type LiveLine = {
  readonly onTerminal: boolean
  show(line: string): void
  /** Prints a line that stays, above the live line. */
  aside(line: string): void
  /** Keeps what is shown. */
  end(): void
}

/** To the beginning of the line, and clear it. */
const OVER = '\r\u001b[2K'

export function liveLine(stdout: Writable): LiveLine {
  const onTerminal = 'isTTY' in stdout && stdout.isTTY === true
  const write = (text: string): void => void stdout.write(text)
  return {
    onTerminal,
    show: (line) => write(onTerminal ? `${OVER}${line}` : `${line}\n`),
    aside: (line) => write(onTerminal ? `${OVER}${line}\n` : `${line}\n`),
    end: () => {
      if (onTerminal) write('\n')
    },
  }
}
