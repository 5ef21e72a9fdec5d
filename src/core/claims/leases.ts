/**
 * What a holder does on the quorum: renew, complete, release; and reading for everybody else.
 *
 * Owns the quorum side of the record protocol together with `claim.ts`. It sends rounds through the `Quorum` port and
 * leaves single nodes to `record-rules.ts` and the meaning of their answers to `quorum.ts`. Every promise settles: a
 * round is bounded by the nodes' deadlines.
 */

import type { Events } from '../events.ts'
import type {
  Clock,
  CompleteResult,
  Lease,
  Leases,
  NodeAnswer,
  Quorum,
  Random,
  ReadResult,
  ReleaseResult,
  RenewResult,
  Round,
} from '../ports.ts'
import { decodeOutcome, encodeOutcome, type StoredOutcome } from '../record/stored-outcome.ts'
import { type Token, TokenSource } from '../record/token.ts'
import { majorityOf } from '../units.ts'
import { claimIdentity } from './claim.ts'
import { now, remainingMs, validityFrom } from './lease.ts'
import { explainRead } from './majority-read.ts'
import { answered, bestCompleted, explainRejected } from './quorum.ts'

export type LeasesOptions = {
  readonly quorum: Quorum
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

export function createLeases({ quorum, clock, random, events }: LeasesOptions): Leases {
  const tokens = new TokenSource(() => clock.wallMs())
  const needed = majorityOf(quorum.nodeCount)

  function decode(key: string, bytes: Buffer): StoredOutcome | undefined {
    const decoded = decodeOutcome(bytes)
    if (decoded.kind === 'intact') return decoded.outcome
    events.publish({ kind: 'outcome_damaged', recordKey: key, reason: decoded.reason })
    return undefined
  }

  async function renew(lease: Lease): Promise<RenewResult> {
    const startedAt = now(clock)
    const { key, token, owner, leaseMs, retentionMs, fingerprint, attempt } = lease
    const command = {
      kind: 'renew',
      key,
      token,
      owner,
      leaseMs,
      fingerprint,
      attempt,
      keyTtlMs: retentionMs + leaseMs,
    } as const
    const round = await quorum.run(command)
    const renewedLease = { ...lease, ...validityFrom(startedAt, leaseMs) }
    const result: RenewResult =
      round.carried && remainingMs(renewedLease, now(clock)) > 0
        ? { kind: 'renewed', lease: renewedLease }
        : { kind: (await rejection(round, ['renewed'])) === 'refused' ? 'lost' : 'unavailable' }
    const durationMs = clock.monoMs() - startedAt.monoMs
    events.publish({ kind: 'lease_renewed', recordKey: key, result: result.kind, durationMs })
    return result
  }

  async function complete(lease: Lease, outcome: StoredOutcome): Promise<CompleteResult> {
    const startedMonoMs = clock.monoMs()
    const result = await offer(lease, outcome)
    const durationMs = clock.monoMs() - startedMonoMs
    events.publish({ kind: 'outcome_offered', recordKey: lease.key, result: result.kind, durationMs })
    return result
  }

  async function offer(lease: Lease, outcome: StoredOutcome): Promise<CompleteResult> {
    const { key, token, owner, fingerprint, attempt, retentionMs } = lease
    const bytes = encodeOutcome(outcome)
    const round = await quorum.run({
      kind: 'complete',
      key,
      token,
      owner,
      fingerprint,
      attempt,
      outcome: bytes,
      keyTtlMs: retentionMs,
    })
    if (round.carried) return { kind: 'recorded' }
    const says = await rejection(round, ['recorded'])
    const early = bestCompleted(round.answers)
    // An outcome that the first answers don't show on a majority, or at all, may stand on those that are still to come.
    if (early === undefined || early.holders < needed) await round.settled
    const found = bestCompleted(round.answers)
    if (found !== undefined && acceptedEarlier(found.best, lease, outcome)) {
      const inFavour = found.holders + round.answers.filter((answer) => answer?.kind === 'recorded').length
      if (inFavour >= needed) return { kind: 'recorded' }
      const against = answered(round.answers).length - inFavour
      return { kind: quorum.nodeCount - against < needed ? 'fenced' : 'unavailable' }
    }
    if (says !== 'refused') return { kind: 'unavailable' }
    if (found !== undefined && adoptedByAnother(found.best, lease, bytes)) {
      // Until a majority has it from the other one, it is not known whether it will.
      return { kind: found.holders >= needed ? 'recorded' : 'unavailable' }
    }
    if (found === undefined || found.holders < needed) return { kind: 'fenced' }
    // The lease may have been forgotten as not carried out, and the key used for another content since.
    const winner = found.best.fingerprint === fingerprint ? decode(key, found.best.outcome) : undefined
    return winner === undefined
      ? { kind: 'fenced' }
      : { kind: 'fenced', winner: { outcome: winner, token: found.best.acceptedToken } }
  }

  async function release(lease: Lease): Promise<ReleaseResult> {
    const { key, token, owner, leaseMs, retentionMs } = lease
    const startedMonoMs = clock.monoMs()
    const round = await quorum.run({ kind: 'release', key, token, owner, keyTtlMs: retentionMs + leaseMs })
    const result: ReleaseResult = round.carried
      ? { kind: 'released' }
      : { kind: (await rejection(round, ['released'])) === 'refused' ? 'not_owner' : 'unavailable' }
    const durationMs = clock.monoMs() - startedMonoMs
    events.publish({ kind: 'lease_released', recordKey: key, result: result.kind, durationMs })
    return result
  }

  async function rejection(
    round: Round,
    inFavour: readonly NodeAnswer['kind'][],
  ): Promise<'refused' | 'unavailable'> {
    if (explainRejected(round.answers, false, inFavour) === 'undecided') await round.settled
    return explainRejected(round.answers, true, inFavour) === 'refused' ? 'refused' : 'unavailable'
  }

  async function read(key: string): Promise<ReadResult> {
    const round = await quorum.run({ kind: 'read', key })
    if (explainRead(round.answers, false).kind === 'undecided') await round.settled
    const says = explainRead(round.answers, true)
    switch (says.kind) {
      case 'unavailable':
        return { kind: 'unavailable', answered: says.answered, required: needed }
      case 'absent':
        return { kind: 'absent' }
      case 'released':
        return { kind: 'released', token: says.fence }
      case 'claimed': {
        const { fence: token, sighted, carried, ...claim } = says
        return { ...claim, token, ...(sighted ? { sighted } : {}), ...(carried ? { carried } : {}) }
      }
      case 'completed': {
        const { acceptedToken: token, attempt, fingerprint, outcome: bytes } = says.record
        const outcome = decode(key, bytes)
        return outcome === undefined
          ? { kind: 'damaged' }
          : { kind: 'completed', token, attempt, fingerprint, outcome }
      }
      case 'undecided':
        throw new Error('a settled round is never undecided')
    }
  }

  return {
    claim: (request) => claimIdentity(request, { quorum, tokens, clock, random, events }),
    renew,
    complete,
    release,
    read,
  }
}

/**
 * Some node had taken the outcome before the others heard of it, and a later claimant wrote it under its own token: what
 * stands is what this holder did, and no later execution's.
 */
function adoptedByAnother(
  accepted: { readonly acceptedToken: Token; readonly attempt: number; readonly outcome: Buffer },
  lease: Lease,
  bytes: Buffer,
): boolean {
  return (
    accepted.acceptedToken > lease.token &&
    accepted.attempt === lease.attempt &&
    accepted.outcome.equals(bytes)
  )
}

/** The same outcome was offered under this very lease before, at another moment: the caller asks again. */
function acceptedEarlier(
  accepted: { readonly acceptedToken: Token; readonly outcome: Buffer },
  lease: Lease,
  outcome: StoredOutcome,
): boolean {
  if (accepted.acceptedToken !== lease.token) return false
  const decoded = decodeOutcome(accepted.outcome)
  if (decoded.kind === 'damaged') return false
  const { completedAtWallMs } = decoded.outcome
  return encodeOutcome({ ...outcome, completedAtWallMs }).equals(accepted.outcome)
}
