/**
 * The answer to a gateway for each result of a check: exactly 200 for "let it through", else the status for the client.
 *
 * nginx accepts only 401 and 403 as a refusal, and drops its body: it gets 403, with the client's status in `Fencepost-Status` and the
 * problem document in `Fencepost-Problem`, and its configuration makes the answer of those. `Fencepost-Reservation-Id` is for the
 * application and never for the client: with it anyone can end the claim.
 */

import { lockIdOf } from '../../core/claims/lease.ts'
import type { Decision } from '../../core/decision.ts'
import type { HeaderList } from '../../core/header-list.ts'
import {
  type ClaimDiagnostics,
  type Execution,
  foundWithoutMajority,
  NOT_COUNTED,
  UNAVAILABLE_RETRY_AFTER_MS,
} from '../../core/outcome.ts'
import type { StoredOutcome } from '../../core/record/stored-outcome.ts'
import { type Answer, problemAnswer } from '../message/answer.ts'
import { otherSpellings, sidecarHeaderNames } from '../message/headers.ts'
import type { Problem } from '../message/problems.ts'
import {
  inProgress,
  KEY_REUSED,
  RECORD_DAMAGED,
  undecided,
  whyUnavailable,
} from '../message/record-problems.ts'
import type { Checked, Decided, Dialect, Granted, Original } from './check.ts'

/** Headers of a granted request for the application. A client's own lines of these names must not reach it. */
const UPSTREAM_HEADERS = [
  'fencepost-fencing-token',
  'fencepost-lock-id',
  'fencepost-key',
  'fencepost-attempt',
  'fencepost-lease-expires',
  'fencepost-reservation-id',
] as const

export function checkAnswer(
  { decided, clientKey, recordKey }: Pick<Checked, 'decided' | 'clientKey' | 'recordKey'>,
  of: Pick<Original, 'dialect' | 'request'>,
  instance: () => string,
): Answer {
  switch (decided.kind) {
    case 'granted':
      return { ...allowed('acquired', grantedHeaders(decided), of), execution: executionOf(decided) }
    case 'passed':
      return allowed('bypassed', [], of)
    case 'unprotected':
      return allowed('fail_open', [], of)
    default:
      return refused(
        problemAnswer(problemFor(decided), { idempotencyKey: clientKey, recordKey, instance }),
        of.dialect,
      )
  }
}

/**
 * Lower-case names that must not reach the application beside `set`: those that only the sidecar may say, also where the gateway shows
 * a part of the head, and what an application may read as one of them or of `set`.
 */
export function foreignNames(came: HeaderList, set: HeaderList): readonly string[] {
  const saidByUs = new Set(set.map(([name]) => name.toLowerCase()))
  const foreign = new Set([...UPSTREAM_HEADERS, ...sidecarHeaderNames(came), ...otherSpellings(came, set)])
  return [...foreign].filter((name) => !saidByUs.has(name))
}

function executionOf({ reservation: { intents, token, attempt } }: Granted): Execution {
  return { token, attempt, lockId: lockIdOf({ key: intents[0]!.recordKey, token }) }
}

/** For the event of a check that was not granted. */
export function diagnosticsIn(decided: Decided): ClaimDiagnostics | undefined {
  switch (decided.kind) {
    case 'duplicate':
      return { holder: decided.token, attempt: decided.attempt }
    case 'unavailable':
      return foundWithoutMajority(decided)
    default:
      return undefined
  }
}

export function grantedHeaders(granted: Granted): HeaderList {
  const { validity, reservationId, keys, baggage } = granted
  const { token, attempt, lockId } = executionOf(granted)
  return [
    ['Fencepost-Fencing-Token', String(token)],
    ['Fencepost-Lock-Id', lockId],
    ['Fencepost-Attempt', String(attempt)],
    ['Fencepost-Lease-Expires', String(Math.floor(validity.validUntilWallMs))],
    ['Fencepost-Reservation-Id', reservationId],
    ['Fencepost-Key', keys.requestKey],
    ...(keys.idempotencyKey === undefined ? [] : [['Idempotency-Key', keys.idempotencyKey] as const]),
    ...(baggage === undefined ? [] : [['Baggage', baggage] as const]),
  ]
}

function allowed(
  decision: Decision,
  headers: HeaderList,
  { dialect, request }: Pick<Original, 'dialect' | 'request'>,
): Answer {
  const absent = absentHeaders(foreignNames(request.headers, headers), dialect)
  return {
    status: 200,
    headers: [...headers, ['Fencepost-Outcome', decision], ...absent, ['Cache-Control', 'no-store']],
    body: Buffer.alloc(0),
    decision,
    detail: decision,
  }
}

/** Removes lines that only the sidecar may set. nginx replaces each header by itself. */
function absentHeaders(names: readonly string[], dialect: Dialect): HeaderList {
  switch (dialect) {
    case 'ext-authz':
      return names.length === 0 ? [] : [['x-envoy-auth-headers-to-remove', names.join(',')]]
    case 'forward-auth':
      // Traefik and Caddy copy present lines of the names that their configuration lists; an empty one replaces the client's.
      return UPSTREAM_HEADERS.filter((name) => names.includes(name)).map((name) => [name, ''])
    case 'auth-request':
      return []
  }
}

/** @returns the answer with the client's status, and 403 in its place for nginx */
function refused(answer: Answer, dialect: Dialect): Answer {
  const headers: HeaderList = [...answer.headers, ['Fencepost-Outcome', answer.decision]]
  if (dialect !== 'auth-request') return { ...answer, headers }
  const forClient: HeaderList = [
    ['Fencepost-Status', String(answer.status)],
    ['Fencepost-Problem', asHeaderValue(answer.body)],
  ]
  return { ...answer, headers: [...headers, ...forClient], status: 403 }
}

/** A problem document is one line of JSON; a header has no other letters than those of ASCII. */
function asHeaderValue(document: Answer['body']): string {
  const text = Buffer.isBuffer(document) ? document.toString('utf8') : ''
  return text.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function problemFor(decided: Exclude<Decided, { kind: 'granted' | 'passed' | 'unprotected' }>): Problem {
  switch (decided.kind) {
    case 'refused':
      return decided.problem
    case 'conflict':
      return inProgress(decided.retryAfterMs)
    case 'undecided':
      return undecided(decided.retryAfterMs)
    case 'duplicate':
      return {
        code: 'reservation-duplicate',
        detail: 'The request was carried out and completed earlier. It is not carried out again.',
        ...originalStatus(decided.outcome),
      }
    case 'mismatch':
      return KEY_REUSED
    case 'damaged':
      return RECORD_DAMAGED
    case 'unavailable':
    case 'unsettled':
      return {
        code: 'quorum-unavailable',
        detail: `${whyUnavailable(decided.kind === 'unavailable' ? decided : NONE_COUNTED)} Nothing was carried out. Send the request again, unchanged, after the time given.`,
        retryAfterMs: UNAVAILABLE_RETRY_AFTER_MS,
      }
  }
}

/** Granted, and then too few nodes confirmed it: how many is not known. */
const NONE_COUNTED = { answered: 0, required: NOT_COUNTED }

function originalStatus(outcome: StoredOutcome): { originalStatus: number } | Record<string, never> {
  return outcome.kind === 'result' ? {} : { originalStatus: outcome.status }
}

/** The token of a gateway, where the configuration requires one. */
export const TOKEN_HEADER = 'fencepost-gateway-token'

export const TOKEN_REQUIRED: Problem = {
  code: 'token-required',
  detail: 'Send the token as Fencepost-Gateway-Token.',
}
