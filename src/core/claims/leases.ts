/**
 * What a holder does on the quorum: renew, complete, release; and reads for every caller.
 *
 * Owns the quorum side of the record protocol together with `claim.ts`. It sends rounds through the `Quorum` port and
 * leaves single nodes to `record-rules.ts` and the meaning of their answers to `core/quorum/`. Every promise settles: a
 * round is bounded by the nodes' deadlines.
 */

import { type Clock, driftMs, now, type Random } from '../clock.ts'
import type { Events, FailedRenewal } from '../events.ts'
import type {
  CompleteResult,
  Lease,
  Leases,
  NodeAnswer,
  Quorum,
  ReadResult,
  ReleaseResult,
  RenewResult,
  Round,
} from '../ports.ts'
import {
  type ClaimedRead,
  type CompletedRecord,
  explainRead,
  type MajorityRead,
} from '../quorum/majority-read.ts'
import { explainRefusedCompletion } from '../quorum/refused-completion.ts'
import { ANSWER_MAX_AGE_MS, type Answers, answered, explainRejected, repliesOf } from '../quorum/tally.ts'
import { NO_OWNER, type Owner } from '../record/record.ts'
import {
  type DecodedOutcome,
  decodeOutcome,
  encodeOutcome,
  type OutcomeEnd,
  type StoredOutcome,
} from '../record/stored-outcome.ts'
import { type Token, TokenSource } from '../record/token.ts'
import { majorityOf } from '../units.ts'
import { claimIdentity } from './claim.ts'
import { remainingMs, validityFrom } from './lease.ts'

type LeasesOptions = {
  readonly quorum: Quorum
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  /** Of the nodes' clocks, by which outcomes end. Default: our own. */
  readonly nodesMs?: () => number
  /** By how much a node's clock may be set without anybody minding. Default: not at all. */
  readonly clockStepMs?: number
  /** Hex digits of whole bytes that the owner of each claim begins with; the rest of its 16 bytes is random. Default: none. */
  readonly ownerMark?: string
}

/** What a command needs beside its lease. */
type LeasePorts = Pick<LeasesOptions, 'quorum' | 'clock' | 'events'>
type Completing = LeasePorts & { readonly endAfter: (retentionMs: number) => OutcomeEnd }

const OWNER_BYTES = 16

export function createLeases(options: LeasesOptions): Leases {
  const { clock, random, ownerMark = '', nodesMs = clock.wallMs.bind(clock), clockStepMs = 0 } = options
  const newOwner = () => ownerMark + random.hex(OWNER_BYTES - ownerMark.length / 2)
  const ports = { ...options, nodesMs, newOwner, tokens: new TokenSource(clock, random.fraction()) }
  // A node's record ends with its key, by the node's own clock, and its answer may have taken its time.
  const endAfter = (retentionMs: number): OutcomeEnd => ({
    atMs: Math.ceil(nodesMs()) + retentionMs,
    toleratedMs: driftMs(retentionMs) + clockStepMs + ANSWER_MAX_AGE_MS,
  })
  return {
    claim: (request) => claimIdentity(request, ports),
    renew: (lease) => renew(lease, options),
    renewWithHigherToken: (lease) => renew(lease, options, { raises: true }),
    complete: (lease, outcome) => complete(lease, outcome, { ...options, endAfter }),
    release: (lease) => release(lease, options),
    abortClaim: (lease) => release(lease, options, { withdraws: true }),
    purge: (lease) => release(lease, options, { forgets: true }),
    read: (key) => read(key, options),
  }
}

async function renew(
  lease: Lease,
  { quorum, clock, events }: LeasePorts,
  how: { readonly raises?: true } = {},
): Promise<RenewResult> {
  const startedAt = now(clock)
  const { key, token, owner, leaseMs, retentionMs, fingerprint, attempt } = lease
  const command = { kind: 'renew', key, token, owner, leaseMs, fingerprint, attempt, ...how } as const
  const round = await quorum.run({ ...command, keyTtlMs: retentionMs + leaseMs })
  const renewedLease = { ...lease, ...validityFrom(startedAt, leaseMs, lease.driftFactor) }
  const result: RenewResult =
    round.majorityReached && remainingMs(renewedLease, now(clock)) > 0
      ? { kind: 'renewed', lease: renewedLease }
      : await unrenewed(round)
  const durationMs = clock.monoMs() - startedAt.monoMs
  events.publish({
    kind: 'lease_renewed',
    recordKey: key,
    token,
    result: result.kind,
    durationMs,
    ...(result.kind === 'renewed' ? {} : { failed: failedRenewal(lease, round, clock) }),
  })
  return result
}

function failedRenewal(lease: Lease, { answers }: Round, clock: Clock): FailedRenewal {
  const { token, attempt } = lease
  const heard = { answered: answered(answers).length, replies: repliesOf(answers) }
  return { token, attempt, ...heard, remainingMs: remainingMs(lease, now(clock)) }
}

async function unrenewed(round: Round): Promise<RenewResult> {
  // A node that finds the token too far ahead says nothing of another holder.
  if ((await rejection(round, ['renewed', 'skewed'])) === 'refused') return { kind: 'lost' }
  const skewed = round.answers.some((answer) => answer?.kind === 'skewed')
  return { kind: 'unavailable', ...(skewed ? { skewed } : {}) }
}

async function complete(lease: Lease, outcome: StoredOutcome, ports: Completing): Promise<CompleteResult> {
  const { clock, events } = ports
  const startedMonoMs = clock.monoMs()
  const result = await offer(lease, outcome, ports)
  const durationMs = clock.monoMs() - startedMonoMs
  const { key: recordKey, token } = lease
  events.publish({ kind: 'outcome_offered', recordKey, token, result: result.kind, durationMs })
  return result
}

