/**
 * Claiming one identity on the quorum: rounds of proposals until one is granted, refused for good, or the budget ends.
 *
 * Owns which token to propose, when a claim is valid, when an outcome is adopted instead of executed again, and when to
 * retry. `core/quorum/refused-claim.ts` explains a round's answers; what a holder does afterwards is `leases.ts`.
 *
 * Source: redis.io, "Distributed Locks with Redis" (validity, release after a failed round); L. Lamport, "Paxos Made
 * Simple" (adopting the accepted value with the largest ballot).
 */

import { type Clock, type Instant, now, type Random } from '../clock.ts'
import type { Events } from '../events.ts'
import type { ClaimRequest, ClaimResult, Quorum, Round } from '../ports.ts'
import { explainRefusedClaim, type Refusal } from '../quorum/refused-claim.ts'
import {
  answered,
  attemptOf,
  bestCompleted,
  type Completed,
  isForWantOfRoom,
  mayHaveGranted,
  timeOfMajority,
  wellBesides,
} from '../quorum/tally.ts'
import type { Owner } from '../record/record.ts'
import { decodeOutcome, leftOf, saysOtherwise } from '../record/stored-outcome.ts'
import { NO_TOKEN, type Token, type TokenSource } from '../record/token.ts'
import { type Backoff, jitteredDelayMs, pause } from '../retry.ts'
import { majorityOf } from '../units.ts'
import { remainingMs, validityFrom } from './lease.ts'

/** Between rounds without a winner. Short, as a round takes about a millisecond; jittered, as others wait too. */
const CONTENTION_BACKOFF: Backoff = { initialMs: 4, maxMs: 40 }
/** The longest pause, in first ones. */
const BACKOFF_GROWTH_MAX = 10

type ClaimPorts = {
  readonly quorum: Quorum
  readonly tokens: TokenSource
  readonly clock: Clock
  /** Of the nodes' clocks, by which outcomes end. */
  readonly nodesMs: () => number
  readonly random: Random
  readonly newOwner: () => Owner
  readonly events: Events
}

type Unavailable = Extract<ClaimResult, { kind: 'unavailable' }>
type Heard = Pick<Unavailable, 'answered' | 'well' | 'full'>

/** One claimant's proposal in one round. */
type Proposal = {
  readonly request: ClaimRequest
  readonly owner: Owner
  readonly token: Token
  readonly startedAt: Instant
}

/** `otherwise` is the result where the budget does not allow another round. */
type Step =
  | { readonly kind: 'done'; readonly result: ClaimResult }
  | {
      readonly kind: 'again'
      readonly above: Token
      readonly atOnce: boolean
      readonly otherwise: ClaimResult
    }

/** No holder is known. Its Retry-After is for a client: races end within a budget. */
export const CONTENDED = { kind: 'contended', retryAfterMs: 1_000 } as const satisfies ClaimResult

/**
 * Claims within `request.budgetMs`. A round under way at its end is finished, bounded by the nodes' deadlines; the caller does not
 * wait for it (`claim-deadline.ts`).
 */
export async function claimIdentity(request: ClaimRequest, ports: ClaimPorts): Promise<ClaimResult> {
  const { clock, random, events } = ports
  const startedMonoMs = clock.monoMs()
  let owner = request.owner ?? ports.newOwner()
  let largest = NO_TOKEN
  let token = ports.tokens.next()
  for (let rounds = 1; ; rounds += 1) {
    largest = Math.max(largest, token)
    const { step, heard } = await proposeOnce({ request, owner, token, startedAt: now(clock) }, ports)
    const end = (result: ClaimResult): ClaimResult => {
      events.publish({
        kind: 'claim_ended',
        result: result.kind,
        recordKey: request.key,
        rounds,
        durationMs: clock.monoMs() - startedMonoMs,
        answered: heard,
        ...(result.kind === 'granted' ? { token: result.lease.token } : {}),
      })
      return result.kind === 'granted' || result.kind === 'unavailable'
        ? result
        : { ...result, answered: heard }
    }
    if (step.kind === 'done') return end(step.result)
    if (rounds > (request.terms?.retry.count ?? Number.POSITIVE_INFINITY)) return end(step.otherwise)
    const delayMs = step.atOnce ? 0 : jitteredDelayMs(backoffOf(request), rounds - 1, random)
    if (clock.monoMs() - startedMonoMs + delayMs >= request.budgetMs) return end(step.otherwise)
    if (delayMs > 0) await pause(clock, delayMs)

    token = ports.tokens.next(step.above)
    if (token > largest) continue
    // Tokens were rewound. Late messages of an earlier round have larger tokens and pass for a later round of the same
    // claimant: they could claim again, or release what is granted now. So take another owner, or stop.
    if (request.owner !== undefined) return end(step.otherwise)
    owner = ports.newOwner()
  }
}

