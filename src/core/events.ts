/**
 * What happens inside, for the subscribers that count, log or trace. The algorithm publishes; it never logs.
 *
 * Every value in an event is safe to show: hashes and tokens, never a client's header or body, and its key only where
 * the configuration says so.
 */

import type { DecidedEvent, NearMissEvent, ObservedEvent } from './decision.ts'
import type { CompleteResult, NodeAnswer, Unreachable } from './ports.ts'
import type { Fingerprint, RecordCommand } from './record/record.ts'
import type { Token } from './record/token.ts'

/** How many nodes gave which reply, in their own words: `renewed`, `timeout`. */
export type Replies = Readonly<Record<string, number>>

export type ClaimEnd = 'granted' | 'duplicate' | 'mismatch' | 'held' | 'contended' | 'unavailable' | 'damaged'
export type LeaseEnd = 'completed' | 'released' | 'expired' | 'lost' | 'abandoned'

export type CoreEvent =
  /** One node answered one command, or was given up. */
  | {
      readonly kind: 'node_answered'
      readonly node: string
      readonly command: RecordCommand['kind']
      readonly answer: NodeAnswer['kind']
      readonly detail?: string
      /** Why there was no answer, where `answer` is `unreachable`. */
      readonly unreachable?: Unreachable['reason']
      /** It did answer, and its answer can't be used. */
      readonly answered?: boolean
      readonly durationMs: number
    }
  /** All nodes of a round have answered or were given up. */
  | {
      readonly kind: 'round_settled'
      readonly command: RecordCommand['kind']
      readonly recordKey: string
      readonly majorityReached: boolean
      /** Nodes whose answer counted, whatever it was. */
      readonly answered: number
      readonly votes: number
      /** Votes beyond the majority; 0 survives no further failure. */
      readonly margin: number
      readonly durationMs: number
    }
  | {
      readonly kind: 'claim_ended'
      readonly result: ClaimEnd
      readonly recordKey: string
      /** Of the last round: nodes whose answer counted; absent where no node was asked. */
      readonly answered?: number
      /** Where it was granted. */
      readonly token?: Token
      /** 0: answered from what this process knew. */
      readonly rounds: number
      readonly durationMs: number
    }
  /** A majority granted it, but too late to be worth anything; released again. */
  | {
      readonly kind: 'claim_expired'
      readonly recordKey: string
      readonly token: Token
      readonly attempt: number
      readonly answered: number
      readonly elapsedMs: number
      /** Zero or below. */
      readonly remainingMs: number
    }
  /** Two different outcomes of one identity were seen; the one with the larger token is written to a majority. */
  | {
      readonly kind: 'conflict_repaired'
      readonly recordKey: string
      readonly tokens: readonly Token[]
      /** Of the claim whose outcome is kept, and its attempt. */
      readonly holder: Token
      readonly attempt: number
      readonly answered: number
    }
  | {
      readonly kind: 'outcome_adopted'
      readonly recordKey: string
      readonly token: Token
      /** Of the claim that made the outcome, and its attempt. */
      readonly holder: Token
      readonly attempt: number
      readonly answered: number
    }
  /** A stored outcome failed its digest or its shape, or was shown past its end, and was not used. */
  | {
      readonly kind: 'outcome_damaged'
      readonly recordKey: string
      readonly reason: string
      /** Where one node alone showed it. */
      readonly node?: string
      /** Where a claim or a completion found it. */
      readonly attempt?: number
      readonly answered?: number
    }
  | {
      readonly kind: 'lease_renewed'
      readonly recordKey: string
      readonly token: Token
      readonly result: 'renewed' | 'lost' | 'unavailable'
      readonly durationMs: number
      /** Where it was not renewed. */
      readonly failed?: FailedRenewal
    }
  /** A granted claim is being worked under. */
  | { readonly kind: 'lease_began'; readonly recordKey: string; readonly token: Token }
  | {
      readonly kind: 'lease_ended'
      readonly recordKey: string
      readonly token: Token
      readonly attempt: number
      /** Of its request: a decision about the claim needs it. */
      readonly fingerprint: Fingerprint
      readonly ended: LeaseEnd
      readonly heldMs: number
      readonly remainingMs: number
    }
  /** The application worked on a protected request under a claim, until its answer or until it was given up. */
  | { readonly kind: 'application_worked'; readonly route: string; readonly durationMs: number }
  | {
      readonly kind: 'lease_released'
      readonly durationMs: number
      readonly recordKey: string
      readonly token: Token
      readonly result: 'released' | 'not_owner' | 'unavailable'
    }
  /** An outcome was offered to the quorum once; `completed` is the result of all offers. */
  | {
      readonly kind: 'outcome_offered'
      readonly recordKey: string
      readonly token: Token
      readonly result: CompleteResult['kind']
      readonly durationMs: number
    }
  | ({ readonly kind: 'completed' } & RecordingEnd)
  | {
      readonly kind: 'synthetic_claim'
      readonly result: 'ok' | 'false_positive' | 'false_negative' | 'error'
      readonly durationMs: number
    }
  | DecidedEvent
  | ObservedEvent
  /** Two requests of a route were executed within a minute that were equal but for these headers or cookies. */
  | NearMissEvent
  | NodeEvent
  /** The end of an outcome that was not recorded when its client was answered. */
  | ({ readonly kind: 'settled_late' } & RecordingEnd)
  | DegradationEvent
  /** An operator decided about one record, or tried to. */
  | {
      readonly kind: 'operator_decided'
      readonly recordKey: string
      readonly decision: string
      readonly by: string
      /** `done`, or why not. */
      readonly result: string
    }
  | {
      readonly kind: 'takeover'
      readonly recordKey: string
      readonly attempt: number
      readonly token: Token
      readonly answered: number
      readonly remainingMs: number
    }

