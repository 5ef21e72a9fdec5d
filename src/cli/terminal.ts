/**
 * What is written on a terminal: what others chose (clients, nodes, other sidecars), whose control characters would be commands to the
 * terminal, which can hide what is said; and a line that is overwritten.
 */

import type { Writable } from 'node:stream'

export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, '?')
}

/** The same for lines. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

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
