/**
 * What the core needs from outside, as interfaces: nodes, rounds, the application. (Time and randomness: `clock.ts`.)
 *
 * Adapters translate at this door: no error, type or event of a library crosses it. A missing answer is a value here
 * (`unreachable`, `no_answer`), never an exception, because the core decides what it means.
 */

import type { HeaderList } from './header-list.ts'
import type { Fingerprint, Owner, RecordAnswer, RecordCommand } from './record/record.ts'
import type { StoredOutcome } from './record/stored-outcome.ts'
import type { Token } from './record/token.ts'

/** Why it is unknown what a node did with a command. It may have executed it. */
export type Unreachable = {
  readonly kind: 'unreachable'
  /** `refused`: surely not executed. `timeout`, `error`: unknown. */
  readonly reason: 'refused' | 'timeout' | 'error'
  /** Not sent: the node has not answered earlier commands yet. */
  readonly silent?: true
  /** The node is healthy and answered; it can't use this record. */
  readonly answered?: true
  /** It has no memory for new claims, or refuses them so that granted ones can be completed. */
  readonly full?: true
  readonly detail: string
}

/** The node executed the command but has not (re)joined: its answer does not count. */
type Quarantined = {
  readonly kind: 'quarantined'
  readonly nodeMs: number
  /** The node votes, and only this answer does not count. */
  readonly votes?: true
}

export type NodeAnswer = RecordAnswer | Unreachable | Quarantined

/** One of N independent nodes. */
export interface RecordNode {
  /** The same in every sidecar, and free of secrets. */
  readonly name: string
  /**
   * Executes one command. Settles within the node's own deadline and never rejects. Commands given in one order are
   * executed in that order.
   */
  execute(command: RecordCommand): Promise<NodeAnswer>
}

/** One command sent to all nodes, and the answers. */
export type Round = {
  /** A majority voted for the command. */
  readonly majorityReached: boolean
  /** One slot per node, in the order of the nodes; undefined until its answer arrives. */
  readonly answers: readonly (NodeAnswer | undefined)[]
  /** Resolves when every node has answered or was given up. */
  readonly settled: Promise<void>
}

/** Runs rounds: sends a command to every node and answers as soon as a majority has decided. */
export interface Quorum {
  readonly nodeCount: number
  /** @param skip nodes (by index) that need not hear of it, because they granted nothing; they count as votes for. */
  run(command: RecordCommand, skip?: ReadonlySet<number>): Promise<Round>
}

/** A holder's lease. A value: renewing returns another one. */
export type Lease = {
  readonly key: string
  readonly token: Token
  readonly owner: Owner
  readonly fingerprint: Fingerprint
  /** 1, or more where an earlier holder's lease expired and the fate of its work is unknown. */
  readonly attempt: number
  readonly leaseMs: number
  readonly retentionMs: number
  /** The claim ends at whichever comes first. */
  readonly validUntilMonoMs: number
  readonly validUntilWallMs: number
  /** Where the claimant allows for more drift of clocks than everybody does. */
  readonly driftFactor?: number
}

/** How a claim is tried again, and how far clocks are allowed to drift during its lease. */
export type ClaimTerms = {
  readonly retry: {
    /** Rounds after the first. */
    readonly count: number
    /** Ceiling of the first pause; it doubles, up to ten times as long. */
    readonly delayMs: number
    /** Share of each pause that is random. */
    readonly jitter: number
  }
  readonly driftFactor: number
}

export type ClaimRequest = {
  readonly key: string
  readonly fingerprint: Fingerprint
  readonly leaseMs: number
  /** How long a completed record answers duplicates. */
  readonly retentionMs: number
  /** Time for all rounds together. */
  readonly budgetMs: number
  /** Given where the same claimant may retry (a reservation's session, a gateway's request id); else random. */
  readonly owner?: Owner
  /** Default: those of every route. */
  readonly terms?: ClaimTerms
  /** Told after each round that granted nothing: how many nodes answered it, and how many others are well. */
  readonly onHeard?: (answered: number, well: number) => void
}

/**
 * Why a call was answered without asking any node. `no_majority`: the last claims found none (the quorum breaker is
 * open). `groups_unknown`: of several groups one has not shown a majority yet, so it is not known that all name the same.
 */
export type NotAsked = 'no_majority' | 'groups_unknown'

