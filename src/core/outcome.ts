/**
 * Everything that can happen to a protected request, as one closed union.
 *
 * "Another holder has it", "we cannot know" and "it ran, the answer was lost" are different words here, and stay
 * different on the wire: `http/message/problems.ts` is the one table from these to statuses.
 */

import type { ApplicationResponse, ClaimResult, ForwardResult, NotAsked } from './ports.ts'
import type { StoredOutcome } from './record/stored-outcome.ts'
import type { Token } from './record/token.ts'

/**
 * What protected the call of the application: the quorum; this process alone (`local`, "degraded"); or neither (`none`,
 * "unprotected"). The last two only where a route chose them for a lost quorum.
 */
export type Protection = 'quorum' | 'local' | 'none'

/** For `required`, where too few nodes answered and their number is unknown. */
export const NOT_COUNTED = 0

/** What the claim of a request that was not executed found out, for events; each absent where it is not known. */
export type ClaimDiagnostics = {
  /** The token of the claim that executed it, and its attempt. */
  readonly holder?: Token
  readonly attempt?: number
  /** Nodes whose answer counted. */
  readonly answered?: number
  /** No node was asked, and why. */
  readonly notAsked?: NotAsked
  /** What is left of the lease of its holder. */
  readonly leaseRemainingMs?: number
}

export type Outcome =
  /** Executed now; a majority has recorded the answer. */
  | ({ readonly kind: 'created'; readonly response: ApplicationResponse } & Executed)
  /** Executed earlier: the recorded answer. */
  | {
      readonly kind: 'replayed'
      readonly stored: Extract<StoredOutcome, { kind: 'response' | 'result' }>
      readonly token: Token
      readonly found?: ClaimDiagnostics
    }
  /** Executed earlier, and the answer could not be kept: it is never executed again. */
  | {
      readonly kind: 'gone'
      readonly stored: Extract<StoredOutcome, { kind: 'tombstone' }>
      readonly token: Token
      readonly found?: ClaimDiagnostics
    }
  /** The application answered, and by policy nothing is recorded: a retry is executed. */
  | ({ readonly kind: 'released'; readonly response: ApplicationResponse } & Executed)
  /** Executed, and not recorded: the quorum did not take it, or policy holds the claim until its lease ends. */
  | ({ readonly kind: 'unstored'; readonly response: ApplicationResponse } & Executed)
  /** Passed to the application without protection (`fail-open`). */
  | {
      readonly kind: 'unprotected'
      readonly response: ApplicationResponse
      readonly found?: ClaimDiagnostics
    }
  /** The same, and no whole answer came back. It may have been executed, and a retry is executed again. */
  | (NoAnswer & { readonly kind: 'unprotected_no_answer'; readonly found?: ClaimDiagnostics })
  /** The key was used for another request. */
  | { readonly kind: 'mismatch'; readonly found?: ClaimDiagnostics }
  /** The same content was sent under another key. */
  | { readonly kind: 'duplicate_content' }
  | { readonly kind: 'in_progress'; readonly retryAfterMs: number; readonly found?: ClaimDiagnostics }
  /** Another request works on the same entity, and did not end within this one's wait. */
  | { readonly kind: 'entity_busy'; readonly retryAfterMs: number }
  /** An earlier attempt ended without an outcome, and the route does not allow another one. */
  | { readonly kind: 'undecided'; readonly retryAfterMs: number; readonly found?: ClaimDiagnostics }
  /** More requests wait for one key than the limit allows. */
  | { readonly kind: 'too_many_waiters'; readonly limit: number; readonly retryAfterMs: number }
  /** Fewer than a majority of nodes answered; nothing was executed. */
  | (Extract<ClaimResult, { kind: 'unavailable' }> & { readonly retryAfterMs: number })
  /** The record of this request is damaged: it is neither replayed nor executed again. */
  | { readonly kind: 'damaged'; readonly found?: ClaimDiagnostics }
  /** Sent to the application, and no whole answer came back. It may have been executed. */
  | (NoAnswer & {
      readonly kind: 'indeterminate'
      readonly retryAfterMs: number
      readonly execution: Execution
    })
  /** The same, as the answer itself says, of a gateway between here and the application or of a time limit in it. */
  | {
      readonly kind: 'indeterminate'
      readonly cause: 'answer'
      readonly response: ApplicationResponse
      readonly execution: Execution
    }
  /** The application could not be reached; nothing was executed. */
  | { readonly kind: 'never_sent'; readonly detail: string }

