/**
 * Explains a claim that no majority granted, or in whose answers a completed outcome was seen.
 *
 * Owns the words held, duplicate, mismatch, stale, contended and unavailable; owns no sockets, timers or retries, and
 * does not count votes for: whether a majority granted is the round's own verdict. A node that did not answer in time
 * is neither for nor against, so silence is never read as "the key is free" nor as "another holder has it".
 */

import type { NodeAnswer } from '../ports.ts'
import { saysOtherwise } from '../record/stored-outcome.ts'
import { millisecondOf, NO_TOKEN, type Token } from '../record/token.ts'
import { majorityOf } from '../units.ts'
import { type Answers, answered, bestCompleted, type Completed, wellBesides, withoutRoom } from './tally.ts'

export type Refusal =
  /** A majority holds one completed outcome: it is chosen, for good. */
  | { readonly kind: 'completed'; readonly chosen: Completed }
  /** Fewer hold it. `mayWriteBack`: under the claimant's own token, because a majority promised it their vote. */
  | {
      readonly kind: 'minority_outcome'
      readonly best: Completed
      readonly mayWriteBack: boolean
      /** No token up to this one gets the promises. */
      readonly above: Token
      /** What a majority shows beside it. */
      readonly holder?: Held
    }
  /** A majority holds one other request under this key, or leftovers of several do and no claimant races for it. */
  | { readonly kind: 'mismatch' }
  /**
   * A majority shows one holder. `retryAfterMs`: what is left of its lease; `heldForMs`: since its token, by a node's clock and that of
   * whoever made the token.
   */
  | Held
  /** A majority answered and shows no single holder: a race without a winner, or leftovers of one. */
  | { readonly kind: 'contended'; readonly above: Token }
  /** Our token was too low, and a larger one would have won; no token up to `above` can. */
  | { readonly kind: 'stale'; readonly above: Token }
  /** Our token was too far ahead of the nodes' clocks: a token near `nodeMs` is not. */
  | { readonly kind: 'skewed'; readonly nodeMs: number }
  /** `well`: how many of the others vote all the same; `full`: how many of those have no memory for a new claim. */
  | { readonly kind: 'unavailable'; readonly answered: number; readonly well: number; readonly full: number }
  /** Fewer than a majority have answered yet, and others still may. */
  | { readonly kind: 'undecided' }

type Held = { readonly kind: 'held'; readonly retryAfterMs: number; readonly heldForMs: number }

/**
 * Whether another intact outcome has the same ballot: a holder broke the rule and completed one lease in two ways, and
 * no majority shows which was acknowledged. Then neither is spread until enough nodes answer to decide.
 */
function isDisputed(answers: Answers, best: Completed): boolean {
  return answers.some(
    (answer) =>
      answer?.kind === 'completed' &&
      answer.acceptedToken === best.acceptedToken &&
      saysOtherwise(answer.outcome, best.outcome),
  )
}

/**
 * Explains a claim that no majority granted, or in whose answers a completed outcome was seen.
 *
 * @param settled every node has answered or was given up: no `undecided` any more
 */
