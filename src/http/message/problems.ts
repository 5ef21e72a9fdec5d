/**
 * THE table of problems: every code that a client can receive, its status, its title, and whether a retry can help.
 * `docs/reference/problems.md` lists exactly these codes; a test compares both directions.
 *
 * Owns the form of a problem document. Other modules decide which problem arises; the rest of an answer
 * (`Idempotency-Status`) is `answer.ts`.
 *
 * Source: RFC 9457.
 */

import { keyHashOf } from '../../core/claims/lease.ts'
import type { QuotaReached } from '../../core/request/tenant-quotas.ts'

type Row = {
  readonly status: number
  readonly title: string
  /** The same request, sent again later, can get another answer. */
  readonly retryable: boolean
}

export const PROBLEMS = {
  // The request itself
  'malformed-request': { status: 400, title: 'The request is malformed', retryable: false },
  'key-missing': { status: 400, title: 'An idempotency key is required', retryable: false },
  'key-invalid': { status: 400, title: 'The idempotency key is invalid', retryable: false },
  'scope-invalid': {
    status: 400,
    title: 'A header that names the scope of the request is invalid',
    retryable: false,
  },
  'digest-mismatch': {
    status: 400,
    title: 'The body does not have the digest that the request states',
    retryable: false,
  },
  'token-invalid': {
    status: 401,
    title: 'The bearer token of the request does not identify its client',
    retryable: false,
  },
  'method-refused': { status: 405, title: 'The method is not passed on', retryable: false },
  'request-timeout': { status: 408, title: 'The request did not arrive in time', retryable: true },
  'body-too-large': { status: 413, title: 'The body is too large', retryable: false },
  'expectation-failed': { status: 417, title: 'The expectation can not be met', retryable: false },
  'headers-too-large': { status: 431, title: 'The head of the request is too large', retryable: false },
  'transfer-encoding-unsupported': {
    status: 501,
    title: 'The transfer encoding is not supported',
    retryable: false,
  },
  'upgrade-refused': {
    status: 501,
    title: 'A protected request can not change the protocol',
    retryable: false,
  },
  // The reservation API: the call itself
  'request-invalid': {
    status: 400,
    title: 'The call does not have the form that is asked for',
    retryable: false,
  },
  'reservation-id-invalid': {
    status: 400,
    title: 'The reservation id was not issued by this cluster',
    retryable: false,
  },
  'page-refused': { status: 403, title: 'A page in a browser may not call', retryable: false },
  'token-required': { status: 401, title: 'The bearer token is missing or wrong', retryable: false },
  'call-unknown': { status: 404, title: 'There is no such call', retryable: false },
  'media-type-unsupported': { status: 415, title: 'The body must be JSON', retryable: false },
  // The reservation API: what is known about the reservation
  'reservation-conflict': { status: 409, title: 'Somebody else holds it', retryable: true },
  'reservation-duplicate': { status: 409, title: 'It was completed earlier', retryable: false },
  'lease-lost': { status: 410, title: 'The lease is lost', retryable: false },
  'reservation-lost': { status: 410, title: 'The reservation is lost', retryable: false },
  fenced: { status: 410, title: 'It is no longer yours to end', retryable: false },
  'completion-undecided': {
    status: 503,
    title: 'Whether the result stands is not known',
    retryable: true,
  },
  // The operator API
  'role-required': { status: 403, title: 'The role of the token does not allow it', retryable: false },
  'record-unknown': { status: 404, title: 'There is no such record', retryable: false },
  'dead-letter-unknown': { status: 404, title: 'There is no such dead letter', retryable: false },
  'decision-refused': { status: 409, title: 'There is nothing to decide', retryable: false },
  'promise-at-stake': { status: 409, title: 'The decision would break a promise', retryable: false },
  'record-moved-on': { status: 409, title: 'The record is not as it was seen', retryable: false },
  'decision-under-way': { status: 409, title: 'Another operator decides on it', retryable: true },
  // What is known about the request
  'request-in-progress': { status: 409, title: 'The same request is being carried out', retryable: true },
  'duplicate-content': {
    status: 409,
    title: 'The same content was sent under another key',
    retryable: false,
  },
  'entity-busy': { status: 409, title: 'Another request works on the same entity', retryable: true },
  'outcome-undecided': {
    status: 409,
    title: 'An earlier attempt ended without a known outcome',
    retryable: true,
  },
  'response-not-stored': {
    status: 410,
    title: 'The request was carried out and its answer was not kept',
    retryable: false,
  },
  'key-reused': { status: 422, title: 'The idempotency key was used for another request', retryable: false },
  'too-many-waiters': { status: 429, title: 'Too many requests wait for this key', retryable: true },
  'tenant-in-flight': {
    status: 429,
    title: 'Too many requests of this tenant are under way',
    retryable: true,
  },
  'tenant-new-records': { status: 429, title: 'This tenant makes new records too fast', retryable: true },
  'session-reservations': { status: 429, title: 'This session holds too many reservations', retryable: true },
  // The sidecar and its nodes
  'internal-error': { status: 500, title: 'The sidecar failed', retryable: true },
  'record-damaged': { status: 502, title: 'The record of this request is damaged', retryable: false },
  'token-unverifiable': {
    status: 503,
    title: 'The keys that verify the bearer token are not known',
    retryable: true,
  },
  'quorum-unavailable': { status: 503, title: 'Too few nodes answer', retryable: true },
  'too-many-requests-in-flight': { status: 503, title: 'Too many requests are under way', retryable: true },
  'too-many-bytes-in-flight': {
    status: 503,
    title: 'The bodies under way fill the memory for them',
    retryable: true,
  },
  draining: { status: 503, title: 'The sidecar is shutting down', retryable: true },
  // The application
  'application-unreachable': { status: 502, title: 'The application could not be reached', retryable: true },
  'application-reset': { status: 502, title: 'The application broke off', retryable: true },
  'application-malformed': {
    status: 502,
    title: 'The application answered with a malformed message',
    retryable: true,
  },
  'application-timeout': { status: 504, title: 'The application did not answer in time', retryable: true },
} as const satisfies Record<string, Row>

