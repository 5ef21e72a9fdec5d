/**
 * Says what the answers of N independent nodes amount to, where the vote itself does not say it.
 *
 * Owns the words held, duplicate, mismatch, stale, contended and unavailable; owns no sockets, timers or retries, and
 * does not count votes for: whether a majority granted is the round's own verdict. A node that did not answer in time
 * is neither for nor against, so silence is never read as "the key is free" nor as "somebody holds it".
 */

import type { NodeAnswer } from './ports.ts'
import type { Fingerprint, Owner } from './record.ts'
import type { Token } from './token.ts'
import { majorityOf } from './units.ts'

type Answers = readonly (NodeAnswer | undefined)[]
type Completed = Extract<NodeAnswer, { kind: 'completed' }>

export type Refusal =
  /** A majority stands behind one completed outcome: it is chosen, for good. */
  | { readonly kind: 'completed'; readonly chosen: Completed }
  /** Fewer hold it. `promised` of a majority allow the asker to write it back under its own token. */
  | { readonly kind: 'sighted'; readonly best: Completed; readonly mayWriteBack: boolean }
  | { readonly kind: 'mismatch' }
  /** One holder stands on a majority. */
  | { readonly kind: 'held'; readonly remainingMs: number }
  /** A majority answered, and no one holder stands on a majority: a race that nobody won, or leftovers of one. */
  | { readonly kind: 'contended' }
  /** Our token was too low; nothing below or at `above` can win. */
  | { readonly kind: 'stale'; readonly above: Token }
  /** Our token was too far in the future of the nodes' clocks. */
  | { readonly kind: 'skewed'; readonly nodeMs: number }
  | { readonly kind: 'unavailable'; readonly answered: number }
  /** Fewer than a majority have answered yet, and others still may. */
  | { readonly kind: 'undecided' }

/** Nodes that answered and whose answer counts. */
export function answered(answers: Answers): readonly NodeAnswer[] {
  return answers.filter(
    (answer): answer is NodeAnswer =>
      answer !== undefined && answer.kind !== 'unreachable' && answer.kind !== 'quarantined',
  )
}

/** The completed outcome with the largest ballot among the answers, and how many nodes hold that very one. */
export function bestCompleted(answers: Answers): { best: Completed; holders: number } | undefined {
  const completed = answers.filter((answer): answer is Completed => answer?.kind === 'completed')
  const [first, ...rest] = completed
  if (first === undefined) return undefined
  const best = rest.reduce((top, next) => (next.acceptedToken > top.acceptedToken ? next : top), first)
  return { best, holders: completed.filter((answer) => answer.acceptedToken === best.acceptedToken).length }
}

/**
 * Explains a claim that was not carried by a majority, or in whose answers a completed outcome was seen.
 *
 * @param settled every node has answered or was given up: no `undecided` any more
 */
export function explainRefusedClaim(answers: Answers, settled: boolean): Refusal {
  const needed = majorityOf(answers.length)
  const heard = answered(answers)
  const sighting = bestCompleted(answers)

  if (sighting !== undefined && sighting.holders >= needed)
    return { kind: 'completed', chosen: sighting.best }
  if (heard.length < needed)
    return settled ? { kind: 'unavailable', answered: heard.length } : { kind: 'undecided' }
  if (sighting !== undefined) {
    const promises = heard.filter(
      (answer) => answer.kind === 'granted' || (answer.kind === 'completed' && answer.promised),
    )
    const mayWriteBack = promises.length >= needed
    return mayWriteBack || settled
      ? { kind: 'sighted', best: sighting.best, mayWriteBack }
      : { kind: 'undecided' }
  }

  const mismatches = heard.filter((answer) => answer.kind === 'mismatch')
  if (mismatches.length >= needed) return { kind: 'mismatch' }

  const holder = majorityHolder(heard, needed)
  if (holder !== undefined) return { kind: 'held', remainingMs: holder.remainingMs }

  const skewed = heard.filter((answer) => answer.kind === 'skewed')
  if (skewed.length > answers.length - needed) {
    return { kind: 'skewed', nodeMs: Math.max(...skewed.map((answer) => answer.nodeMs)) }
  }
  const fences = heard.flatMap((answer) => (answer.kind === 'stale' ? [answer.fence] : []))
  if (fences.length > 0) return { kind: 'stale', above: Math.max(...fences) }
  return { kind: 'contended' }
}

/** The claim (by its fence) that a majority of nodes hold, with the time until the last of them lapses. */
function majorityHolder(
  heard: readonly NodeAnswer[],
  needed: number,
): { fence: Token; remainingMs: number } | undefined {
  const byFence = new Map<Token, { count: number; remainingMs: number }>()
  for (const answer of heard) {
    if (answer.kind !== 'held' && answer.kind !== 'mismatch') continue
    const known = byFence.get(answer.fence) ?? { count: 0, remainingMs: 0 }
    byFence.set(answer.fence, {
      count: known.count + 1,
      remainingMs: Math.max(known.remainingMs, answer.remainingMs),
    })
  }
  for (const [fence, { count, remainingMs }] of byFence) if (count >= needed) return { fence, remainingMs }
  return undefined
}

/** What a renewal, completion or release that was not carried amounts to. */
export type Rejection = 'refused' | 'unavailable' | 'undecided'

/**
 * `refused` once a majority can no longer be won, whatever the silent nodes did; `unavailable` while they decide it.
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

export type MajorityRead =
  | { readonly kind: 'completed'; readonly token: Token; readonly holders: number }
  | {
      readonly kind: 'claimed'
      readonly fence: Token
      readonly owner: Owner
      readonly remainingMs: number
      readonly attempt: number
      readonly fingerprint: Fingerprint
    }
  | { readonly kind: 'released'; readonly fence: Token }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unavailable'; readonly answered: number }

/** What a majority of `read` answers says. The record with the largest ballot speaks; completed speaks before claimed. */
export function explainRead(answers: Answers): MajorityRead {
  const needed = majorityOf(answers.length)
  const records = answers.flatMap((answer) => (answer?.kind === 'record' ? [answer] : []))
  if (records.length < needed) return { kind: 'unavailable', answered: records.length }

  let completed: { token: Token; holders: number } | undefined
  let claimed: Extract<MajorityRead, { kind: 'claimed' }> | undefined
  let released: Token | undefined
  for (const { record, nodeMs } of records) {
    if (record === undefined) continue
    if (record.state === 'completed') {
      const token = record.acceptedToken
      if (completed === undefined || token > completed.token) completed = { token, holders: 1 }
      else if (token === completed.token) completed = { token, holders: completed.holders + 1 }
    } else if (record.state === 'claimed') {
      if (claimed === undefined || record.fence > claimed.fence) {
        const { fence, owner, attempt, fingerprint } = record
        claimed = {
          kind: 'claimed',
          fence,
          owner,
          attempt,
          fingerprint,
          remainingMs: Math.max(0, record.leaseUntilNodeMs - nodeMs),
        }
      }
    } else {
      released = Math.max(released ?? 0, record.fence)
    }
  }
  if (completed !== undefined) return { kind: 'completed', ...completed }
  if (claimed !== undefined && claimed.fence >= (released ?? 0)) return claimed
  if (released !== undefined) return { kind: 'released', fence: released }
  return claimed ?? { kind: 'absent' }
}
