/**
 * Explains a completion that no majority took.
 *
 *   recorded     the offered outcome is chosen: a majority accepted it, under this token or by an adoption
 *   fenced       surely without effect: another outcome is chosen, or every node says that it has none of this one
 *   undecided    this token can't win any more, but some node accepted the outcome or may have: a later claim adopts it
 *   unavailable  it may still win: nodes that did not answer make the difference
 *
 * Owns only the interpretation of the answers. A node keeps an outcome that it accepted whatever it promises later, and
 * any claimant that sees it adopts it: so a completion is without effect only where no node is left that may have it.
 *
 * Source: L. Lamport, "Paxos Made Simple" (2001), section 2.2: a proposal not yet chosen may still become the value.
 */

import type { Lease, NodeAnswer } from '../ports.ts'
import { sameContent } from '../record/stored-outcome.ts'
import { majorityOf } from '../units.ts'
import { type Answers, answered, bestCompleted, type Completed } from './tally.ts'

type Offered = Pick<Lease, 'token' | 'attempt'> & { readonly outcome: Buffer }

type RefusedCompletion =
  | { readonly kind: 'recorded' }
  /** `chosen`: the outcome that a majority accepted. */
  | { readonly kind: 'fenced'; readonly chosen?: Completed }
  | { readonly kind: 'undecided' }
  | { readonly kind: 'unavailable' }

/** @param answers of a round that has settled */
export function explainRefusedCompletion(answers: Answers, offered: Offered): RefusedCompletion {
  const needed = majorityOf(answers.length)
  const inFavour = answered(answers).filter((answer) => isVote(answer, offered)).length
  if (inFavour >= needed) return { kind: 'recorded' }
  const best = bestCompleted(answers)
  if (best !== undefined && best.holders >= needed) {
    const { best: chosen } = best
    // One node took it before the others heard of it, and a later claimant wrote it under its own token.
    return isAdoptionOf(chosen, offered) ? { kind: 'recorded' } : { kind: 'fenced', chosen }
  }
  const against = answered(answers).length - inFavour
  if (answers.length - against >= needed) return { kind: 'unavailable' }
  return { kind: answers.some((answer) => mayHaveIt(answer, offered)) ? 'undecided' : 'fenced' }
}

/** Accepted at this very token. A retry with another completion time is the same outcome. */
function isVote(answer: NodeAnswer, { token, outcome }: Offered): boolean {
  if (answer.kind !== 'completed') return answer.kind === 'recorded'
  return answer.copied === undefined && answer.acceptedToken === token && sameContent(answer.outcome, outcome)
}

/** The same attempt and the same content: this holder's work is what was recorded. */
function isAdoptionOf(accepted: Completed, { token, attempt, outcome }: Offered): boolean {
  return (
    accepted.acceptedToken > token && accepted.attempt === attempt && sameContent(accepted.outcome, outcome)
  )
}

/** Whether the node has, or may have, the outcome in any form, also from an earlier offer. */
function mayHaveIt(answer: NodeAnswer | undefined, offered: Offered): boolean {
  switch (answer?.kind) {
    case undefined:
    case 'unreachable':
    case 'quarantined':
    case 'recorded':
      return true
    case 'completed':
      return answer.acceptedToken === offered.token || isAdoptionOf(answer, offered)
    default:
      return false
  }
}
