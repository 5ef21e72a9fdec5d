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

export type LiveLine = ReturnType<typeof liveLine>

/** To the beginning of the line, and clear it. */
const OVER = '\r\u001b[2K'

export function liveLine(stdout: Writable) {
  const onTerminal = 'isTTY' in stdout && stdout.isTTY === true
  const write = (text: string): void => void stdout.write(text)
  return {
    onTerminal,
    show: (line: string) => write(onTerminal ? `${OVER}${line}` : `${line}\n`),
    /** A line that stays, above the live line. */
    aside: (line: string) => write(onTerminal ? `${OVER}${line}\n` : `${line}\n`),
    /** Keeps what is shown. */
    end: () => {
      if (onTerminal) write('\n')
    },
  }
}