/** One round, what follows from it, and how many nodes had answered by then. */
async function proposeOnce(
  proposal: Proposal,
  ports: ClaimPorts,
): Promise<{ readonly step: Step; readonly heard: number }> {
  const { request, owner, token } = proposal
  const { key, fingerprint, leaseMs } = request
  const command = { kind: 'claim', key, token, owner, leaseMs, fingerprint } as const
  const round = await ports.quorum.run({ ...command, keyTtlMs: keyTtlMs(request) })
  ports.tokens.catchUpWith(() => timeOfMajority(round.answers))
  const step = await stepFrom(proposal, round, ports)
  return { step, heard: answered(round.answers).length }
}

/** A result, or the reason for another round. */
async function stepFrom(proposal: Proposal, round: Round, ports: ClaimPorts): Promise<Step> {
  const { request } = proposal
  if (round.majorityReached) {
    // A takeover waits for every node: one beyond the majority may hold the outcome of the last attempt. Where a majority knows
    // of no attempt, nobody was granted any, and what fewer show is over or forged: it might as well be shown later.
    const isFirst = attemptOf(round.answers) === 1
    if (!isFirst) await round.settled
    if (isFirst || bestCompleted(round.answers) === undefined) return settleGrant(proposal, round, ports)
  }

  const refusal = await explain(round, request)
  if (refusal.kind === 'completed') {
    void round.settled.then(() => spread(proposal, round, refusal.chosen, ports))
    return duplicate(request, refusal.chosen, round, ports)
  }
  if (refusal.kind === 'minority_outcome' && refusal.mayWriteBack)
    return adopt(proposal, round, refusal.best, ports)
  await releaseGranted(proposal, round, ports)
  return stepAfter(refusal, round, ports)
}

async function settleGrant(proposal: Proposal, round: Round, ports: ClaimPorts): Promise<Step> {
  const { request, owner, token, startedAt } = proposal
  const { key, fingerprint, leaseMs, retentionMs, terms } = request
  const attempt = attemptOf(round.answers)
  const lease = {
    key,
    token,
    owner,
    fingerprint,
    attempt,
    leaseMs,
    retentionMs,
    ...validityFrom(startedAt, leaseMs, terms?.driftFactor),
    ...(terms === undefined ? {} : { driftFactor: terms.driftFactor }),
  }
  const leftMs = remainingMs(lease, now(ports.clock))
  const of = () => ({
    recordKey: key,
    token,
    attempt,
    answered: answered(round.answers).length,
    remainingMs: leftMs,
  })
  if (leftMs > 0) {
    if (attempt > 1) ports.events.publish({ kind: 'takeover', ...of() })
    return { kind: 'done', result: { kind: 'granted', lease } }
  }
  // Never hand out a dead lease: it took longer to get than it lasts.
  const elapsedMs = ports.clock.monoMs() - startedAt.monoMs
  ports.events.publish({ kind: 'claim_expired', ...of(), elapsedMs })
  await releaseGranted(proposal, round, ports)
  return again(unavailable({ answered: answered(round.answers).length }, ports))
}

/** Waits for the rest of a round only where the answers so far do not decide it. */
async function explain(round: Round, { onHeard }: Proposal['request']): Promise<Refusal> {
  const report = () => onHeard?.(answered(round.answers).length, wellBesides(round.answers))
  // Before it waits: a claim whose budget ends meanwhile is answered by how many nodes are well.
  report()
  const early = explainRefusedClaim(round.answers, false)
  if (early.kind !== 'undecided') return early
  await round.settled
  report()
  return explainRefusedClaim(round.answers, true)
}

/**
 * Fewer than a majority hold an outcome, and a majority promised us their vote: write that outcome under our own token.
 * A caller may see it only once a majority has it.
 */
async function adopt(proposal: Proposal, round: Round, leading: Completed, ports: ClaimPorts): Promise<Step> {
  const { request, owner, token } = proposal
  const { key } = request
  // A node that has not answered yet may have an intact copy.
  if (decodeOutcome(leading.outcome).kind === 'damaged') await round.settled
  const best = bestCompleted(round.answers)?.best ?? leading
  const { fingerprint, attempt, outcome } = best
  const decoded = decodeOutcome(outcome)
  if (decoded.kind === 'damaged') {
    // Writing it again would put a damaged copy above an intact one that we can't see.
    await releaseGranted(proposal, round, ports)
    return duplicate(request, best, round, ports)
  }
  const of = { recordKey: key, holder: decoded.token ?? best.acceptedToken, attempt }
  const seen = round.answers.flatMap((answer) => (answer?.kind === 'completed' ? [answer] : []))
  // One outcome at two tokens is an interrupted adoption, and no conflict.
  if (seen.some((one) => saysOtherwise(one.outcome, outcome))) {
    const tokens = [...new Set(seen.map(({ acceptedToken }) => acceptedToken))]
    const heard = answered(round.answers).length
    ports.events.publish({ kind: 'conflict_repaired', ...of, tokens, answered: heard })
  }
  // It replaces only the promise made to us: that expires with the record, and another claimant may hold the key now.
  const command = { kind: 'complete', key, token, acceptedToken: token, owner } as const
  const keyTtlMs = leftOf(outcome, request.retentionMs, ports.nodesMs())
  const written = await ports.quorum.run({ ...command, fingerprint, attempt, outcome, keyTtlMs })
  if (written.majorityReached) {
    const heard = answered(written.answers).length
    ports.events.publish({ kind: 'outcome_adopted', ...of, token, answered: heard })
    return duplicate(request, { ...best, acceptedToken: token }, round, ports)
  }
  await releaseGranted(proposal, round, ports)
  return again(CONTENDED, token)
}

