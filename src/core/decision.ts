/**
 * What was decided about one request, as its line of the log and its metrics tell it.
 *
 * Every value is safe to show: hashes and tokens, never a client's header or body, and its key only where the configuration says so.
 */

import type { NotAsked } from './ports.ts'
import type { Token } from './record/token.ts'

/** The surface that received the request. */
export type Entrypoint = 'proxy' | 'api' | 'ext_authz' | 'ext_proc' | 'forward_auth' | 'auth_request'

/** What was decided, in the words of the metric `fencepost_decisions_total`. */
export type Decision =
  | 'acquired'
  | 'duplicate_in_flight'
  | 'duplicate_completed'
  | 'fingerprint_mismatch'
  | 'quorum_unavailable'
  | 'invalid'
  | 'fail_open'
  | 'overloaded'
  | 'bypassed'

/** One decision about one request: what an SRE reads first. Hashes, never the client's key itself. */
export type DecidedEvent = {
  readonly kind: 'decided'
  readonly entrypoint: Entrypoint
  readonly decision: Decision
  /** The outcome's own word, finer than the decision: `unstored`, `never_sent`, a problem code. */
  readonly detail: string
  readonly route: string | undefined
  readonly status: number
  readonly durationMs: number
  /** Of the record key: its hash part. */
  readonly keyHash: string | undefined
  readonly tenant?: string
  /** The client's own key: only where the configuration asks for it (`logs.rawKeys`). */
  readonly idempotencyKey?: string
  readonly lockId?: string
  readonly token?: Token
  readonly attempt?: number
  /** Of a duplicate: the token of the claim that executed it. */
  readonly holder?: Token
  /** Of a request that was not executed: nodes whose answer to its claim counted; absent where none was asked. */
  readonly answered?: number
  /** Of a request that was not executed: why no node was asked. */
  readonly notAsked?: NotAsked
  /** Of a duplicate in flight: what is left of the lease of its holder. */
  readonly leaseRemainingMs?: number
  /** Of the problem document that was sent: its `instance`. */
  readonly instance?: string
  /** Where the application gave no answer: what its connection said. */
  readonly because?: string
}

/**
 * `replayed`: with an answer equal to the one that the application gave instead; `replayed_other`: with another one. `waited`: behind the
 * same request under way, or with 409, as the route says. `unprotected`: passed on, without a key or
 * as no command. `unknown`: too few nodes answered, or it
 * was not seen whole.
 */
export const WOULD = [
  'executed',
  'replayed',
  'replayed_other',
  'waited',
  'refused',
  'unprotected',
  'unknown',
] as const
export type Would = (typeof WOULD)[number]

export type Observation = {
  readonly would: Would
  /** The kind of the outcome, or the code of the problem. */
  readonly because: string
  /** Of the answer that would have been replayed. */
  readonly ageMs?: number
}

/** What protecting a request would have done, on a route that only observes. */
export type ObservedEvent = Observation & {
  readonly kind: 'observed'
  readonly route: string
  /** What would have been its key; absent where it has none, or was not seen whole. */
  readonly by?: 'key' | 'content'
}

/** Of a request that its content identifies. @property names as `fingerprint.ignore` takes them */
export type NearMissEvent = {
  readonly kind: 'near_miss'
  readonly route: string
  readonly names: readonly string[]
}
