/**
 * An answer of the sidecar, before it is written to a connection: what every listener sends, and what is counted of it.
 *
 * Owns the form of an answer, the values of `Idempotency-Status`, how a problem becomes an answer with its decision, and the event of it.
 * Which answer an outcome gets is `request/outcome-answers.ts`; writing it is `server/send.ts`.
 */

import type { DecidedEvent, Decision, Entrypoint } from '../../core/decision.ts'
import type { HeaderList } from '../../core/header-list.ts'
import type { ClaimDiagnostics, Execution } from '../../core/outcome.ts'
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

/** The label of `fencepost_decisions_total` that each problem counts under; `invalid` under every other. */
const DECISIONS: Partial<Record<Decision, readonly ProblemCode[]>> = {
  duplicate_in_flight: [
    'request-in-progress',
    'reservation-conflict',
    'entity-busy',
    'outcome-undecided',
    'too-many-waiters',
  ],
  duplicate_completed: ['response-not-stored', 'reservation-duplicate', 'record-damaged'],
  fingerprint_mismatch: ['key-reused', 'duplicate-content'],
  quorum_unavailable: ['quorum-unavailable'],
  acquired: ['application-unreachable', 'application-reset', 'application-malformed', 'application-timeout'],
  overloaded: [
    'too-many-requests-in-flight',
    'too-many-bytes-in-flight',
    'tenant-in-flight',
    'tenant-new-records',
    'session-reservations',
    'draining',
  ],
}
const DECISION_OF: ReadonlyMap<ProblemCode, Decision> = new Map(
  Object.entries(DECISIONS).flatMap(([decision, codes]) => codes.map((code) => [code, decision as Decision])),
)

export function decisionOf(code: ProblemCode, status?: IdempotencyStatus): Decision {
  if (status === 'bypassed') return 'bypassed'
  if (status === 'unprotected') return 'fail_open'
  return DECISION_OF.get(code) ?? 'invalid'
}

type DecisionContext = {
  readonly entrypoint: Entrypoint
  readonly route: string | undefined
  readonly durationMs: number
  readonly recordKey?: string | undefined
  readonly tenant?: string | undefined
  /** What the claim of a request that was not executed found out. */
  readonly found?: ClaimDiagnostics | undefined
  /** The client's own key; only where the configuration wants it in the log. */
  readonly shownKey?: string | undefined
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** The event of an answer, from which log lines and `fencepost_decisions_total` are made. */
export function decidedEvent(answer: Answer, context: DecisionContext): DecidedEvent {
  const { entrypoint, route, durationMs, recordKey, tenant, found, shownKey } = context
  // Assigned where there is one: a spread for each of six is the dearest part of an event that every request has.
  const event: Writable<DecidedEvent> = {
    kind: 'decided',
    entrypoint,
    decision: answer.decision,
    detail: answer.detail,
    route,
    status: answer.status,
    durationMs,
    keyHash: recordKey?.slice(-64),
  }
  if (tenant !== undefined) event.tenant = tenant
  if (shownKey !== undefined) event.idempotencyKey = shownKey
  if (answer.instance !== undefined) event.instance = answer.instance
  if (answer.because !== undefined) event.because = answer.because
  if (found !== undefined) Object.assign(event, found)
  if (answer.execution !== undefined) Object.assign(event, answer.execution)
  return event
}
