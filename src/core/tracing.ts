/**
 * What a listener tells whoever traces: a request began, runs, ended; and which headers carry its trace onward.
 *
 * What happens in between is told by events. Owns the port and its silent form; spans are `observe/tracing.ts`.
 */

import type { HeaderList } from './header-list.ts'
import type { Token } from './record/token.ts'

export type TracedRequest = {
  readonly method: string
  /** Its template or the name of its route: never its path, which may carry a key. */
  readonly route: string | undefined
  readonly protocolVersion: string
  /** By lower-case name. */
  readonly header: (name: string) => string | undefined
}

/** The span of a claim, for what follows it in other calls; both in lower-case hex, 16 and 8 bytes. */
export type ClaimTrace = { readonly traceId: string; readonly spanId: string }

export interface Tracing {
  request(traced: TracedRequest): RequestTrace
  /** Headers towards the application with the trace context of the request under way instead of the client's. */
  outgoing(headers: HeaderList, lockId?: string): [string, string][]
  /** The caller's baggage with ours, for it to send on; undefined where nothing is to be added. */
  baggage(inbound: string | undefined, lockId: string): string | undefined
  /** Of the claim that was granted on this record; undefined where it is not recorded. */
  claimed(recordKey: string): ClaimTrace | undefined
  /** A claim that another sidecar may have made: what is told of this record from now on belongs to it. */
  resumed(recordKey: string, token: Token, claim: ClaimTrace): void
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
  claimed: () => undefined,
  resumed: () => {},
}
