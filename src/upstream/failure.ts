/**
 * What an error of the connection to the application means: nothing was sent, or that is unknown.
 *
 * Owns the translation of undici's and Node's errors; none of them leaves this folder. The criterion is whether undici
 * had begun to write the request to a socket (`onRequestStart`), not the kind of the error: a refused connection and a
 * name that does not resolve come before that, a reset and a timeout may come after it.
 *
 * Source: RFC 9110, section 9.2.2 (a proxy must not retry what is not idempotent); RFC 9112, section 6.3 (an answer with
 * broken framing is 502).
 */

import type { ForwardResult } from '../core/ports.ts'

export type Failure = Exclude<ForwardResult, { kind: 'answered' }>

/** Our own reasons to abandon an exchange; all other errors come from undici or the socket. */
export class AnswerLate extends Error {
  override readonly name = 'AnswerLate'
}

export class AnswerMalformed extends Error {
  override readonly name = 'AnswerMalformed'
}

export class ClaimEnded extends Error {
  override readonly name = 'ClaimEnded'
}

const LATE = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])
const MALFORMED = new Set(['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'UND_ERR_HEADERS_OVERFLOW'])
/** undici's own error, which has no code. */
const PARSER_ERROR = 'HTTPParserError'
/** undici has no code for an unexpected 101. */
const UNASKED_UPGRADE = 'bad upgrade'

export function failureOf(error: Error, begun: boolean): Failure {
  const detail = describe(error)
  if (!begun) return { kind: 'never_sent', detail }
  return { kind: 'no_answer', cause: causeOf(error), detail }
}

function causeOf(error: Error): Extract<Failure, { kind: 'no_answer' }>['cause'] {
  const code = codeOf(error)
  if (error instanceof AnswerLate || LATE.has(code)) return 'timeout'
  if (error instanceof AnswerMalformed || MALFORMED.has(code)) return 'malformed'
  if (error.name === PARSER_ERROR) return 'malformed'
  return error.message === UNASKED_UPGRADE ? 'malformed' : 'reset'
}

/** For logs: the code if there is one. Messages of undici may quote bytes of the answer. */
function describe(error: Error): string {
  if (error instanceof AnswerLate || error instanceof AnswerMalformed || error instanceof ClaimEnded)
    return error.message
  return codeOf(error) || error.name
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : ''
}