export function explainRefusedClaim(answers: Answers, settled: boolean): Refusal {
  const needed = majorityOf(answers.length)
  const heard = answered(answers)
  const leading = bestCompleted(answers)

  if (leading !== undefined && leading.holders >= needed) return { kind: 'completed', chosen: leading.best }
  if (heard.length < needed)
    return settled
      ? {
          kind: 'unavailable',
          answered: heard.length,
          well: wellBesides(answers),
          full: withoutRoom(answers),
        }
      : { kind: 'undecided' }
  const others = otherContents(heard, needed)
  if (others === 'one' || (others === 'expired' && settled)) return { kind: 'mismatch' }
  if (others !== 'none' && !settled) return { kind: 'undecided' }
  const skewed = heard.flatMap((answer) => (answer.kind === 'skewed' ? [answer.nodeMs] : []))
  const promises = heard.filter(
    (answer) => answer.kind === 'granted' || (answer.kind === 'completed' && answer.promised),
  ).length
  const fences = heard.flatMap((answer) =>
    answer.kind === 'stale' || (answer.kind === 'completed' && !answer.promised) ? [answer.fence] : [],
  )
  const above = Math.max(NO_TOKEN, ...fences)
  const disputed = leading !== undefined && isDisputed(answers, leading.best)
  if (leading !== undefined && promises >= needed && !disputed) {
    return { kind: 'minority_outcome', best: leading.best, mayWriteBack: true, above }
  }
  const holder = majorityHolder(heard, needed)
  if (leading === undefined && holder !== undefined) return holder
  // Nodes that find our clock wrong say nothing about the record, and another request under this key that a minority shows so far may be
  // what a majority holds: the others decide what it amounts to. Hear them all.
  const otherSeen = heard.some(({ kind }) => kind === 'mismatch')
  if (!settled && (leading !== undefined || skewed.length > 0 || otherSeen)) return { kind: 'undecided' }
  // A larger token wins without them. A smaller one, which they demand, would stay below the fences of the others.
  const larger = fences.length > 0 && promises + fences.length >= needed
  // The smallest step: the clock of the last node that a majority needs. Nodes that granted this token refuse a smaller
  // one, so they count only where the others are too few by themselves: then it is other keys that the step helps.
  const clocks = skewed.sort((a, b) => b - a)
  const nodeMs = larger ? undefined : (clocks[needed - 1] ?? clocks[needed - promises - 1])
  if (nodeMs !== undefined) return { kind: 'skewed', nodeMs }
  if (leading !== undefined)
    return {
      kind: 'minority_outcome',
      best: leading.best,
      mayWriteBack: false,
      above,
      ...(holder && { holder }),
    }
  // Only where a larger token would have won. Else others are racing, and an immediate retry only prolongs the race.
  if (fences.length > 0 && promises + fences.length + skewed.length >= needed) return { kind: 'stale', above }
  return { kind: 'contended', above }
}

/**
 * What a majority shows of other requests under this key, claims and outcomes together. `one`: the same other request,
 * which owns the key. `several`: different ones, each on a minority, with at least one live lease: they race, and any
 * of them or none may still win. Two live claims of one request race as well. `expired`: different ones, none live.
 */
function otherContents(heard: readonly NodeAnswer[], needed: number): 'none' | 'one' | 'several' | 'expired' {
  const claims = heard.filter((answer) => answer.kind === 'mismatch')
  let all = 0
  for (const fingerprint of new Set(claims.map((claim) => claim.fingerprint))) {
    const of = heard.filter(
      (answer) =>
        (answer.kind === 'mismatch' || answer.kind === 'completed') && answer.fingerprint === fingerprint,
    )
    const live = of.flatMap((answer) =>
      answer.kind === 'mismatch' && answer.remainingMs > 0 ? [answer.fence] : [],
    )
    const mostOfOne = Math.max(0, ...live.map((fence) => live.filter((other) => other === fence).length))
    if (of.length - live.length + mostOfOne >= needed) return 'one'
    all += of.length
  }
  if (all < needed) return 'none'
  return claims.every(({ remainingMs }) => remainingMs === 0) ? 'expired' : 'several'
}

/** The claim (by its fence and request) that a majority holds, with the time until the last node lets it expire. */
function majorityHolder(heard: readonly NodeAnswer[], needed: number): Held | undefined {
  const claims = new Map<string, { count: number; remainingMs: number; heldForMs: number }>()
  for (const answer of heard) {
    if (answer.kind !== 'held') continue
    const claim = `${answer.fence} ${answer.fingerprint}`
    const known = claims.get(claim) ?? { count: 0, remainingMs: 0, heldForMs: 0 }
    const remainingMs = Math.max(known.remainingMs, answer.remainingMs)
    const heldForMs = Math.max(known.heldForMs, answer.nodeMs - millisecondOf(answer.fence))
    claims.set(claim, { count: known.count + 1, remainingMs, heldForMs })
  }
  const holder = [...claims.values()].find(({ count }) => count >= needed)
  return holder && { kind: 'held', retryAfterMs: holder.remainingMs, heldForMs: holder.heldForMs }
}
