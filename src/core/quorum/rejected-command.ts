/**
 * Explains a renewal or a release that no majority took.
 *
 * Owns one question: whether the silent nodes could still have made the difference.
 */

import type { NodeAnswer } from '../ports.ts'
import { majorityOf } from '../units.ts'
import { type Answers, answered } from './tally.ts'

export type Rejection = 'refused' | 'unavailable' | 'undecided'

/**
 * `refused` once no majority can be won, whatever the silent nodes did; `unavailable` while they decide it.
 *
 * @param inFavour answers that count for the command
 */
export function explainRejected(
  answers: Answers,
  settled: boolean,
  inFavour: readonly NodeAnswer['kind'][],
): Rejection {
  const needed = majorityOf(answers.length)
  const against = answered(answers).filter((answer) => !inFavour.includes(answer.kind)).length
  if (answers.length - against < needed) return 'refused'
  return settled ? 'unavailable' : 'undecided'
}