export type ProblemCode = keyof typeof PROBLEMS

export const PROBLEM_CODES = Object.keys(PROBLEMS) as readonly ProblemCode[]

/** Prefix of every problem type. Its page is `docs/reference/problems.md`, with one section for each code. */
export const PROBLEM_TYPE_BASE = 'https://fencepost.dev/problems/'

export type Problem = {
  readonly code: ProblemCode
  /** One sentence or two: what is wrong with this request, with the number of the limit, and what to do. */
  readonly detail: string
  readonly idempotencyKey?: string | undefined
  /** Of the record of the request: the document names it as log lines do, for support. */
  readonly recordKey?: string | undefined
  readonly retryAfterMs?: number
  /** The status of the original answer, where that answer was not kept. */
  readonly originalStatus?: number
  /** `WWW-Authenticate` of a 401. */
  readonly challenge?: string
  /** Extension members (RFC 9457, section 3.2) that only this code has. */
  readonly more?: Readonly<Record<string, unknown>>
}

/** The problem of a tenant that has reached a quota (`core/request/tenant-quotas.ts`). */
export function quotaProblem({ quota, limit, retryAfterMs }: QuotaReached): Problem {
  return quota === 'in-flight'
    ? {
        code: 'tenant-in-flight',
        detail: `${limit} requests of this tenant are under way, which is the limit. Nothing was carried out. Send the request again, unchanged, after the time given.`,
        retryAfterMs,
      }
    : {
        code: 'tenant-new-records',
        detail: `This tenant made more than ${limit} new records within a second, which is the limit. Nothing was carried out. Send the request again, unchanged, after the time given.`,
        retryAfterMs,
      }
}

/** After these the connection closes: what follows may not be a request, or nothing may follow. */
export function closesConnection(code: string): boolean {
  return CLOSING.has(code)
}

const CLOSING: ReadonlySet<string> = new Set<ProblemCode>([
  'malformed-request',
  'method-refused',
  'request-timeout',
  'headers-too-large',
  'transfer-encoding-unsupported',
  'draining',
])

export type ProblemDocument = {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Buffer
  /** As it stands in the body. */
  readonly instance: string
}

export function instanceOf(uuid: string): string {
  return `urn:uuid:${uuid}`
}

/** @param uuid UUID of this occurrence, which the log has, too */
export function problemDocument(problem: Problem, uuid: string): ProblemDocument {
  const { status, title, retryable } = PROBLEMS[problem.code]
  const retryAfterSeconds =
    problem.retryAfterMs === undefined ? undefined : wholeSeconds(problem.retryAfterMs)
  const challenge = problem.challenge === undefined ? [] : [['WWW-Authenticate', problem.challenge] as const]
  const instance = instanceOf(uuid)
  const document = {
    type: PROBLEM_TYPE_BASE + problem.code,
    title,
    status,
    detail: problem.detail,
    instance,
    code: problem.code,
    retryable,
    ...(problem.idempotencyKey === undefined ? {} : { idempotency_key: problem.idempotencyKey }),
    ...(problem.recordKey === undefined ? {} : { key_hash: keyHashOf(problem.recordKey) }),
    ...(retryAfterSeconds === undefined ? {} : { retry_after: retryAfterSeconds }),
    ...(problem.originalStatus === undefined ? {} : { original_status: problem.originalStatus }),
    ...problem.more,
  }
  const retryAfter =
    retryAfterSeconds === undefined ? [] : [['Retry-After', String(retryAfterSeconds)] as const]
  return {
    status,
    headers: [
      ['Content-Type', 'application/problem+json'],
      ['Cache-Control', 'no-store'],
      ...retryAfter,
      ...challenge,
    ],
    body: Buffer.from(JSON.stringify(document)),
    instance,
  }
}

/** `Retry-After` has whole seconds only; zero would invite an immediate retry. */
function wholeSeconds(durationMs: number): number {
  return Math.max(1, Math.ceil(durationMs / 1_000))
}
