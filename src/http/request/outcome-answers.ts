/**
 * The answer for each outcome of a request: the table of `docs/reference/http.md`, row by row.
 *
 * Owns status, `Idempotency-Status` and the sentences. Pure; writing to a connection is `server/send.ts`.
 */

import { type HeaderLine, type HeaderList, linesOf } from '../../core/header-list.ts'
import type { Outcome, Protection } from '../../core/outcome.ts'
import type { ApplicationResponse } from '../../core/ports.ts'
import type { StoredOutcome } from '../../core/record/stored-outcome.ts'
import { OMITTED_HEADER } from '../../core/routes/settlement.ts'
import { type Answer, type IdempotencyStatus, type ProblemContext, problemAnswer } from '../message/answer.ts'
import { CREATED_AT_HEADER, REPLAYED_HEADER, STATUS_HEADER, towardsClient } from '../message/headers.ts'
import type { Problem } from '../message/problems.ts'
import {
  inProgress,
  KEY_REUSED,
  RECORD_DAMAGED,
  undecided,
  whyUnavailable,
} from '../message/record-problems.ts'

/** @param answerWithinMs the application's time limit; undefined if a gateway sets it */
export function answerFor(
  outcome: Outcome,
  context: ProblemContext,
  answerWithinMs: number | undefined,
): Answer {
  switch (outcome.kind) {
    case 'created':
    case 'released':
    case 'unstored':
      return passedOn(outcome.response, statusUnder(outcome.protection, outcome.kind), {
        decision: 'acquired',
        execution: outcome.execution,
      })
    case 'unprotected':
      return passedOn(outcome.response, 'unprotected', { decision: 'fail_open' })
    case 'replayed':
      return outcome.stored.kind === 'response'
        ? replayed(outcome.stored)
        : problemAnswer(NO_HTTP_ANSWER, context)
    case 'gone':
      return gone(outcome.stored, context)
    case 'mismatch':
    case 'duplicate_content':
    case 'in_progress':
    case 'entity_busy':
    case 'undecided':
    case 'too_many_waiters':
    case 'unavailable':
    case 'damaged':
      return problemAnswer(problemFor(outcome, answerWithinMs), context, STATUS_OF[outcome.kind])
    case 'never_sent':
    case 'unprotected_no_answer': {
      const answer = problemAnswer(problemFor(outcome, answerWithinMs), context, STATUS_OF[outcome.kind])
      return { ...answer, because: outcome.detail }
    }
    case 'indeterminate': {
      if (outcome.cause === 'answer')
        return passedOn(outcome.response, 'indeterminate', {
          decision: 'acquired',
          execution: outcome.execution,
        })
      const answer = problemAnswer(problemFor(outcome, answerWithinMs), context, STATUS_OF[outcome.kind])
      return { ...answer, execution: outcome.execution, because: outcome.detail }
    }
  }
}

const NO_HTTP_ANSWER: Problem = {
  code: 'record-damaged',
  detail: 'The record of this request holds no HTTP answer. It is neither replayed nor carried out again.',
}

/** Outcomes that are answered with a problem. */
type Unsuccessful = Exclude<
  Outcome,
  { kind: 'created' | 'released' | 'unstored' | 'unprotected' | 'replayed' | 'gone' } | { cause: 'answer' }
>

/** `Idempotency-Status` beside a problem, where the table of `docs/reference/http.md` gives it one. */
const STATUS_OF: Partial<Record<Unsuccessful['kind'], IdempotencyStatus>> = {
  mismatch: 'mismatch',
  duplicate_content: 'duplicate-content',
  in_progress: 'in-progress',
  undecided: 'indeterminate',
  too_many_waiters: 'in-progress',
  indeterminate: 'indeterminate',
  unprotected_no_answer: 'unprotected',
}

