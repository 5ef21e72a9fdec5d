/**
 * Helps an outcome of a minority to a majority, for a caller that only reads.
 *
 * Owns resending the holder's message: the same outcome at the same ballot, under the same owner, for as long as the
 * nodes that have it keep it. In Paxos any process may resend an accept, because one ballot has one value; it promises
 * nothing and claims nothing, and a later claimant's larger token refuses it as it refused the holder's.
 *
 * One thing is not as in Paxos: nodes forget promises some time after the retention of their outcome. A later claim may then
 * be granted below the token of an outcome that one node still has. So a claim that runs is left alone, whatever its token.
 *
 * Source: L. Lamport, "Paxos Made Simple" (2001), section 2.2.
 */

import type { NodeAnswer, Quorum } from '../ports.ts'
import type { CompletedRecord, MajorityRead } from '../quorum/majority-read.ts'
import { explainRefusedCompletion } from '../quorum/refused-completion.ts'
import { NO_OWNER, type Owner } from '../record/record.ts'
import { decodeOutcome } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'
import { majorityOf } from '../units.ts'

type Answers = readonly (NodeAnswer | undefined)[]
type MinorityOutcome = Extract<MajorityRead, { kind: 'minority_outcome' }>

/** @returns whether a majority is known to have it now */
export async function helpToMajority(
  key: string,
  { record, claim }: MinorityOutcome,
  answers: Answers,
  quorum: Quorum,
): Promise<boolean> {
  const { acceptedToken: token, attempt, fingerprint, outcome } = record
  // A majority promised its vote to a later claimant.
  if (claim !== undefined && claim.fence > token) return false
  if (mayBeHeldByAnother(token, answers)) return false
  // A damaged copy must not take the place of an intact one.
  if (decodeOutcome(outcome).kind === 'damaged') return false
  const keyTtlMs = lifetimeOf(record, answers)
  if (keyTtlMs === 0) return false
  const owner = ownerOf(token, answers)
  const command = { kind: 'complete', key, token, owner, fingerprint, attempt, outcome, keyTtlMs } as const
  // Also to the nodes that showed it: they may have lost it since, and only answers of one round have one age.
  const round = await quorum.run(command)
  if (round.majorityReached) return true
  await round.settled
  return explainRefusedCompletion(round.answers, { token, attempt, outcome }).kind === 'recorded'
}

/** Whether a majority may have granted a claim with another token that still runs. */
function mayBeHeldByAnother(token: Token, answers: Answers): boolean {
  const running = answers.flatMap((answer) => {
    if (answer?.kind !== 'record' || answer.record?.state !== 'claimed') return []
    const { fence, owner, leaseUntilNodeMs } = answer.record
    return fence !== token && leaseUntilNodeMs > answer.nodeMs ? [`${fence} ${owner}`] : []
  })
  const silent = answers.filter((answer) => answer?.kind !== 'record').length
  const holders = Math.max(
    0,
    ...Map.groupBy(running, (claim) => claim)
      .values()
      .map(({ length }) => length),
  )
  return holders > 0 && holders + silent >= majorityOf(answers.length)
}

/** How long the node that remembers the outcome longest does so; 0 where none says. A promise beside it may last longer. */
function lifetimeOf(of: CompletedRecord, answers: Answers): number {
  const lifetimes = answers.flatMap((answer) => {
    if (answer?.kind !== 'record' || answer.record?.state !== 'completed') return []
    const { acceptedToken, overAtNodeMs } = answer.record
    if (acceptedToken !== of.acceptedToken) return []
    return [overAtNodeMs === undefined ? (answer.ttlMs ?? 0) : overAtNodeMs - answer.nodeMs]
  })
  return Math.max(0, ...lifetimes)
}

/** The claimant that was promised the token. If no node shows it, no node is left that would check its owner. */
function ownerOf(token: number, answers: Answers): Owner {
  for (const answer of answers) {
    const record = answer?.kind === 'record' ? answer.record : undefined
    if (record === undefined || record.state === 'released' || record.fence !== token) continue
    if (record.owner !== NO_OWNER) return record.owner
  }
  return NO_OWNER
}
