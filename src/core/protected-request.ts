/**
 * A protected request as `deduplicate.ts` takes it: its record, the demands of its route, how it reaches the
 * application; and what it needs of this process. Every value is filled in: there are no defaults here.
 */

import type { Background } from './background.ts'
import type { FairQueue } from './claims/fair-queue.ts'
import type { RenewalPolicy } from './claims/lease-renewer.ts'
import type { Waiters } from './claims/waiters.ts'
import type { Clock, Random } from './clock.ts'
import type { Events } from './events.ts'
import type { ClaimRequest, ForwardContext, ForwardResult, Leases } from './ports.ts'
import type { Fingerprint } from './record/record.ts'
import type { ContentRecord } from './request/duplicate-content.ts'
import type { EntityLocks } from './reservations/entity-locks.ts'
import type { SettlePolicy } from './settle.ts'

export type DedupPolicy = SettlePolicy &
  // After the total hold the lease is left to expire.
  RenewalPolicy &
  Pick<ClaimRequest, 'retentionMs' | 'budgetMs' | 'terms'> & {
    /** How long a concurrent duplicate waits for the first; 0: it is refused at once. */
    readonly waitMs: number
    readonly takeover: 'reexecute' | 'indeterminate'
    readonly onQuorumLoss: 'fail-closed' | 'fail-open' | 'local'
  }

export type ProtectedRequest = {
  /** The record's key on the nodes (`identity.ts`). */
  readonly recordKey: string
  readonly fingerprint: Fingerprint
  /** Given where the same content under another key is not to be executed. */
  readonly contentRecord?: ContentRecord | undefined
  /** Given where requests of one entity are executed one after the other. */
  readonly entities?: EntityLocks | undefined
  readonly policy: DedupPolicy
  /** Aborts when the client no longer waits. Ends waiting for another's outcome, never work that has begun. */
  readonly abandoned?: AbortSignal
  /** Hands the request to the application. Called at most once, and never twice for one claim. */
  readonly forward: (context: ForwardContext | undefined) => Promise<ForwardResult>
}

export type DedupPorts = {
  readonly leases: Leases
  /** Where this process itself holds the claim: resolves when it has ended, so that waiters claim only then. */
  readonly whenEnded: (key: string) => Promise<void> | undefined
  /** The quorum of this process alone, for routes that chose `local`. */
  readonly localLeases: Leases
  readonly waiters: Waiters
  /** Lets waiters in one after the other; absent where each tries for itself. */
  readonly fairQueue?: FairQueue | undefined
  /** Where outcomes that the quorum did not take in time are offered further, and entities wait for the end of an answer. */
  readonly background: Background
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}