/**
 * A majority holds the outcome, and some nodes granted us a claim because they missed it: write the outcome to them, at
 * the token at which it was chosen and for the rest of its time. Else they would show a claim without a holder until
 * its lease ends. At our own token it would be a new acceptance by a minority, which hides that it was chosen.
 */
async function spread(proposal: Proposal, round: Round, chosen: Completed, ports: ClaimPorts): Promise<void> {
  const others = round.answers.flatMap((answer, index) => (answer?.kind === 'granted' ? [] : [index]))
  if (others.length === ports.quorum.nodeCount) return
  const { request, owner, token } = proposal
  const { fingerprint, attempt, outcome, acceptedToken } = chosen
  if (decodeOutcome(outcome).kind === 'damaged') return releaseGranted(proposal, round, ports)
  const command = { kind: 'complete', key: request.key, token, acceptedToken, owner } as const
  const keyTtlMs = leftOf(outcome, request.retentionMs, ports.nodesMs())
  await ports.quorum.run({ ...command, fingerprint, attempt, outcome, keyTtlMs }, new Set(others))
}

function duplicate(request: ClaimRequest, chosen: Completed, round: Round, ports: ClaimPorts): Step {
  if (chosen.fingerprint !== request.fingerprint) return { kind: 'done', result: { kind: 'mismatch' } }
  const decoded = decodeOutcome(chosen.outcome)
  if (decoded.kind === 'damaged') {
    ports.events.publish({
      kind: 'outcome_damaged',
      recordKey: request.key,
      reason: decoded.reason,
      attempt: chosen.attempt,
      answered: answered(round.answers).length,
    })
    return { kind: 'done', result: { kind: 'damaged' } }
  }
  const { outcome, token = chosen.acceptedToken } = decoded
  const lastsMs = leftOf(chosen.outcome, request.retentionMs, ports.nodesMs())
  return { kind: 'done', result: { kind: 'duplicate', outcome, token, attempt: chosen.attempt, lastsMs } }
}

function stepAfter(refusal: Exclude<Refusal, { kind: 'completed' }>, round: Round, ports: ClaimPorts): Step {
  switch (refusal.kind) {
    case 'mismatch':
    case 'held':
      return { kind: 'done', result: refusal }
    case 'stale':
      return { kind: 'again', above: refusal.above, atOnce: true, otherwise: CONTENDED }
    case 'skewed': {
      ports.tokens.rewindTo(refusal.nodeMs)
      const otherwise = unavailable({ answered: answered(round.answers).length }, ports)
      return { kind: 'again', above: NO_TOKEN, atOnce: true, otherwise }
    }
    case 'minority_outcome':
      return again(refusal.holder ?? CONTENDED, refusal.above)
    case 'contended':
      return again(CONTENDED, refusal.above)
    case 'unavailable': {
      const result = unavailable(refusal, ports)
      // The nodes are healthy, and no round of this claim makes room.
      return isForWantOfRoom(result) ? { kind: 'done', result } : again(result)
    }
    case 'undecided':
      throw new Error('a settled round is never undecided')
  }
}

function again(otherwise: ClaimResult, above: Token = NO_TOKEN): Step {
  return { kind: 'again', above, atOnce: false, otherwise }
}

function unavailable({ answered, well = 0, full = 0 }: Heard, { quorum }: ClaimPorts): Unavailable {
  const counted = { answered, required: majorityOf(quorum.nodeCount) }
  const others = { ...(well === 0 ? {} : { well }), ...(full === 0 ? {} : { full }) }
  return { kind: 'unavailable', ...counted, ...others }
}

/**
 * Withdraws the claim on every node that granted or may have, before the next attempt; the other nodes hear nothing. A node
 * refuses where another call of the same session renewed the claim meanwhile.
 */
async function releaseGranted(proposal: Proposal, round: Round, ports: ClaimPorts): Promise<void> {
  const { request, owner, token } = proposal
  const skip = new Set(round.answers.flatMap((answer, index) => (mayHaveGranted(answer) ? [] : [index])))
  if (skip.size === ports.quorum.nodeCount) return
  await ports.quorum.run(
    { kind: 'release', key: request.key, token, owner, keyTtlMs: keyTtlMs(request), withdraws: true },
    skip,
  )
}

function backoffOf({ terms }: ClaimRequest): Backoff {
  if (terms === undefined) return CONTENTION_BACKOFF
  const { delayMs, jitter } = terms.retry
  return { initialMs: delayMs, maxMs: BACKOFF_GROWTH_MAX * delayMs, jitter }
}

/** The fence outlives the lease by as long as an outcome would be kept. */
function keyTtlMs(request: Pick<ClaimRequest, 'retentionMs' | 'leaseMs'>): number {
  return request.retentionMs + request.leaseMs
}
