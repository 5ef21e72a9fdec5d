/**
 * The answer for each result of a call: THE table of the reservation API, and its sentences.
 */

import type { Clock } from '../../core/clock.ts'
import { type ClaimDiagnostics, claimDiagnostics } from '../../core/outcome.ts'
import type { ReadResult } from '../../core/ports.ts'
import type { StoredOutcome } from '../../core/record/stored-outcome.ts'
import type { Token } from '../../core/record/token.ts'
import type { Waited } from '../../core/reservations/reservation-wait.ts'
import type { EndResult, ExtendResult, Reservation, Validity } from '../../core/reservations/reservations.ts'
import { type Problem, RETRY_SOON_MS } from '../message/problems.ts'
import { whyUnavailable } from '../message/record-problems.ts'
import type { ExtendedOutput, IntentStatusOutput, ReservedOutput } from './schemas.ts'

export type ApiAnswer =
  | { readonly kind: 'json'; readonly status: 200 | 201; readonly body: unknown }
  | {
      readonly kind: 'problem'
      readonly problem: Problem
      /** For the event: whose limit was reached; or the record that refused, and what its claim found out. */
      readonly tenant?: string
      readonly recordKey?: string
      readonly found?: ClaimDiagnostics
    }

type Refusal = Extract<ApiAnswer, { kind: 'problem' }>

export function problem(code: Problem['code'], detail: string, more: Partial<Problem> = {}): Refusal {
  return { kind: 'problem', problem: { code, detail, ...more } }
}

export function refusal(of: Problem): Refusal {
  return { kind: 'problem', problem: of }
}

export const NO_SECRET = problem(
  'quorum-unavailable',
  'Too few nodes answer to agree on the secret that signs reservations. Nothing was reserved or changed. Ask again, unchanged, after the time given.',
  { retryAfterMs: RETRY_SOON_MS },
)

const UNKNOWN_END = problem(
  'quorum-unavailable',
  'Fewer nodes answered than are required, so it is not known whether this took effect. Ask again, unchanged: doing it twice changes nothing.',
  { retryAfterMs: RETRY_SOON_MS },
)

const CLOCKS_APART = problem(
  'quorum-unavailable',
  'What was asked for stands on nodes whose clocks are further apart than FENCEPOST_CLOCK_TOKEN_AHEAD, so one token can not stand for all of it. Nothing is reserved. Ask again when the clocks are set right, or reserve one by one.',
  { retryAfterMs: RETRY_SOON_MS },
)

export function times(validity: Validity, clock: Clock) {
  const leftMs = Math.min(
    validity.validUntilMonoMs - clock.monoMs(),
    validity.validUntilWallMs - clock.wallMs(),
  )
  return {
    expiration_time: new Date(validity.validUntilWallMs).toISOString(),
    expires_in_ms: Math.max(0, Math.floor(leftMs)),
  }
}

export type ReservedNow = {
  readonly kind: 'reserved'
  readonly reservation: Reservation
  readonly validity: Validity
  readonly body: ReservedOutput
  readonly recordKey: string
}

export function reservedBody(
  reservation: Reservation,
  validity: Validity,
  ids: { readonly id: string; readonly sessionId: string },
  clock: Clock,
): ReservedOutput {
  return {
    reservation_id: ids.id,
    session_id: ids.sessionId,
    status: 'SUCCESS',
    fencing_token: reservation.token,
    ...times(validity, clock),
    lease_ms: reservation.leaseMs,
    attempt: reservation.attempt,
  }
}

/** @param nameOf the caller's name for the intent that conflicts */
export function refusedAnswer(
  refused: Exclude<Waited, { kind: 'reserved' }>,
  nameOf: (recordKey: string) => string,
): ApiAnswer {
  const answer = refusalOf(refused, nameOf)
  return 'intent' in refused
    ? { ...answer, recordKey: refused.intent.recordKey, ...diagnosticsIn(refused) }
    : { ...answer, ...diagnosticsIn(refused) }
}

function diagnosticsIn(refused: Exclude<Waited, { kind: 'reserved' }>): {
  readonly found?: ClaimDiagnostics
} {
  if (refused.kind === 'duplicate') return { found: { holder: refused.token, attempt: refused.attempt } }
  return refused.kind === 'unavailable' ? claimDiagnostics(refused) : {}
}

function refusalOf(
  refused: Exclude<Waited, { kind: 'reserved' }>,
  nameOf: (recordKey: string) => string,
): Refusal {
  switch (refused.kind) {
    case 'conflict': {
      const { retryAfterMs, intent, entity } = refused
      const value = nameOf(intent.recordKey)
      return entity
        ? problem(
            'entity-busy',
            'Somebody else works on one of the entities. Nothing was reserved; ask again after the time given.',
            { retryAfterMs, more: { entity: value } },
          )
        : problem(
            'reservation-conflict',
            'Somebody else holds it. Nothing was reserved; ask again after the time given, or wait with "wait".',
            { retryAfterMs, more: { reservation_status: 'CONFLICT', value } },
          )
    }
    case 'duplicate': {
      const { outcome, token, attempt, intent } = refused
      return problem(
        'reservation-duplicate',
        'It was done and completed earlier; what was recorded then is in this answer. Do not do it again.',
        {
          more: { value: nameOf(intent.recordKey), ...doneMembers(outcome, token, attempt) },
        },
      )
    }
    case 'mismatch':
      return problem(
        'key-reused',
        'This key was first used for a request with another method, target or content. Use a new key for a new request.',
        { more: { value: nameOf(refused.intent.recordKey) } },
      )
    case 'undecided':
      return problem(
        'outcome-undecided',
        'An earlier attempt ended without an outcome, and "takeover": "indeterminate" asks for no other before somebody has decided what became of it.',
        { retryAfterMs: refused.retryAfterMs, more: { value: nameOf(refused.intent.recordKey) } },
      )
    case 'damaged':
      return problem(
        'record-damaged',
        'What is recorded can not be read. It is neither shown nor reserved again.',
        { more: { value: nameOf(refused.intent.recordKey) } },
      )
    case 'unsettled':
      return refused.skewed === true ? CLOCKS_APART : UNKNOWN_END
    case 'too_many_waiters':
      return problem(
        'too-many-waiters',
        `${refused.limit} others wait for it already, which is the limit. Ask again after the time given.`,
        { retryAfterMs: refused.retryAfterMs },
      )
    case 'unavailable':
      return problem(
        'quorum-unavailable',
        `${whyUnavailable(refused)} Nothing is known to be reserved. Ask again, unchanged, after the time given.`,
        { retryAfterMs: RETRY_SOON_MS },
      )
  }
}

