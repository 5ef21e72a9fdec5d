/**
 * What a listener tells whoever traces: a request began, runs, ended; and which headers carry its trace onward.
 *
 * What happens in between is told by events. Owns the port and its silent form; spans are `observe/tracing.ts`.
 */

import type { HeaderList } from './ports.ts'

export type TracedRequest = {
  readonly method: string
  /** Its template or the name of its route: never its path, which may carry a key. */
  readonly route: string | undefined
  readonly protocolVersion: string
  /** By lower-case name. */
  readonly header: (name: string) => string | undefined
}

export interface Tracing {
  request(traced: TracedRequest): RequestTrace
  /** Headers towards the application with the trace context of the request under way instead of the client's. */
  outgoing(headers: HeaderList, lockId?: string): [string, string][]
  /** The caller's baggage with ours, for it to send on; undefined where nothing is to be added. */
  baggage(inbound: string | undefined, lockId: string): string | undefined
}

export interface RequestTrace {
  /** Everything begun within belongs to the request, whenever it goes on. */
  run<T>(work: () => T): T
  /** @param status undefined where nobody was there to be answered */
  ended(status: number | undefined): void
}

const UNTRACED_REQUEST: RequestTrace = { run: (work) => work(), ended: () => {} }

/** Tracing is off: headers pass as they are, the client's trace context included. */
export const UNTRACED: Tracing = {
  request: () => UNTRACED_REQUEST,
  outgoing: (headers) => headers.map(([name, value]) => [name, value]),
  baggage: () => undefined,
}