function problemFor(outcome: Unsuccessful, answerWithinMs: number | undefined): Problem {
  switch (outcome.kind) {
    case 'mismatch':
      return KEY_REUSED
    case 'duplicate_content':
      return {
        code: 'duplicate-content',
        detail:
          'A request with the same content was sent under another key. Retry with that key to get its answer; change the content if another request is meant.',
      }
    case 'in_progress':
      return inProgress(outcome.retryAfterMs)
    case 'entity_busy':
      return {
        code: 'entity-busy',
        detail:
          'Another request works on the same entity. Nothing was carried out; send this one again, unchanged, after the time given.',
        retryAfterMs: outcome.retryAfterMs,
      }
    case 'undecided':
      return undecided(outcome.retryAfterMs)
    case 'too_many_waiters':
      return {
        code: 'too-many-waiters',
        detail: `The same request is being carried out, and ${outcome.limit} others wait for it already, which is the limit. Send it again, unchanged, after the time given.`,
        retryAfterMs: outcome.retryAfterMs,
      }
    case 'unavailable':
      return {
        code: 'quorum-unavailable',
        detail: `${whyUnavailable(outcome)} Nothing was carried out. Send the request again, unchanged, after the time given.`,
        retryAfterMs: outcome.retryAfterMs,
      }
    case 'damaged':
      return RECORD_DAMAGED
    case 'never_sent':
      return {
        code: 'application-unreachable',
        detail:
          'No connection to the application. Nothing was carried out; send the request again, unchanged.',
        retryAfterMs: 0,
      }
    case 'unprotected_no_answer': {
      // Without `Retry-After`: clients that obey it would have the request executed twice.
      const { code, detail } = noAnswer(outcome.cause, answerWithinMs)
      return {
        code,
        detail: `${detail} The request may have been carried out, and it was not protected: too few nodes answer. If you send it again, it may be carried out a second time. Find out first whether it was.`,
      }
    }
    case 'indeterminate': {
      const { code, detail } = noAnswer(outcome.cause, answerWithinMs)
      return {
        code,
        detail: `${detail} The request may have been carried out. Send it again, unchanged, after the time given, and not under another key.`,
        retryAfterMs: outcome.retryAfterMs,
      }
    }
  }
}

export function noAnswer(cause: 'reset' | 'malformed' | 'timeout', answerWithinMs: number | undefined) {
  switch (cause) {
    case 'reset':
      return {
        code: 'application-reset',
        detail: 'The application broke off before its answer was whole.',
      } as const
    case 'malformed':
      return {
        code: 'application-malformed',
        detail: 'The answer of the application was malformed.',
      } as const
    case 'timeout':
      return {
        code: 'application-timeout',
        detail:
          answerWithinMs === undefined
            ? 'The application did not answer within the time that the gateway gives it.'
            : `The application did not answer within ${answerWithinMs} ms, which is the limit.`,
      } as const
  }
}

function statusUnder(protection: Protection, kind: 'created' | 'released' | 'unstored'): IdempotencyStatus {
  switch (protection) {
    case 'quorum':
      return kind
    case 'local':
      return 'degraded'
    case 'none':
      return 'unprotected'
  }
}

function passedOn(
  response: ApplicationResponse,
  status: IdempotencyStatus,
  of: Pick<Answer, 'decision' | 'execution'>,
): Answer {
  const headers = towardsClient(response.headers)
  addLength(headers, response.headers)
  headers.push([STATUS_HEADER, status])
  const body = response.oversized?.stream ?? response.body
  return { status: response.status, headers, body, detail: status, ...of }
}

/** The length that the application states. For HEAD only it knows; in a stream it shows the client that the stream was cut. */
function addLength(lines: HeaderLine[], headers: HeaderList): void {
  const length = linesOf(headers, 'content-length')[0]
  if (length !== undefined) lines.push(['Content-Length', length])
}

function replayed(stored: Extract<StoredOutcome, { kind: 'response' }>): Answer {
  const headers = towardsClient(stored.headers).filter(([name]) => name.toLowerCase() !== 'cache-control')
  addLength(headers, stored.headers)
  headers.push(
    ...linesOf(stored.headers, OMITTED_HEADER.toLowerCase()).map((names) => [OMITTED_HEADER, names] as const),
    ['Cache-Control', 'no-store'],
    [STATUS_HEADER, 'replayed'],
    [REPLAYED_HEADER, 'true'],
    [CREATED_AT_HEADER, new Date(stored.completedAtWallMs).toUTCString()],
  )
  return {
    status: stored.status,
    headers,
    body: stored.body,
    decision: 'duplicate_completed',
    detail: 'replayed',
  }
}

function gone(stored: Extract<StoredOutcome, { kind: 'tombstone' }>, context: ProblemContext): Answer {
  const answer = problemAnswer(
    {
      code: 'response-not-stored',
      detail: `The request was carried out once and answered with status ${stored.status}; that answer was not kept. It is not carried out again.`,
      originalStatus: stored.status,
    },
    context,
    'gone',
  )
  return {
    ...answer,
    headers: [
      ...answer.headers,
      ...(stored.location === undefined ? [] : [['Location', stored.location] as const]),
      [REPLAYED_HEADER, 'true'],
      [CREATED_AT_HEADER, new Date(stored.completedAtWallMs).toUTCString()],
    ],
  }
}
