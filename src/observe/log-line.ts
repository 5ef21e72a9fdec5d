/** What a line of the log is made of, whatever it is about. `log-lines.ts` has the words. */

import type { CoreEvent } from '../core/events.ts'

export type Line = {
  readonly level: 'error' | 'warn' | 'info' | 'debug'
  readonly message: string
  /** Of lines about one record a getter: a line that the level hides makes none. */
  readonly fields: Readonly<Record<string, unknown>>
}

export type EventOf<K extends CoreEvent['kind']> = Extract<CoreEvent, { kind: K }>

export type Lines<Kinds extends CoreEvent['kind']> = {
  readonly [K in Kinds]: (event: EventOf<K>, nodeCount: number) => Line | undefined
}

/** What is away is tried once more, every second or two, and still does not answer: no news. */
export const isATry = (from: string, to: string) =>
  to === 'half_open' || (from === 'half_open' && to === 'open')

export function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}