/** `answered`: nodes whose answer counted in the last round; absent where this process knew the result without one. */
export type ClaimResult =
  | { readonly kind: 'granted'; readonly lease: Lease }
  /** Completed earlier, and a majority holds the outcome. */
  | {
      readonly kind: 'duplicate'
      readonly outcome: StoredOutcome
      /** Of the holder that completed it, not of one that adopted it. */
      readonly token: Token
      readonly attempt: number
      /** Until the end that the outcome says itself, by the nodes' clocks; absent where no node was asked. */
      readonly lastsMs?: number
      readonly answered?: number
    }
  | { readonly kind: 'mismatch'; readonly answered?: number }
  /**
   * A majority shows one claim, and its lease is live: `retryAfterMs` is what is left of it. `heldForMs`: how long ago it was made, where
   * that is known.
   */
  | {
      readonly kind: 'held'
      readonly retryAfterMs: number
      readonly heldForMs?: number
      readonly answered?: number
    }
  /**
   * A majority answered, and no holder is known: a race that no claimant won within the budget, or too few of the nodes
   * that know of a holder answered. Nothing is granted, and nothing is known of another claim either.
   */
  | { readonly kind: 'contended'; readonly retryAfterMs: number; readonly answered?: number }
  | {
      readonly kind: 'unavailable'
      readonly answered: number
      readonly required: number
      /**
       * Nodes besides those that answered: they vote, and their answer does not count for this claim. They have no memory for it, their clocks
       * leave open whether an earlier one has ended, or they can't use its record.
       */
      readonly well?: number
      /** Of those, the nodes without memory for a new claim. */
      readonly full?: number
      /** Then `answered` is 0, and says nothing of the nodes. */
      readonly notAsked?: NotAsked
    }
  /** Completed, and what is stored fails its digest or shape: it is neither replayed nor executed again. */
  | { readonly kind: 'damaged'; readonly answered?: number }

export type RenewResult =
  | { readonly kind: 'renewed'; readonly lease: Lease }
  | { readonly kind: 'lost' }
  /** `skewed`: its token is too far ahead of some nodes' clocks. No other claimant is known to have taken it. */
  | { readonly kind: 'unavailable'; readonly skewed?: true }

/** `answered`: nodes whose answer counted; absent where no node was asked. */
export type CompleteResult =
  /** This outcome is recorded. */
  | { readonly kind: 'recorded' }
  /**
   * Surely without effect: another outcome is recorded, or no node has this one. `winner` is the recorded one, where it
   * is of the same content.
   */
  | {
      readonly kind: 'fenced'
      readonly winner?: { readonly outcome: StoredOutcome; readonly token: Token }
      readonly answered?: number
    }
  /** A majority refused it for good; but a node accepted it or may have, and a later claim may adopt it from there. */
  | { readonly kind: 'undecided'; readonly answered?: number }
  | { readonly kind: 'unavailable'; readonly answered?: number }

export type ReleaseResult =
  | { readonly kind: 'released' }
  | { readonly kind: 'not_owner' }
  | { readonly kind: 'unavailable' }

/** `keptForMs`: how long the node that keeps the record longest goes on keeping it; absent where none says so. */
export type ReadResult =
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'claimed'
      readonly token: Token
      readonly owner: Owner
      readonly attempt: number
      readonly remainingMs: number
      readonly fingerprint: Fingerprint
      /** A node shows an outcome that a majority surely does not have: a claim adopts it. */
      readonly minorityOutcome?: true
      /** A majority shows its token or a larger one: every claim from now on has a larger one. */
      readonly majorityReached?: true
      /** Over, and left of several claims: it is unknown which of them a majority had granted. */
      readonly leftovers?: true
      readonly keptForMs?: number
    }
  | { readonly kind: 'released'; readonly token: Token }
  | {
      readonly kind: 'completed'
      /** Of the holder that completed it, not of one that adopted it. */
      readonly token: Token
      readonly attempt: number
      readonly fingerprint: Fingerprint
      readonly outcome: StoredOutcome
    }
  /**
   * Too little is known to answer without contradicting an acknowledged call: too few nodes answered, or those that did
   * (`answered` is not below `required`) do not show it on a majority. `minorityOutcome`: an outcome that one of them
   * shows, which a claim would adopt.
   */
  | {
      readonly kind: 'unavailable'
      readonly answered: number
      readonly required: number
      readonly notAsked?: NotAsked
      readonly minorityOutcome?: {
        readonly token: Token
        readonly attempt: number
        readonly fingerprint: Fingerprint
      }
      readonly keptForMs?: number
    }
  | { readonly kind: 'damaged' }

