/**
 * All lines of one header, in order, as they crossed the wire (Latin-1). Never joined: two lines are not one line.
 */

import type { HeaderList } from '../header-list.ts'

/** @param name in lower case */
export function linesOf(headers: HeaderList, name: string): readonly string[] {
  const lines: string[] = []
  // Called some twenty times per request: compare lengths before letters.
  for (const [header, value] of headers)
    if (header.length === name.length && header.toLowerCase() === name) lines.push(value)
  return lines
}
