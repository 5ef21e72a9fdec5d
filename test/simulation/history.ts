/**
 * What was seen in one history, for the checkers: written down by the world, judged afterwards.
 *
 * Owns the record of facts, each with the time on the history's own clock, which no actor can see. Nothing here decides.
 */

import type { Outcome } from '../../src/core/outcome.ts'
import type { Lease, ReadResult } from '../../src/core/ports.ts'
import type { Operation } from './plan.ts'

/** A claim that somebody was granted. */
export type Grant = {
  /** As last raised to a larger token, which its nodes hold from then on. */
  lease: Lease
  readonly process: string
  readonly askedMs: number
  readonly grantedMs: number
  /** The end of its validity on the holder's monotonic clock, as last renewed. */
  validUntilMs: number
  /** It was over and was renewed later, because nobody had claimed meanwhile: in between nobody held it. */
  readonly gaps: { readonly fromMs: number; readonly untilMs: number }[]
  releaseSentMs: number | undefined
  /** The holder was told that a majority has given it back. */
  releasedMs: number | undefined
  /** The same claimant asked again: it relies on nothing that an earlier answer granted, because a round that is lost is given back. */
  askedAgainMs: number | undefined
  /** The holder was told that a majority has its outcome. */
  recordedMs: number | undefined
  /** What it offered as the outcome, as soon as it did. */
  offered: string | undefined
  /** When it did so first: from here on nodes keep it for as long as it is to be kept. */
  offeredMs: number | undefined
  ended: { readonly how: string; readonly atMs: number } | undefined
  /** The holder said that it stops without having settled (the application did not answer, or it vanished). */
  abandonedMs: number | undefined
}

/** Until when its holder may believe that it holds. */
export function heldUntilMs(grant: Grant): number {
  return Math.min(
    grant.validUntilMs,
    grant.releaseSentMs ?? Number.POSITIVE_INFINITY,
    grant.askedAgainMs ?? Number.POSITIVE_INFINITY,
    // It has ended what it held it for; what may be done after that is S5.
    grant.recordedMs ?? Number.POSITIVE_INFINITY,
    // Also where it never heard so: nodes forget it for as long after as it is to be kept.
    grant.offeredMs === undefined ? Number.POSITIVE_INFINITY : rememberedUntilMs(grant),
  )
}

/** Its holder is told that its lease goes on. */
export function renewUntil(grant: Grant, untilMs: number, toldMs: number): void {
  if (grant.validUntilMs < toldMs) grant.gaps.push({ fromMs: grant.validUntilMs, untilMs: toldMs })
  grant.validUntilMs = untilMs
}

/** Whether its holder may believe throughout that it holds. */
export function isHeldThrough(grant: Grant, fromMs: number, untilMs: number): boolean {
  const over = grant.gaps.some((gap) => gap.fromMs < untilMs && gap.untilMs > fromMs)
  return heldUntilMs(grant) > untilMs && !over
}

/** Until when what this grant left on nodes is remembered, at the least. */
export function rememberedUntilMs({ lease, validUntilMs, offeredMs = validUntilMs }: Grant): number {
  return Math.min(offeredMs, validUntilMs) + lease.retentionMs * SURELY_KEPT
}

/** Clocks differ: an outcome may be over by so much sooner than by the history's own clock. */
const SURELY_KEPT = 0.99

/** The application carried something out. */
export type Execution = {
  readonly id: string
  readonly operation: number
  readonly key: string
  readonly fingerprint: string
  readonly token: number
  readonly attempt: number
  readonly process: string
  readonly startedMs: number
  /** What stood guard: a lease of the quorum, one of the process alone, or nothing. */
  readonly under: Guard
}

export type Guard = 'quorum' | 'local' | 'nothing'

/** What a process carried out under its own record while the quorum was away, and what became of telling the quorum. */
export type LocalCompletion = {
  readonly key: string
  readonly process: string
  readonly content: string
  readonly atMs: number
  writtenBack: 'recorded' | 'conflict' | 'dropped' | undefined
}

export type Submission = {
  readonly index: number
  readonly operation: Operation
  readonly key: string
  readonly fingerprint: string
  readonly process: string
  readonly askedMs: number
  readonly healed: boolean
  /** Handed to the application, whether it was reached or not. */
  forwarded: boolean
  /** Undefined where the quorum decided. */
  without: 'local' | 'nothing' | undefined
  answeredMs: number | undefined
  outcome: Outcome | undefined
  /** Which other process serves a later call of it. */
  handedTo?: string
}

/** An outcome that somebody was shown as the recorded one of a key. */
export type Shown = {
  readonly key: string
  readonly fingerprint: string
  readonly content: string
  readonly askedMs: number
  readonly atMs: number
  readonly by: 'created' | 'replayed' | 'fenced' | 'read'
}

/** What somebody was told who only looked. */
export type Looked = {
  readonly key: string
  readonly process: string
  readonly askedMs: number
  readonly answeredMs: number
  readonly result: ReadResult
}

/** An outcome of which its holder was told that it will never stand. */
export type Refused = {
  readonly key: string
  readonly content: string
  readonly process: string
  readonly askedMs: number
  readonly atMs: number
}