/** `detail`: for the log, as with `never_sent`: what the connection said. */
type NoAnswer = Omit<Extract<ForwardResult, { kind: 'no_answer' }>, 'kind'>

/** What protected the call of the application, and its claim. */
export type Executed = { readonly protection: Protection; readonly execution: Execution }

/** The claim under which the application was called. */
export type Execution = { readonly token: Token; readonly attempt: number; readonly lockId: string }

/** Retry-After of a lost quorum: long enough not to stampede, short enough to recover in. */
export const UNAVAILABLE_RETRY_AFTER_MS = 1_000

/** The lease ended before the work began. This process does not know the holder; a retry finds out. */
export const LEASE_ENDED: Outcome = {
  kind: 'unavailable',
  answered: 0,
  required: NOT_COUNTED,
  retryAfterMs: UNAVAILABLE_RETRY_AFTER_MS,
}

/** The answer to a duplicate. */
export function replay(
  outcome: StoredOutcome,
  token: number,
  found: ClaimDiagnostics = { holder: token },
): Outcome {
  return outcome.kind === 'tombstone'
    ? { kind: 'gone', stored: outcome, token, found }
    : { kind: 'replayed', stored: outcome, token, found }
}

/** What a claim that was not granted says of itself. */
export function claimDiagnostics(claimed: Exclude<ClaimResult, { kind: 'granted' }>): {
  readonly found?: ClaimDiagnostics
} {
  if (claimed.kind === 'unavailable') {
    const found = foundWithoutMajority(claimed)
    return found === undefined ? {} : { found }
  }
  const { answered } = claimed
  const heard = answered === undefined ? {} : { answered }
  if (claimed.kind === 'duplicate')
    return { found: { holder: claimed.token, attempt: claimed.attempt, ...heard } }
  if (claimed.kind === 'held') return { found: { leaseRemainingMs: claimed.retryAfterMs, ...heard } }
  return answered === undefined ? {} : { found: heard }
}

/** What a claim that found no majority says of itself; undefined where that is all that is known. */
export function foundWithoutMajority(
  claimed: Pick<Extract<ClaimResult, { kind: 'unavailable' }>, 'answered' | 'required' | 'notAsked'>,
): ClaimDiagnostics | undefined {
  const { answered, required, notAsked } = claimed
  if (notAsked !== undefined) return { notAsked }
  return required === NOT_COUNTED ? undefined : { answered }
}

/** For the answer and the log, behind "no node was asked". */
export function whyNotAsked(notAsked: NotAsked): string {
  switch (notAsked) {
    case 'no_majority':
      return 'the last claims found no majority'
    case 'groups_unknown':
      return 'a majority of every group of nodes has to answer first, once'
  }
}

/** The result of a request that was passed on without a lease. @param of what its claim found out */
export function unprotected(result: ForwardResult, of: { readonly found?: ClaimDiagnostics }): Outcome {
  switch (result.kind) {
    case 'answered':
      return { kind: 'unprotected', response: result.response, ...of }
    case 'never_sent':
      return result
    case 'no_answer':
      return { kind: 'unprotected_no_answer', cause: result.cause, detail: result.detail, ...of }
  }
}

export function unavailable(why: Omit<Extract<Outcome, { kind: 'unavailable' }>, 'retryAfterMs'>): Outcome {
  return { ...why, retryAfterMs: UNAVAILABLE_RETRY_AFTER_MS }
}
