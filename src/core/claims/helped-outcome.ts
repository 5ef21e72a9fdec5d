/**
 * Helps an outcome that some nodes have accepted to a majority, for a caller that only reads.
 *
 * Owns the message that its holder sent: the same outcome at the same ballot, under the same owner, for as long as the nodes that
 * have it still keep it. In Paxos anybody may send an accept again, because one ballot has one value; nothing is promised, nothing is
 * claimed, and who came after with a larger token refuses it as it refused the holder's.
 *
 * Source: L. Lamport, "Paxos Made Simple" (2001), section 2.2.
 */

import type { NodeAnswer, Quorum } from '../ports.ts'
import type { CompletedRecord, MajorityRead } from '../quorum/majority-read.ts'
import { explainRefusedCompletion } from '../quorum/refused-completion.ts'
import { NO_OWNER, type Owner } from '../record/record.ts'
import { decodeOutcome } from '../record/stored-outcome.ts'

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
  // A majority has promised itself to who came after.
  if (claim !== undefined && claim.fence > token) return false
  // A damaged copy must not be put where an intact one could be.
  if (decodeOutcome(outcome).kind === 'damaged') return false
  const keyTtlMs = lifetimeOf(record, answers)
  if (keyTtlMs === 0) return false
  const owner = ownerOf(token, answers)
  const command = { kind: 'complete', key, token, owner, fingerprint, attempt, outcome, keyTtlMs } as const
  // Also to those that showed it: they may have lost it since, and answers of one round alone are of one age.
  const round = await quorum.run(command)
  if (round.majorityReached) return true
  await round.settled
  return explainRefusedCompletion(round.answers, { token, attempt, outcome }).kind === 'recorded'
}

/** Of the nodes that show it, the longest; 0 where none says. */
function lifetimeOf(of: CompletedRecord, answers: Answers): number {
  const lifetimes = answers.flatMap((answer) =>
    answer?.kind === 'record' &&
    answer.record?.state === 'completed' &&
    answer.record.acceptedToken === of.acceptedToken
      ? [answer.ttlMs ?? 0]
      : [],
  )
  return Math.max(0, ...lifetimes)
}

/** Who was promised the token. Where no node shows it, none is left that would ask for its owner. */
function ownerOf(token: number, answers: Answers): Owner {
  for (const answer of answers) {
    const record = answer?.kind === 'record' ? answer.record : undefined
    if (record === undefined || record.state === 'released' || record.fence !== token) continue
    if (record.owner !== NO_OWNER) return record.owner
  }
  return NO_OWNER
}
