/**
 * What the rounds of one figure say about its goal, and when they say nothing.
 *
 * Owns the rule, not the numbers (`goals.ts`): the noise must be smaller than the difference. Noise is the middle half of the rounds,
 * so one round beside something else changes nothing; where that half stands on both sides of the goal, another run might say the
 * opposite.
 */
import type { Goal } from './goals.ts'

/** Fewer rounds have no spread that could be told from chance. */
export const ROUNDS_MIN = 3

export type Verdict =
  | { readonly kind: 'reached' | 'not reached' }
  | { readonly kind: 'not judged'; readonly because: string }

export type Judged = {
  readonly median: number
  /** The middle half of the rounds. */
  readonly lower: number
  readonly upper: number
  readonly rounds: number
  readonly verdict: Verdict
}

export function judge({ bound, goal }: Pick<Goal, 'bound' | 'goal'>, rounds: readonly number[]): Judged {
  const sorted = [...rounds].sort((one, other) => one - other)
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? Number.NaN
  const [lower, median, upper] = [at(0.25), at(0.5), at(0.75)]
  const holds = (value: number) => (bound === 'at most' ? value <= goal : value >= goal)
  const verdict = (): Verdict => {
    if (rounds.length < ROUNDS_MIN)
      return { kind: 'not judged', because: `${rounds.length} rounds, at least ${ROUNDS_MIN} are needed` }
    if (!rounds.every(Number.isFinite)) return { kind: 'not judged', because: 'a round has no figure' }
    if (holds(lower) !== holds(upper))
      return { kind: 'not judged', because: 'the noise is larger than the difference' }
    return { kind: holds(median) ? 'reached' : 'not reached' }
  }
  return { lower, median, upper, rounds: rounds.length, verdict: verdict() }
}
