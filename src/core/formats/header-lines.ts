/**
 * All lines of one header, in order, as they crossed the wire (Latin-1). Never joined: two lines are not one line.
 */

import type { HeaderList } from '../ports.ts'

/** @param name in lower case */
export function linesOf(headers: HeaderList, name: string): readonly string[] {
  return headers.filter(([header]) => header.toLowerCase() === name).map(([, value]) => value)
}
