/**
 * All lines of one header, in order, as they crossed the wire (Latin-1). Never joined: two lines are not one line.
 */

import type { HeaderList } from '../header-list.ts'

const NONE: readonly string[] = Object.freeze([])

/** @param name in lower case */
export function linesOf(headers: HeaderList, name: string): readonly string[] {
  // Called some twenty times per request, and mostly there is no such line, or one: compare lengths before letters, and make
  // no list that grows.
  let lines: string[] | undefined
  for (const line of headers) {
    const header = line[0]
    if (header.length !== name.length || header.toLowerCase() !== name) continue
    if (lines === undefined) lines = [line[1]]
    else lines.push(line[1])
  }
  return lines ?? NONE
}