/** What a duplicate is told of what was done. */
function doneMembers(outcome: StoredOutcome, token: Token, attempt: number): Record<string, unknown> {
  return {
    reservation_status: 'DUPLICATE',
    fencing_token: token,
    attempt,
    completed_at: new Date(outcome.completedAtWallMs).toISOString(),
    ...resultOf(outcome),
  }
}

/** An outcome as callers get it: the reported result, or the answer that the proxy recorded. */
function resultOf(outcome: StoredOutcome): Record<string, unknown> {
  switch (outcome.kind) {
    case 'result':
      return outcome.result === undefined ? {} : { result: outcome.result }
    case 'tombstone':
      return { original_status: outcome.status }
    case 'response':
      return {
        original_status: outcome.status,
        response: { headers: outcome.headers, body_base64: outcome.body.toString('base64') },
      }
  }
}

export function extendedAnswer(
  extended: ExtendResult,
  id: (of: Reservation) => string,
  clock: Clock,
): ApiAnswer {
  switch (extended.kind) {
    case 'extended': {
      const body: ExtendedOutput = {
        reservation_id: id(extended.reservation),
        status: 'SUCCESS',
        fencing_token: extended.reservation.token,
        ...times(extended.validity, clock),
      }
      return { kind: 'json', status: 200, body }
    }
    case 'lost':
    case 'done':
      return LOST
    case 'unavailable':
      return UNKNOWN_END
  }
}

const LOST = problem(
  'lease-lost',
  'It was released or completed, or somebody else holds it with a larger token. Stop working on it.',
  { more: { reservation_status: 'LEASE_LOST' } },
)

const FENCED = problem(
  'fenced',
  'It was released or completed before, or somebody else came after with a larger token. Nothing was changed.',
  { more: { reservation_status: 'FENCED' } },
)

const UNDECIDED = problem(
  'completion-undecided',
  'Somebody else came after, and it is not known that nothing of this is recorded: a node has it, or may have it. Reserve it again: DUPLICATE tells what stands, and a reservation with attempt above 1 that nothing does yet. Asking again, unchanged, changes nothing and may know more.',
  { retryAfterMs: RETRY_SOON_MS, more: { reservation_status: 'UNDECIDED' } },
)

/** A token that does not belong to the id proves nothing. */
export function wrongTokenAnswer(call: 'extend' | 'end'): ApiAnswer {
  return call === 'extend' ? LOST : FENCED
}

export function endedAnswer(
  ended: EndResult,
  id: string,
  status: 'COMPLETED' | 'RELEASED',
  { token, attempt }: Pick<Reservation, 'token' | 'attempt'>,
): ApiAnswer {
  switch (ended.kind) {
    case 'done':
      return { kind: 'json', status: 200, body: { reservation_id: id, status } }
    case 'done_otherwise':
      return problem(
        'reservation-duplicate',
        'It was completed before under this token and with another result, which stands and is in this answer. Nothing was changed. Do not do it again, and do not undo it.',
        { more: doneMembers(ended.outcome, token, attempt) },
      )
    case 'fenced':
      return FENCED
    case 'undecided':
      return UNDECIDED
    case 'unavailable':
      return UNKNOWN_END
  }
}

/** The status of an intent, or why it is not known. */
export function intentStatusOf(found: ReadResult): IntentStatusOutput | Problem {
  switch (found.kind) {
    case 'absent':
      return { state: 'FREE' }
    case 'released':
      return { state: 'FREE', fencing_token: found.token }
    case 'claimed': {
      const { token, attempt, remainingMs } = found
      const state = remainingMs > 0 ? 'HELD' : 'EXPIRED'
      return { state, fencing_token: token, attempt, remaining_lease_ms: Math.floor(remainingMs) }
    }
    case 'completed': {
      const { token, attempt, outcome } = found
      return {
        state: 'COMPLETED',
        fencing_token: token,
        attempt,
        completed_at: new Date(outcome.completedAtWallMs).toISOString(),
        ...('result' in outcome && outcome.result !== undefined ? { result: outcome.result } : {}),
      }
    }
    case 'unavailable':
      return {
        code: 'quorum-unavailable',
        detail:
          found.answered < found.required
            ? whyUnavailable(found)
            : `${found.answered} nodes answered, and what they show is on too few of them to be sure. Ask again; reserving it settles it.`,
        retryAfterMs: RETRY_SOON_MS,
      }
    case 'damaged':
      return { code: 'record-damaged', detail: 'What is recorded can not be read.' }
  }
}
