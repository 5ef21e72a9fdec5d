/**
 * What a client of gRPC is told by a problem: a code, and when to send its call again.
 *
 * To such a client Envoy answers with a head alone, which has the problem document as its message. Left alone it would translate the status of
 * HTTP, and say UNKNOWN of nearly everything: then no client sends a call again by itself, where that is what it should do.
 *
 * Source: github.com/grpc/grpc, doc/statuscodes.md; github.com/grpc/proposal, A6-client-retries.md (`grpc-retry-pushback-ms`).
 */

import { isGrpc } from '../../core/formats/grpc-status.ts'
import { type HeaderList, linesOf } from '../../core/header-list.ts'
import type { Answer } from '../message/answer.ts'
import { STATUS_HEADER } from '../message/headers.ts'
import { PROBLEMS, type ProblemCode } from '../message/problems.ts'

const INVALID_ARGUMENT = 3
/** What a client sends again by itself, where it was configured to. */
const UNAVAILABLE = 14
const INTERNAL = 13

/** Of what no retry can change, by the status of HTTP. */
const FOR_GOOD: Readonly<Record<number, number>> = {
  401: 16, // UNAUTHENTICATED
  405: 12, // UNIMPLEMENTED
  409: 6, // ALREADY_EXISTS: it was executed
  410: 6,
  413: 8, // RESOURCE_EXHAUSTED, as gRPC itself says of a message that is too large
  422: 9, // FAILED_PRECONDITION
  431: 8,
  501: 12,
}

/** @param asking the head of the request; that of another one than a call of gRPC changes nothing */
export function towardsGrpc(answer: Answer, asking: HeaderList): Answer {
  if (!isGrpc(asking) || !(answer.detail in PROBLEMS)) return answer
  const { status, retryable } = PROBLEMS[answer.detail as ProblemCode]
  const code = retryable
    ? UNAVAILABLE
    : (FOR_GOOD[answer.status] ?? (status >= 500 ? INTERNAL : INVALID_ARGUMENT))
  const [seconds] = retryable ? linesOf(answer.headers, 'retry-after') : []
  const pushback = seconds === undefined ? [] : [['grpc-retry-pushback-ms', `${seconds}000`] as const]
  return { ...answer, headers: [...answer.headers, ['grpc-status', String(code)], ...pushback] }
}

/** The same in trailers, where messages have gone before. */
export function inTrailers({ headers, body }: Answer): HeaderList {
  const kept = headers.filter(([name]) => name === STATUS_HEADER || /^grpc-/i.test(name))
  const said = linesOf(headers, 'grpc-message').length > 0 || !Buffer.isBuffer(body)
  return said ? kept : [...kept, ['grpc-message', encodeURIComponent(body.toString('utf8'))]]
}
