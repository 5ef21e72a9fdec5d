/**
 * What an HTTP server answers its own caller when a reservation was refused: a duplicate gets the recorded result, a conflict and
 * an unavailable quorum the statuses that fencepost's proxy gives them. For the adapters of Express and Fastify.
 *
 * Refuses to own errors of the application: of those, and of calls that are wrong in themselves, it knows no answer. What the
 * sidecar says about values and sessions stays inside: the caller gets the code and a title.
 */

import {
  ConflictError,
  DuplicateError,
  FencepostError,
  MismatchError,
  RefusedError,
  UndecidedError,
} from './errors.ts'
import { RETRIED } from './transport.ts'

export type HttpAnswer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** To be sent as JSON; absent where there is none. */
  readonly body?: unknown
}

const PROBLEMS = 'https://fencepost.dev/problems/'
const RETRY_AFTER_SECONDS = 1

/** Undefined where the error is none of fencepost's, or a mistake in the call: leave it to the server's own handling. */
export function answerTo(error: unknown): HttpAnswer | undefined {
  if (!(error instanceof FencepostError)) return undefined
  if (error instanceof DuplicateError) return replayOf(error)
  if (error instanceof ConflictError)
    return problem(409, error.code, 'The same request is being carried out', error.retryAfterMs / 1_000)
  if (error instanceof MismatchError)
    return problem(422, error.code, 'The key was first used for another request')
  if (error instanceof UndecidedError)
    return problem(409, error.code, 'An earlier attempt ended without a known outcome')
  if (error instanceof RefusedError && !RETRIED.has(error.status)) return undefined
  // Lost, fenced, undecided, without a quorum or without a sidecar: a retry learns what stands.
  return problem(
    503,
    error.code,
    'It is not known now whether this was carried out; send it again, unchanged',
    RETRY_AFTER_SECONDS,
  )
}

function replayOf({ result }: DuplicateError): HttpAnswer {
  const headers = { 'Idempotency-Status': 'replayed' }
  return result === undefined ? { status: 204, headers } : { status: 200, headers, body: result }
}

function problem(status: number, code: string, title: string, retryAfterSeconds?: number): HttpAnswer {
  const after = retryAfterSeconds === undefined ? undefined : Math.max(1, Math.ceil(retryAfterSeconds))
  return {
    status,
    headers: {
      'Content-Type': 'application/problem+json',
      ...(after === undefined ? {} : { 'Retry-After': String(after) }),
    },
    body: {
      // A sidecar that did not answer gave no code.
      ...(code === '' ? { type: 'about:blank' } : { type: PROBLEMS + code, code }),
      title,
      status,
      ...(after === undefined ? {} : { retry_after: after }),
    },
  }
}