export type Violation = { readonly invariant: string; readonly atMs: number; readonly detail: string }

export class History {
  readonly grants: Grant[] = []
  readonly executions: Execution[] = []
  /** Claims that a process granted itself while the quorum was away. */
  readonly localGrants: Grant[] = []
  readonly localCompletions: LocalCompletion[] = []
  readonly submissions: Submission[] = []
  readonly shown: Shown[] = []
  readonly looked: Looked[] = []
  readonly refused: Refused[] = []
  readonly violations: Violation[] = []
  /** Found on the way, of promises that rest on assumption A1. */
  readonly ifA1: Violation[] = []
  readonly orphansTold = new Set<string>()
  readonly seen = new Map<Sight, number>()
  /** When processes did not run, by name. */
  readonly stops = new Map<string, readonly { readonly fromMs: number; readonly untilMs: number }[]>()
  #trace: string[] | undefined
  #digest = 0

  /** Counts something that must be seen sometimes, or a campaign proves nothing. */
  saw(sight: Sight): void {
    this.seen.set(sight, (this.seen.get(sight) ?? 0) + 1)
  }

  violated(invariant: string, atMs: number, detail: string): void {
    this.violations.push({ invariant, atMs, detail })
  }

  /** Counts only where not more memory was lost than the promises allow for. */
  beyondA1(invariant: string, atMs: number, detail: string): void {
    this.ifA1.push({ invariant, atMs, detail })
  }

  keepTrace(): string[] {
    this.#trace = []
    return this.#trace
  }

  /** One step, for the digest that shows that a replay is exact; its text is made only where somebody reads it. */
  step(atMs: number, code: number, text: () => string): void {
    this.#digest = Math.imul(this.#digest ^ (atMs * 1_000) ^ Math.imul(code, 0x9e3779b1), 0x01000193)
    this.#trace?.push(`${atMs.toFixed(2).padStart(10)} ms  ${text()}`)
  }

  get digest(): string {
    return (this.#digest >>> 0).toString(16).padStart(8, '0')
  }

  /** Whether the holder was stopped or died between its grant and the end of its lease. */
  wasStopped(grant: Grant): boolean {
    return (this.stops.get(grant.process) ?? []).some(
      ({ fromMs, untilMs }) => fromMs <= grant.validUntilMs && untilMs >= grant.grantedMs,
    )
  }

  grantOf(lease: Pick<Lease, 'key' | 'token' | 'owner'>): Grant | undefined {
    return this.grants.find(
      (grant) =>
        grant.lease.token === lease.token &&
        grant.lease.owner === lease.owner &&
        grant.lease.key === lease.key,
    )
  }

  submissionOf(index: number): Submission | undefined {
    return this.submissions.find((submission) => submission.index === index)
  }

  /** Whether an outcome that somebody was shown is to be known still. */
  isKept({ key, content }: Pick<Shown, 'key' | 'content'>, atMs: number): boolean {
    const source = this.grants.find((grant) => grant.lease.key === key && grant.offered === content)
    return source === undefined || rememberedUntilMs(source) >= atMs
  }

  /** The same, also where the token to which it is raised is not known to its nodes yet. */
  grantRaisedTo({ key, owner, token }: Pick<Lease, 'key' | 'token' | 'owner'>): Grant | undefined {
    return this.grants.findLast(
      ({ lease }) => lease.owner === owner && lease.key === key && lease.token <= token,
    )
  }
}

/** What a campaign must have seen at least once. */
export const SIGHTS = [
  'granted',
  'created',
  'replayed',
  'mismatch',
  'in_progress',
  'takeover',
  'outcome_adopted',
  'conflict_repaired',
  'fenced_completion',
  'winner_shown',
  'quorum_lost',
  'unstored',
  'indeterminate',
  'undecided',
  'claim_expired',
  'stale_token_proposed',
  'skewed_token_proposed',
  'renewed',
  'renewal_lost',
  'lease_expired',
  'stale_write_refused',
  'released',
  'quarantined_answer',
  'node_wiped',
  'node_forgot_a_part',
  'node_restarted_whole',
  'node_flushed',
  'node_leapt',
  'leap_noticed',
  'enrolled_after_leap',
  'enrolled',
  'drained',
  'drained_set_back',
  'drained_empty',
  'drained_flushed',
  'too_many_drained',
  'continued',
  'told_by_all',
  'enrolment_copied_outcome',
  'enrolment_copied_sighting',
  'enrolment_superseded',
  'loss_refused',
  'overwhelmed',
  'loss_declared',
  'process_paused_beyond_lease',
  'process_crashed_holding',
  'message_executed_twice',
  'answered_from_memory',
  'outcome_from_memory',
  'unprotected',
  'local_created',
  'local_replayed',
  'written_back',
  'written_back_conflict',
  'swept',
  'orphan_told',
  'orphan_concluded',
  'orphan_forgotten',
  'raised',
  'reserved_together',
  'completed_together',
  'entity_busy',
  'duplicate_content',
  'adoption_refused',
  'cluster_founded',
  'cluster_refused',
  'answer_too_old',
  'full_node_answered',
  'full_node_refused',
  'founding_objected',
  'carried_out_after_retention',
] as const

export type Sight = (typeof SIGHTS)[number]