async function offer(
  lease: Lease,
  outcome: StoredOutcome,
  { quorum, events, endAfter }: Completing,
): Promise<CompleteResult> {
  const { key, token, owner, fingerprint, attempt, retentionMs } = lease
  const bytes = encodeOutcome(outcome, token, endAfter(retentionMs))
  const command = { kind: 'complete', key, token, owner, fingerprint, attempt, outcome: bytes } as const
  const round = await quorum.run({ ...command, keyTtlMs: retentionMs })
  if (round.majorityReached) return { kind: 'recorded' }
  // An outcome or claim missing from the first answers may be on the nodes still to come.
  await round.settled
  const says = explainRefusedCompletion(round.answers, { token, attempt, outcome: bytes })
  const heard = answered(round.answers).length
  if (says.kind !== 'fenced') return says.kind === 'recorded' ? says : { kind: says.kind, answered: heard }
  const { chosen } = says
  // The lease may have been forgotten as not executed, and the key used for another content since.
  const winner = chosen?.fingerprint === fingerprint ? decode(key, chosen.outcome, events) : undefined
  return chosen === undefined || winner === undefined
    ? { kind: 'fenced', answered: heard }
    : {
        kind: 'fenced',
        winner: { outcome: winner.outcome, token: winner.token ?? chosen.acceptedToken },
        answered: heard,
      }
}

async function release(
  lease: Lease,
  { quorum, clock, events }: LeasePorts,
  how: { readonly withdraws?: true; readonly forgets?: true } = {},
): Promise<ReleaseResult> {
  const { key, token, owner, leaseMs, retentionMs } = lease
  const startedMonoMs = clock.monoMs()
  const keyTtlMs = retentionMs + leaseMs
  const round = await quorum.run({ kind: 'release', key, token, owner, keyTtlMs, ...how })
  const result: ReleaseResult = round.majorityReached
    ? { kind: 'released' }
    : { kind: (await rejection(round, ['released'])) === 'refused' ? 'not_owner' : 'unavailable' }
  const durationMs = clock.monoMs() - startedMonoMs
  events.publish({ kind: 'lease_released', recordKey: key, token, result: result.kind, durationMs })
  return result
}

async function rejection(
  round: Round,
  inFavour: readonly NodeAnswer['kind'][],
): Promise<'refused' | 'unavailable'> {
  if (explainRejected(round.answers, false, inFavour) === 'undecided') await round.settled
  return explainRejected(round.answers, true, inFavour) === 'refused' ? 'refused' : 'unavailable'
}

async function read(key: string, { quorum, events }: LeasePorts): Promise<ReadResult> {
  const required = majorityOf(quorum.nodeCount)
  const round = await quorum.run({ kind: 'read', key })
  if (explainRead(round.answers, false).kind === 'undecided') await round.settled
  const says = explainRead(round.answers, true)
  switch (says.kind) {
    case 'unavailable':
    case 'uncertain':
      return { kind: 'unavailable', answered: says.answered, required }
    case 'absent':
      return { kind: 'absent' }
    case 'released':
      return { kind: 'released', token: says.fence }
    case 'claimed':
      return { ...claimed(says), ...keptFor(round) }
    case 'minority_outcome': {
      if (await helpToMajority(key, says, round.answers, quorum)) return completed(key, says.record, events)
      const kept = keptFor(round)
      if (says.claim !== undefined) return { ...claimed(says.claim), minorityOutcome: true, ...kept }
      const { acceptedToken: token, attempt, fingerprint } = says.record
      const minorityOutcome = { token, attempt, fingerprint }
      const heard = answered(round.answers).length
      return { kind: 'unavailable', answered: heard, required, minorityOutcome, ...kept }
    }
    case 'completed':
      return completed(key, says.record, events)
    case 'undecided':
      throw new Error('a settled round is never undecided')
  }
}

function keptFor({ answers }: Round): { readonly keptForMs?: number } {
  const lifetimesMs = answers.flatMap((answer) => (answer?.kind === 'record' ? (answer.ttlMs ?? []) : []))
  return lifetimesMs.length === 0 ? {} : { keptForMs: Math.max(...lifetimesMs) }
}

function completed(key: string, record: CompletedRecord, events: Events): ReadResult {
  const { acceptedToken, attempt, fingerprint, outcome: bytes } = record
  const decoded = decode(key, bytes, events)
  if (decoded === undefined) return { kind: 'damaged' }
  const { outcome, token = acceptedToken } = decoded
  return { kind: 'completed', token, attempt, fingerprint, outcome }
}

function claimed(read: ClaimedRead): Extract<ReadResult, { kind: 'claimed' }> {
  const { fence: token, majorityReached, leftovers, ...claim } = read
  return {
    ...claim,
    token,
    ...(majorityReached ? { majorityReached } : {}),
    ...(leftovers === undefined ? {} : { leftovers }),
  }
}

function decode(
  key: string,
  bytes: Buffer,
  events: Events,
): Extract<DecodedOutcome, { kind: 'intact' }> | undefined {
  const decoded = decodeOutcome(bytes)
  if (decoded.kind === 'intact') return decoded
  events.publish({ kind: 'outcome_damaged', recordKey: key, reason: decoded.reason })
  return undefined
}

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
type MinorityOutcome = Extract<MajorityRead, { kind: 'minority_outcome' }>

/** @returns whether a majority is known to have it now */
async function helpToMajority(
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
