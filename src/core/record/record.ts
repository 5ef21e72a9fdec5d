/**
 * The record of one identity on one node: its states, the commands it takes and the answers it gives.
 *
 * Owns the vocabulary; `record-rules.ts` says what each command does to a record, `core/quorum/` what the answers of N
 * nodes amount to.
 *
 * The record is an acceptor of single-decree Paxos with a lease on top. `fence` is the largest ballot promised,
 * `acceptedToken` the ballot at which the outcome was accepted. Claiming is phase 1, completing is phase 2. The lease
 * only decides how soon a dead holder is replaced; nothing about order or agreement rests on a clock.
 *
 *   absent    → claimed | completed | released
 *   claimed   → claimed (renewed: kept; raised; or taken over: attempt + 1) | completed | released
 *   released  → claimed | completed
 *   completed → completed (a higher ballot writes the adopted outcome again) | released (its retention ended, or forgotten)
 *
 * Differences from a lock: an expired claim stays readable until the key's own expiry, so that the next claimant learns
 * that it is a takeover; a release keeps the fence, so that a delayed claim of the same token bounces; and releasing a
 * takeover restores the expired claim of the earlier attempt, because the fate of that attempt is still unknown.
 *
 * A claim is *kept* once it was renewed: somebody works under it. Until then it may be withdrawn, raised and claimed again by
 * its own claimant, all of which belong to the claiming. A session may claim in one process and find its claim on a majority
 * in another: that one renews it, and what the first still sends, because it heard too few nodes, must not undo it.
 *
 * A promise outlives the outcome that it was made beside. Nodes forget an outcome one by one, at the end of its
 * retention; were the promise forgotten with it, a new claim might be granted below a token that other nodes still show,
 * and they would have the last word. So a promise lasts for the lease that was asked for with it, and for how far ahead
 * of the node's clock its token may lie: whoever claims after that has a larger token.
 *
 * Source: L. Lamport, "Paxos Made Simple" (2001), section 2.2; redis.io, "Distributed Locks with Redis".
 */

import type { Token } from './token.ts'

/** 128 random bits as 32 hex digits: identifies the holder of a claim. */
export type Owner = string

/** No holder: the owner of an expired claim that was restored. */
export const NO_OWNER: Owner = '0'.repeat(32)

/** Attempts are counted no further: the record has four digits for them. */
export const ATTEMPT_MAX = 9_999

/** SHA-256 of the canonical request, as 64 hex digits. */
export type Fingerprint = string

const OWNER_DIGITS = 32
const FINGERPRINT_DIGITS = 64

/** The ranges of a record's fixed fields. No kind of node executes a command with a value outside them. */
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
      /** On the node's own clock. In the past: the claim expired. */
      readonly leaseUntilNodeMs: number
      readonly attempt: number
      readonly fingerprint: Fingerprint
      readonly claimedAtNodeMs: number
      /** It was renewed at this fence since it was claimed. */
      readonly kept?: true
    }
  | { readonly state: 'released'; readonly fence: Token }
  | {
      readonly state: 'completed'
      readonly fence: Token
      /** The claimant that was promised `fence`. */
      readonly owner: Owner
      readonly acceptedToken: Token
      readonly attempt: number
      readonly fingerprint: Fingerprint
      readonly claimedAtNodeMs: number
      /** An encoded outcome; opaque to the node. */
      readonly outcome: Buffer
      /**
       * The node did not accept this outcome itself: it copied it when it rejoined (`record-merge.ts`). A copied
       * outcome can be adopted but never counts as a vote.
       */
      readonly copied?: true
      /**
       * Where a promise outlives its outcome: after this moment of the node's clock the record is a released one
       * (`whatStands` in `record-rules.ts`).
       */
      readonly overAtNodeMs?: number
    }

/** Every duration is in milliseconds. `keyTtlMs` is how long the node remembers the record, and with it the fence. */
type OfClaim = {
  readonly key: string
  readonly token: Token
  readonly owner: Owner
  readonly keyTtlMs: number
}

export type RecordCommand =
  | (OfClaim & { readonly kind: 'claim'; readonly leaseMs: number; readonly fingerprint: Fingerprint })
  | (OfClaim & {
      readonly kind: 'renew'
      readonly leaseMs: number
      readonly fingerprint: Fingerprint
      readonly attempt: number
      /** A part of claiming several records: it keeps nothing, and what is kept at a smaller token refuses it. */
      readonly raises?: true
    })
  | (OfClaim & {
      readonly kind: 'complete'
      readonly fingerprint: Fingerprint
      readonly attempt: number
      readonly outcome: Buffer
      /**
       * The outcome is another claimant's work, and the node accepts it at this token: one that a majority accepted
       * there (in Paxos: it learns), or, at `token` itself, an adopted one. It replaces only the promise made to
       * `token` and `owner`.
       */
      readonly acceptedToken?: Token
    })
  | (OfClaim & {
      readonly kind: 'release'
      /** By a claimant that gives up before it works: what is kept stays. */
      readonly withdraws?: true
      /** By an operator: whatever stands below the token is forgotten, an outcome too. The promise remains. */
      readonly forgets?: true
    })
  | { readonly kind: 'read'; readonly key: string }

/** The reply of a node that executed a command. `nodeMs` is the node's own clock at that moment. */
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
  /** A claim, live or expired (`remainingMs` 0), of another fingerprint. */
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
      /** The node promised the claimant's token: it accepts nothing below it any more. */
      readonly promised: boolean
      readonly acceptedToken: Token
      readonly attempt: number
      readonly fingerprint: Fingerprint
      readonly outcome: Buffer
      /** Copied from other nodes: no vote for the outcome. */
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
      /** How long the node will remember it; absent where there is no record or no expiry. */
      readonly ttlMs?: number
      readonly nodeMs: number
    }

/** Keys of records for our own use, and no request's: those that no identity can have (`core/request/identity.ts`). */
export function isOurs(key: string): boolean {
  return /^dedup:%?:/.test(key)
}
