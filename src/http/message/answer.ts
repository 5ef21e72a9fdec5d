/**
 * An answer of the sidecar, before it is written to a connection: what every listener sends, and what is counted of it.
 *
 * Owns the form of an answer, the values of `Idempotency-Status`, and how a problem becomes an answer with its decision.
 * Which answer an outcome gets is `request/outcome-answers.ts`; writing it is `server/send.ts`.
 */

import type { Decision } from '../../core/decision.ts'
import type { HeaderList } from '../../core/header-list.ts'
import type { Execution } from '../../core/outcome.ts'
import { STATUS_HEADER } from './headers.ts'
import { type Problem, type ProblemCode, problemDocument } from './problems.ts'

/** Every value of `Idempotency-Status`; `docs/reference/http.md` says what each means, and a test compares. */
export const IDEMPOTENCY_STATUSES = [
  'created',
  'replayed',
  'released',
  'unstored',
  'gone',
  'in-progress',
  'mismatch',
  'duplicate-content',
  'indeterminate',
  'unprotected',
  'degraded',
  'bypassed',
] as const

export type IdempotencyStatus = (typeof IDEMPOTENCY_STATUSES)[number]

export type Answer = {
  readonly status: number
  readonly headers: HeaderList
  readonly body: Buffer | AsyncIterable<Buffer>
  readonly decision: Decision
  /** Finer than the decision: an `Idempotency-Status`, or the code of a problem. */
  readonly detail: string
  readonly execution?: Execution
  /** Where the application gave no answer: what its connection said. For the log and not for the client, whom it would tell addresses. */
  readonly because?: string
  /** Of a problem document: what it names itself by. */
  readonly instance?: string
}

/** What a problem document says besides the problem itself. */
export type ProblemContext = {
  readonly idempotencyKey?: string | undefined
  readonly recordKey?: string | undefined
  /** A new UUID. */
  readonly instance: () => string
}

/**
 * Its `error` repeats code and detail for clients that know the application and not us: Stripe's library for Node looks at no status, and
 * returns every JSON object without `error` as what it asked for.
 */
export function problemAnswer(problem: Problem, context: ProblemContext, status?: IdempotencyStatus): Answer {
  const key = problem.idempotencyKey ?? context.idempotencyKey
  const { recordKey } = context
  const { code, detail } = problem
  const more = { ...problem.more, error: { code, message: detail } }
  const document = problemDocument({ ...problem, idempotencyKey: key, recordKey, more }, context.instance())
  const headers =
    status === undefined ? document.headers : [...document.headers, [STATUS_HEADER, status] as const]
  return { ...document, headers, decision: decisionOf(code, status), detail: code }
}

function decisionOf(code: ProblemCode, status: IdempotencyStatus | undefined): Decision {
  if (status === 'bypassed') return 'bypassed'
  if (status === 'unprotected') return 'fail_open'
  switch (code) {
    case 'request-in-progress':
    case 'entity-busy':
    case 'outcome-undecided':
    case 'too-many-waiters':
      return 'duplicate_in_flight'
    case 'response-not-stored':
    case 'record-damaged':
      return 'duplicate_completed'
    case 'key-reused':
    case 'duplicate-content':
      return 'fingerprint_mismatch'
    case 'quorum-unavailable':
      return 'quorum_unavailable'
    case 'application-unreachable':
    case 'application-reset':
    case 'application-malformed':
    case 'application-timeout':
      return 'acquired'
    case 'too-many-requests-in-flight':
    case 'too-many-bytes-in-flight':
    case 'tenant-in-flight':
    case 'tenant-new-records':
    case 'draining':
      return 'overloaded'
    default:
      return 'invalid'
  }
}