/** What is known of a lease that the nodes did not renew. */
export type FailedRenewal = {
  readonly token: Token
  readonly attempt: number
  /** Nodes whose answer counted, whatever it was. */
  readonly answered: number
  readonly replies: Replies
  /** Of the lease as it was. */
  readonly remainingMs: number
}

/** How the recording of an outcome ended. */
export type RecordingEnd = {
  readonly recordKey: string
  readonly token: Token
  readonly attempt: number
  readonly result: CompleteResult['kind']
  /** How often it was offered. */
  readonly attempts: number
  /** Of the last offer: nodes whose answer counted; absent where it was recorded. */
  readonly answered?: number
  /** Of the lease under which it was offered. */
  readonly remainingMs: number
}

/** What is known of a node, in the words of readiness and metrics. */
type NodeStanding = 'down' | 'unfit' | 'quarantined' | 'voting'

type BreakerKind = 'closed' | 'open' | 'half_open'

/** The end of a completion made without a quorum. */
export type WriteBackEnd = 'recorded' | 'conflict' | 'dropped'

/** What happens without nodes or without a quorum, and its end. */
type DegradationEvent =
  /** This node's answers do not count for a while: its clock jumped by at least this much, backwards where negative. */
  | {
      readonly kind: 'clock_stepped'
      readonly node: string
      readonly stepMs: number
      readonly suspendedMs: number
    }
  /** A node's clock is further off ours than tolerated, or no longer. */
  | {
      readonly kind: 'clock_offset'
      readonly node: string
      readonly offsetMs: number
      readonly uncertaintyMs: number
      readonly skewed: boolean
    }
  | {
      readonly kind: 'breaker_changed'
      readonly node: string
      readonly from: BreakerKind
      readonly to: BreakerKind
    }
  /** Open: claims are answered `unavailable` without a round. */
  | {
      readonly kind: 'quorum_breaker_changed'
      /** Of several groups: whose quorum. */
      readonly group?: string
      readonly from: BreakerKind
      readonly to: BreakerKind
      /** Of the claim that decided it: nodes whose answer counted; absent where it was granted or not sent. */
      readonly answered?: number
    }
  | {
      readonly kind: 'written_back'
      readonly recordKey: string
      /** Of the claim of this process alone, under which it was executed. */
      readonly token: Token
      readonly attempt: number
      readonly result: WriteBackEnd
      readonly pending: number
    }

/** `queue`: of who waits for a record. Without it requests are served in no order; nothing else is lost. */
export type EntriesOf = 'dead-letters' | 'audit' | 'queue'

/** What happens to the nodes of a cluster and to their votes. */
type NodeEvent =
  /** Told once more, with the same state, where a node that is down turns out to refuse this sidecar. */
  | {
      readonly kind: 'node_state'
      readonly node: string
      readonly address: string
      readonly from: NodeStanding
      readonly to: NodeStanding
      readonly reason: string
    }
  /** A node has too little memory for new claims, or enough again. */
  | {
      readonly kind: 'node_memory'
      readonly node: string
      readonly full: boolean
      readonly usedBytes: number
      /** 0: it has no limit. */
      readonly limitBytes: number
    }
  /** A node refuses every write, by its own words (`refusal`), or takes them again. */
  | { readonly kind: 'node_writes'; readonly node: string; readonly refusal: string | undefined }
  /** A command entered the slow log of a node, whoever sent it; reported by the sidecar that is elected to collect. */
  | {
      readonly kind: 'slow_command'
      readonly node: string
      /** Its name alone. */
      readonly command: string
      readonly durationMs: number
      /** By the node's clock. */
      readonly atWallMs: number
    }
  /** The memory for bodies is full: a request was refused, or an answer was passed on without being kept. */
  | { readonly kind: 'body_memory_full'; readonly of: 'request' | 'answer' }
  /** Connections of clients were closed at once within a second, because a listener had as many as it takes. */
  | { readonly kind: 'connections_refused'; readonly refused: number; readonly limit: number }
  /** All nodes of a brand-new cluster got their first incarnation. */
  | { readonly kind: 'cluster_founded'; readonly nodes: readonly string[] }
  /** This process has worked with one cluster and refuses another one in its place. */
  | {
      readonly kind: 'cluster_replaced'
      readonly node: string
      readonly known: string
      readonly found: string
    }
  /** Records are copied to a node in quarantine. */
  | {
      readonly kind: 'rejoin_progress'
      readonly node: string
      readonly sourcesDone: number
      readonly copied: number
    }
  /** Too few nodes remember: nothing continues until more of them vote, or an operator declares the loss. */
  | {
      readonly kind: 'rejoin_blocked'
      readonly node: string
      readonly voting: number
      readonly required: number
    }
  /** A step failed and will be retried. */
  | { readonly kind: 'rejoin_step_failed'; readonly node: string; readonly reason: string }
  /** An operator decided to go on without what too many nodes forgot: earlier requests may be executed again. */
  | { readonly kind: 'loss_declared'; readonly node: string; readonly by: string }
  | { readonly kind: 'node_joined'; readonly node: string; readonly copied: number }
  /** No majority of the nodes took them; those since the last such event. */
  | {
      readonly kind: 'entries_untaken'
      readonly of: EntriesOf
      readonly entries: number
      readonly why: string
    }

export interface Events {
  publish(event: CoreEvent): void
}

/** For parts without subscribers. */
export const SILENT: Events = { publish: () => {} }
