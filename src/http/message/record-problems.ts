/**
 * The problems that tell a client what the record of its request says: the proxy and the checks of gateways send the same sentences.
 *
 * Owns the sentences. Each says what happened, and what the client may send next: under another key nothing protects a request from being
 * carried out twice.
 */

import { NOT_COUNTED, whyNotAsked } from '../../core/outcome.ts'
import type { NotAsked } from '../../core/ports.ts'
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

type Unavailable = {
  readonly answered: number
  readonly required: number
  readonly well?: number
  readonly full?: number
  readonly notAsked?: NotAsked
}

/** Why there was no majority, as a sentence for the client. */
export function whyUnavailable({ answered, required, well = 0, full = 0, notAsked }: Unavailable): string {
  if (notAsked !== undefined) return `No node was asked: ${whyNotAsked(notAsked)}.`
  if (required === NOT_COUNTED) return 'Fewer nodes answered than are required.'
  const counted = `${answered} nodes answered and ${required} are required.`
  const others = [
    full === 0
      ? ''
      : ` ${full} more are well and have no memory left for new requests; what was carried out they still answer.`,
    well <= full
      ? ''
      : ` ${well - full} more are well, and their answer does not count for this request: by their clocks it is not sure yet that an earlier attempt has ended, they can not use its record, or they refuse every write.`,
  ]
  return counted + others.join('')
}

/** Of a reservation id whose signature can't be checked now: it may be one of this cluster. */
export const ID_UNCHECKED: Problem = {
  code: 'quorum-unavailable',
  detail:
    'Too few nodes answer to tell whether a sidecar of this cluster has given out the id. Nothing was changed. Ask again, unchanged, after the time given.',
  retryAfterMs: 1_000,
}
