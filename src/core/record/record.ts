/**
 * The record of one identity on one node: its states, the commands it takes and the answers it gives.
 *
 * Owns the words; what each command does to a record is `record-rules.ts`, what the answers of N nodes amount to is
 * `core/quorum/`.
 *
 * The record is an acceptor of single-decree Paxos with a lease on top. `fence` is the largest ballot promised,
 * `acceptedToken` the ballot at which the outcome was accepted. Claiming is phase 1, completing is phase 2. The lease
 * only decides how soon a dead holder is replaced; nothing about order or agreement rests on a clock.
 *
 *   absent    → claimed | completed | released
 *   claimed   → claimed (renewed, or taken over: attempt + 1) | completed | released
 *   released  → claimed | completed
 *   completed → completed (a higher ballot writes the adopted outcome again)
 *
 * Differences from a lock: a lapsed claim stays readable until the key's own expiry, so that the next claimant learns
 * that it is a takeover; a release keeps the fence, so that a delayed claim of the same token bounces; and releasing a
 * takeover gives the lapsed claim of the earlier attempt back, because what became of that attempt is still unknown.
 *
 * Source: L. Lamport, "Paxos Made Simple" (2001), section 2.2; redis.io, "Distributed Locks with Redis".
 */

import type { Token } from './token.ts'

/** 128 random bits as 32 hex digits: who holds a claim. */
export type Owner = string

/** Nobody: the owner of a lapsed claim that was given back. */
export const NO_OWNER: Owner = '0'.repeat(32)

/** Attempts are counted up to here and no further: the record has four digits for them. */
export const ATTEMPT_MAX = 9_999

/** SHA-256 of the canonical request, as 64 hex digits. */
export type Fingerprint = string

const OWNER_DIGITS = 32
const FINGERPRINT_DIGITS = 64

/** What the fixed fields of a record can hold. A command with anything else no node carries out, whatever it is made of. */
export function fitsRecord(owner: Owner, fingerprint: Fingerprint, attempt: number): boolean {
  return (
    owner.length === OWNER_DIGITS &&
    fingerprint.length === FINGERPRINT_DIGITS &&
    attempt >= 0 &&
    attempt <= ATTEMPT_MAX
  )
}

export const NOT_FITTING = 'not a command: its token, owner, fingerprint or attempt does not fit the record'

export type NodeRecord =
  | {
      readonly state: 'claimed'
      readonly fence: Token
      readonly owner: Owner
      /** On the node's own clock. In the past: the claim lapsed. */
      readonly leaseUntilNodeMs: number
      readonly attempt: number
      readonly fingerprint: Fingerprint
      readonly claimedAtNodeMs: number
    }
  | { readonly state: 'released'; readonly fence: Token }
  | {
      readonly state: 'completed'
      readonly fence: Token
      /** Whose promise `fence` is. */
      readonly owner: Owner
      readonly acceptedToken: Token
      readonly attempt: number
      readonly fingerprint: Fingerprint
      readonly claimedAtNodeMs: number
      /** An encoded outcome; opaque to the node. */
      readonly outcome: Buffer
      /**
       * The node did not accept this outcome itself: it learnt of it when it was enrolled (`record-merge.ts`). Such an
       * outcome is adopted like any other, and does not count towards the majority that makes it chosen.
       */
      readonly copied?: true
    }

/** Every duration in milliseconds. `keyTtlMs` is how long the node remembers the record, and with it the fence. */
export type RecordCommand =
  | {
      readonly kind: 'claim'
      readonly key: string
      readonly token: Token
      readonly owner: Owner
      readonly leaseMs: number
      readonly fingerprint: Fingerprint
      readonly keyTtlMs: number
    }
  | {
      readonly kind: 'renew'
      readonly key: string
      readonly token: Token
      readonly owner: Owner
      readonly leaseMs: number
      readonly fingerprint: Fingerprint
      readonly attempt: number
      readonly keyTtlMs: number
    }
  | {
      readonly kind: 'complete'
      readonly key: string
      readonly token: Token
      readonly owner: Owner
      readonly fingerprint: Fingerprint
      readonly attempt: number
      readonly outcome: Buffer
      readonly keyTtlMs: number
      /**
       * The outcome is what somebody else achieved, and the node takes it as accepted at this token: one that a majority accepted
       * there (in Paxos: it learns), or, at `token` itself, one that is adopted. Only in place of what it promised `token` and `owner`.
       */
      readonly acceptedToken?: Token
    }
  | {
      readonly kind: 'release'
      readonly key: string
      readonly token: Token
      readonly owner: Owner
      readonly keyTtlMs: number
    }
  | { readonly kind: 'read'; readonly key: string }

/** What a node that executed a command says. `nodeMs` is the node's own clock at that moment. */
export type RecordAnswer =
  | { readonly kind: 'granted'; readonly attempt: number; readonly nodeMs: number }
  | {
      readonly kind: 'held'
      readonly fence: Token
      readonly remainingMs: number
      readonly fingerprint: Fingerprint
      readonly attempt: number
      readonly nodeMs: number
    }
  /** A claim, live or lapsed (`remainingMs` 0), of another fingerprint. */
  | {
      readonly kind: 'mismatch'
      readonly fence: Token
      readonly remainingMs: number
      readonly fingerprint: Fingerprint
      readonly nodeMs: number
    }
  | { readonly kind: 'stale'; readonly fence: Token; readonly nodeMs: number }
  /** The token lies further ahead of the node's clock than the tolerated skew. */
  | { readonly kind: 'skewed'; readonly nodeMs: number }
  | {
      readonly kind: 'completed'
      readonly fence: Token
      /** The node promised the asker's token: it will accept nothing below it any more. */
      readonly promised: boolean
      readonly acceptedToken: Token
      readonly attempt: number
      readonly fingerprint: Fingerprint
      readonly outcome: Buffer
      /** Learnt from other nodes: no vote for the outcome. */
      readonly copied?: true
      readonly nodeMs: number
    }
  | { readonly kind: 'renewed'; readonly nodeMs: number }
  | { readonly kind: 'lost'; readonly fence: Token; readonly nodeMs: number }
  | { readonly kind: 'recorded'; readonly nodeMs: number }
  | { readonly kind: 'fenced'; readonly fence: Token; readonly nodeMs: number }
  | { readonly kind: 'released'; readonly nodeMs: number }
  | { readonly kind: 'not_owner'; readonly fence: Token; readonly nodeMs: number }
  | {
      readonly kind: 'record'
      readonly record: NodeRecord | undefined
      /** How long the node will go on remembering it; absent where there is no record, or no end is set. */
      readonly ttlMs?: number
      readonly nodeMs: number
    }
