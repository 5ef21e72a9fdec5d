/**
 * What a listener reports to tracing: a request began, runs, ended; and which headers carry its trace onward.
 *
 * Events report what happens in between. Owns the port and its silent form; spans are `observe/tracing.ts`.
 */

import type { DecidedEvent } from './decision.ts'
import type { HeaderList } from './header-list.ts'
import type { Token } from './record/token.ts'

/** What only a recorded request needs is asked for then, so that the others cost nothing. */
export type TracedRequest = {
  readonly method: string
  /** Its template or the name of its route: never its path, which may carry a key. */
  readonly route: string | undefined
  /** Of the client's request; undefined where nobody says it. */
  readonly scheme: () => 'http' | 'https' | undefined
  /** That the client addressed, with its port where it named one. */
  readonly host: () => string | undefined
  /** Of the client's connection; undefined where only a gateway knows it. */
  readonly protocolVersion: string | undefined
  /** By lower-case name. */
  readonly header: (name: string) => string | undefined
}

/** The span of a claim, for its later calls; both in lower-case hex, 16 and 8 bytes. */
export type ClaimTrace = { readonly traceId: string; readonly spanId: string }

/** What baggage says of a claim. */
export type ClaimShown = { readonly lockId: string; readonly attempt: number }

export interface Tracing {
  request(traced: TracedRequest): RequestTrace
  /** Headers towards the application with the trace context of the request under way instead of the client's. */
  outgoing(headers: HeaderList, claim?: ClaimShown): HeaderList
  /** The caller's baggage with ours, for it to send on; undefined where there is nothing to add. */
  baggage(inbound: string | undefined, claim: ClaimShown): string | undefined
  /** Of the claim that was granted on this record; undefined where it is not recorded. */
  claimed(recordKey: string): ClaimTrace | undefined
  /** A claim that another sidecar may have made: later events of this record belong to it. */
  resumed(recordKey: string, token: Token, claim: ClaimTrace): void
}

export interface RequestTrace {
  /** Work begun within belongs to the request, whenever it continues. */
  run<T>(work: () => T): T
  /**
   * Once; what follows does not belong to the request any more.
   *
   * @param status undefined where no client was left to answer
   * @param decided where no event told it before
   */
  ended(status: number | undefined, decided?: Pick<DecidedEvent, 'decision' | 'entrypoint'>): void
}

const UNTRACED_REQUEST: RequestTrace = { run: (work) => work(), ended: () => {} }

/** Tracing is off: headers pass as they are, the client's trace context included. */
export const UNTRACED: Tracing = {
  request: () => UNTRACED_REQUEST,
  outgoing: (headers) => headers,
  baggage: () => undefined,
  claimed: () => undefined,
  resumed: () => {},
}

/**
 * Baggage in transit, member by member, so that what others put into it stays byte for byte.
 *
 * Source: W3C Baggage, https://www.w3.org/TR/baggage/ (section 3.3: at most 8192 bytes altogether).
 */
const OURS = 'fencepost.'
export const BAGGAGE_BYTES_MAX = 8_192

/** Inbound members without those that only we may set, then our own; ours are left out where they do not fit. */
export function mergedBaggage(inbound: readonly string[], own: Readonly<Record<string, string>>): string {
  const theirs = inbound
    .flatMap((line) => line.split(','))
    .map((member) => member.trim())
    .filter((member) => member !== '' && !member.toLowerCase().startsWith(OURS))
  const ours = Object.entries(own).map(([name, value]) => `${OURS}${name}=${value}`)
  const merged = [...theirs, ...ours].join(',')
  return Buffer.byteLength(merged) <= BAGGAGE_BYTES_MAX ? merged : theirs.join(',')
}