/** The record protocol on the quorum. Rejects only where the caller broke a rule that its types can't express. */
export interface Leases {
  claim(request: ClaimRequest): Promise<ClaimResult>
  /** Its claim is kept from then on: {@link renewWithHigherToken}, {@link abortClaim} and a later round of its claimant change nothing. */
  renew(lease: Lease): Promise<RenewResult>
  /** Renews under a larger token, as a part of claiming several records: it keeps nothing. */
  renewWithHigherToken(lease: Lease): Promise<RenewResult>
  /** One lease has one outcome: a retry passes the same one (its completion time may differ). */
  complete(lease: Lease, outcome: StoredOutcome): Promise<CompleteResult>
  release(lease: Lease): Promise<ReleaseResult>
  /** Releases what was claimed, and never worked under: `not_owner` where another call of its session keeps it. */
  abortClaim(lease: Lease): Promise<ReleaseResult>
  /**
   * Forgets on every node that it reaches whatever stands below the lease's token, a recorded outcome too, and leaves
   * that token as a promise: only an operator who said so may.
   */
  purge(lease: Lease): Promise<ReleaseResult>
  /**
   * The recorded state. It never contradicts a call that was acknowledged before; where an outcome may have been
   * recorded, it helps it to a majority, or else answers that it does not know.
   */
  read(key: string): Promise<ReadResult>
}

/** What the application learns of its claim, besides the request itself. */
export type ForwardContext = {
  readonly token: Token
  readonly lockId: string
  readonly attempt: number
  /** Whether the claim still stands. Checked at the moment the request would leave: without one it must not. */
  readonly held: () => boolean
}

export type ApplicationResponse = {
  readonly status: number
  readonly headers: HeaderList
  readonly body: Buffer
  /**
   * The body is passed on as a stream; `body` is then empty. `over`: when the application has ended it, where that is seen. `whole`: what is
   * kept of it while it passes; without it nothing is.
   */
  readonly oversized?: {
    readonly stream: AsyncIterable<Buffer>
    readonly over?: Promise<void>
    readonly whole?: Promise<PassedBody>
  }
}

/** `too_long`: longer than what may be stored. `cut`: the application broke off. */
export type PassedBody = Buffer | 'too_long' | 'cut'

/**
 * The result of handing a request to the application. `never_sent`: no byte of it left (refused, no connection, its
 * claim ended before there was one): a retry is safe. `no_answer`: it may have been executed.
 */
export type ForwardResult =
  | { readonly kind: 'answered'; readonly response: ApplicationResponse }
  | { readonly kind: 'never_sent'; readonly detail: string }
  | { readonly kind: 'no_answer'; readonly cause: 'reset' | 'timeout' | 'malformed'; readonly detail: string }

export type Failure = Exclude<ForwardResult, { kind: 'answered' }>

/** The client's connection: a login may hold for it alone. */
export type Peer = { readonly destroyed: boolean; once(event: 'close', ended: () => void): unknown }

export type ApplicationRequest<Stream> = {
  readonly method: string
  /** Path and query exactly as received; begins with a slash. */
  readonly target: string
  readonly headers: HeaderList
  readonly body: Buffer | Stream | undefined
  /**
   * It changes nothing, and has no body: it may be written once more, where the application gave its kept connection up. Read by
   * `stream` alone.
   */
  readonly repeatable?: boolean
  readonly peer?: Peer
}

export type ForwardLimits = {
  /** From sending the request to the complete answer. */
  readonly answerWithinMs: number
  /** Longest body that is kept in memory; a longer one is streamed. */
  readonly storedLimitBytes: number
  /** Called for each part that arrives: false if it must not be kept, and the answer is streamed. */
  readonly mayKeep?: (bytes: number) => boolean
  /** Called once the request has a connection: false if it must not be written any more. */
  readonly mayBegin?: (() => boolean) | undefined
  /** Aborts when no client waits for the answer any more; then a stream has `answerWithinMs` left to end. */
  readonly abandoned?: AbortSignal
}

/** An answer that is kept nowhere. */
export type PassedOn = {
  readonly kind: 'answered'
  readonly status: number
  readonly headers: HeaderList
  /** All of it, where it came with its head; else a stream, which fails if the answer is cut, and is read to its end or destroyed. */
  readonly body: Buffer | AsyncIterable<Buffer>
}

export type Tunnel<Socket> = {
  readonly kind: 'tunnel'
  readonly headers: HeaderList
  readonly socket: Socket
}

/** A failure is a value: the answer depends on whether the request may have been executed. No method rejects. */
export interface Application<Stream, Socket> {
  /** Keeps a whole answer in memory, up to `storedLimitBytes`. */
  forward(request: ApplicationRequest<Stream>, limits: ForwardLimits): Promise<ForwardResult>
  /** Passes the answer on as it comes. `answerWithinMs` is for its head. */
  stream(
    request: ApplicationRequest<Stream>,
    answerWithinMs: number,
    signal: AbortSignal,
  ): Promise<PassedOn | Failure>
  /** Requests another protocol on the connection. */
  upgrade(
    request: ApplicationRequest<Stream>,
    protocol: string,
    answerWithinMs: number,
    signal: AbortSignal,
  ): Promise<Tunnel<Socket> | PassedOn | Failure>
}
