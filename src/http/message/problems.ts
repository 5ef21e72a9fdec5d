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

type Row = { readonly status: number; readonly title: string; readonly retryable: boolean }

/** The same request, sent again later, can get another answer; or it can not. */
const again = (status: number, title: string): Row => ({ status, title, retryable: true })
const final = (status: number, title: string): Row => ({ status, title, retryable: false })

export const PROBLEMS = {
  // The request itself
  'malformed-request': final(400, 'The request is malformed'),
  'key-missing': final(400, 'An idempotency key is required'),
  'key-invalid': final(400, 'The idempotency key is invalid'),
  'scope-invalid': final(400, 'A header that names the scope of the request is invalid'),
  'digest-mismatch': final(400, 'The body does not have the digest that the request states'),
  'token-invalid': final(401, 'The bearer token of the request does not identify its client'),
  'method-refused': final(405, 'The method is not passed on'),
  'request-timeout': again(408, 'The request did not arrive in time'),
  'body-too-large': final(413, 'The body is too large'),
  'expectation-failed': final(417, 'The expectation can not be met'),
  'headers-too-large': final(431, 'The head of the request is too large'),
  'transfer-encoding-unsupported': final(501, 'The transfer encoding is not supported'),
  'upgrade-refused': final(501, 'A protected request can not change the protocol'),
  // The reservation API: the call itself
  'request-invalid': final(400, 'The call does not have the form that is asked for'),
  'reservation-id-invalid': final(400, 'The reservation id was not issued by this cluster'),
  'page-refused': final(403, 'A page in a browser may not call'),
  'token-required': final(401, 'The bearer token is missing or wrong'),
  'call-unknown': final(404, 'There is no such call'),
  'media-type-unsupported': final(415, 'The body must be JSON'),
  // The reservation API: what is known about the reservation
  'reservation-conflict': again(409, 'Somebody else holds it'),
  'reservation-duplicate': final(409, 'It was completed earlier'),
  'lease-lost': final(410, 'The lease is lost'),
  'reservation-lost': final(410, 'The reservation is lost'),
  fenced: final(410, 'It is no longer yours to end'),
  'completion-undecided': again(503, 'Whether the result stands is not known'),
  // The operator API
  'role-required': final(403, 'The role of the token does not allow it'),
  'record-unknown': final(404, 'There is no such record'),
  'dead-letter-unknown': final(404, 'There is no such dead letter'),
  'decision-refused': final(409, 'There is nothing to decide'),
  'promise-at-stake': final(409, 'The decision would break a promise'),
  'record-moved-on': final(409, 'The record is not as it was seen'),
  'decision-under-way': again(409, 'Another operator decides on it'),
  // What is known about the request
  'request-in-progress': again(409, 'The same request is being carried out'),
  'duplicate-content': final(409, 'The same content was sent under another key'),
  'entity-busy': again(409, 'Another request works on the same entity'),
  'outcome-undecided': again(409, 'An earlier attempt ended without a known outcome'),
  'response-not-stored': final(410, 'The request was carried out and its answer was not kept'),
  'key-reused': final(422, 'The idempotency key was used for another request'),
  'too-many-waiters': again(429, 'Too many requests wait for this key'),
  'tenant-in-flight': again(429, 'Too many requests of this tenant are under way'),
  'tenant-new-records': again(429, 'This tenant makes new records too fast'),
  'session-reservations': again(429, 'This session holds too many reservations'),
  // The sidecar and its nodes
  'internal-error': again(500, 'The sidecar failed'),
  'record-damaged': final(502, 'The record of this request is damaged'),
  'token-unverifiable': again(503, 'The keys that verify the bearer token are not known'),
  'quorum-unavailable': again(503, 'Too few nodes answer'),
  'too-many-requests-in-flight': again(503, 'Too many requests are under way'),
  'too-many-bytes-in-flight': again(503, 'The bodies under way fill the memory for them'),
  draining: again(503, 'The sidecar is shutting down'),
  // The application
  'application-unreachable': again(502, 'The application could not be reached'),
  'application-reset': again(502, 'The application broke off'),
  'application-malformed': again(502, 'The application answered with a malformed message'),
  'application-timeout': again(504, 'The application did not answer in time'),
} satisfies Record<string, Row>

export const RETRY_SOON_MS = 1_000

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

type ProblemDocument = {
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
