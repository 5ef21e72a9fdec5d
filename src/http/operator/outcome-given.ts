/** The outcome that an operator records by hand, checked as strictly as it will be read. */

import type { StoredOutcome } from '../../core/record/stored-outcome.ts'
import { storedHeadersOf } from '../../core/routes/settlement.ts'
import type { Problem } from '../message/problems.ts'
import type { CompleteInput } from './schemas.ts'

const EXECUTED_STATUS = 200

export function outcomeGiven(
  { answer, result, not_kept: notKept }: CompleteInput,
  completedAtWallMs: number,
  storedBytesMax: number,
): StoredOutcome | Problem {
  if (notKept) return { kind: 'tombstone', status: EXECUTED_STATUS, completedAtWallMs }
  if (answer === undefined) {
    const bytes = Buffer.byteLength(JSON.stringify(result ?? null))
    return bytes > storedBytesMax
      ? tooLarge(bytes, storedBytesMax)
      : { kind: 'result', result, completedAtWallMs }
  }
  const body =
    answer.body_base64 === undefined
      ? Buffer.from(answer.body ?? '')
      : Buffer.from(answer.body_base64, 'base64')
  if (body.length > storedBytesMax) return tooLarge(body.length, storedBytesMax)
  const given = Object.entries(answer.headers ?? {})
  const headers = storedHeadersOf(given, { storedHeaders: [], omittedHeaders: [] })
  const dropped = given.filter(([name]) => !headers.some(([kept]) => kept === name)).map(([name]) => name)
  // Silently left out, the client would get another answer than the operator gave.
  if (dropped.length > 0)
    return {
      code: 'request-invalid',
      detail: `These headers are never stored with an answer: ${dropped.join(', ')}. Nothing was decided; leave them out.`,
    }
  return { kind: 'response', status: answer.status, headers, body, completedAtWallMs }
}

function tooLarge(bytes: number, max: number): Problem {
  return {
    code: 'body-too-large',
    detail: `The answer has ${bytes} bytes, at most ${max} are stored. Nothing was decided; give "not_kept" instead.`,
  }
}
