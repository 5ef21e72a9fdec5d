/**
 * The problems that tell a client what the record of its request says: the proxy and the checks of gateways send the same sentences.
 *
 * Owns the sentences. Each says what happened, and what the client may send next: under another key nothing protects a request from being
 * carried out twice.
 */

import type { Problem } from './problems.ts'

export const KEY_REUSED: Problem = {
  code: 'key-reused',
  detail:
    'This key was first used for a request with another query, header or body. This one was not carried out. Send a new request with a new key; to retry the first one send it unchanged.',
}

export const RECORD_DAMAGED: Problem = {
  code: 'record-damaged',
  detail:
    'The record of this request is damaged, so it is not known whether it was carried out. It is neither replayed nor carried out again. Do not send it under another key: ask the operator, and name key_hash.',
}

export function inProgress(retryAfterMs: number): Problem {
  return {
    code: 'request-in-progress',
    detail:
      'The same request is being carried out, or an attempt ended without an answer. This copy was not carried out. Send it again, unchanged, after the time given, and not under another key.',
    retryAfterMs,
  }
}

export function undecided(retryAfterMs: number): Problem {
  return {
    code: 'outcome-undecided',
    detail:
      'An earlier attempt may have been carried out, and this route allows no other one before an operator has decided what became of it. This copy was not carried out. Do not send it under another key: ask the operator, and name key_hash.',
    retryAfterMs,
  }
}
