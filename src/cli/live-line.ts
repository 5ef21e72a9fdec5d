/** A line that says how things stand: written over on a terminal, and a line each time where nobody sees it change. */

import type { Writable } from 'node:stream'

export type LiveLine = {
  readonly onTerminal: boolean
  show(line: string): void
  /** Stays, above the live line. */
  aside(line: string): void
  /** What is shown stays. */
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
